"""What pydantic found wrong with a body, in words for whoever wrote it (DESIGN §13)."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentsched.core.problems import Problem

BODY = "body"
"""The field of a problem that the body as a whole has."""


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Every finding as a problem; unknown fields come with the names that were perhaps meant."""
    found = error.errors(include_url=False)
    known = {details["loc"][:-1] for details in found if details["type"] == "extra_forbidden"}
    return [_problem(details, {path: fields_at(model, path) for path in known}) for details in found]


def path_text(path: Sequence[str | int]) -> str:
    """``("agent", "tools", 1)`` as people write it: ``agent.tools[1]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or BODY


def fields_at(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The names that the object at this path of the model may have."""
    for part in path:
        inner = next((field.annotation for name, field in _named(model) if name == part), None)
        inside = next((each for each in (inner, *get_args(inner)) if _is_model(each)), None)
        if inside is None:
            return []
        model = inside
    return [name for name, _ in _named(model)]


def _named(model: type[BaseModel]) -> list[tuple[str, Any]]:
    return [(field.alias or name, field) for name, field in model.model_fields.items()]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _problem(details: ErrorDetails, known: dict[tuple[int | str, ...], list[str]]) -> Problem:
    field = path_text(details["loc"])
    got = None if details["type"] == "missing" else details["input"]
    code, problem, fix = _words(details, known.get(details["loc"][:-1], []))
    return Problem(code, field, got, problem, fix)


def _words(details: ErrorDetails, known: list[str]) -> tuple[str, str, str]:
    """The code, what is wrong, and what to write instead."""
    context = details.get("ctx", {})
    name = str(details["loc"][-1]) if details["loc"] else BODY
    match details["type"]:
        case "extra_forbidden":
            return "unknown_field", f"There is no field `{name[:60]}` here.", _meant(name, known)
        case "missing":
            return "missing_field", "It is missing.", f"Send `{name}`."
        case "enum":
            expected = str(context["expected"]).replace("'", "`")
            return "unknown_value", f"It is one of {expected}.", _meant(str(details["input"]), expected.split("`")[1::2])
        case "model_type" | "model_attributes_type" | "dict_type":
            return "wrong_type", "It has to be a JSON object.", "Send an object, in braces."
        case "list_type":
            return "wrong_type", "It has to be a JSON array.", "Send an array, in brackets."
        case "string_type":
            return "wrong_type", "It has to be text.", "Send a string, in quotes."
        case "bool_type":
            return "wrong_type", "It has to be true or false.", "Send `true` or `false`, without quotes."
        case "int_type" | "int_from_float" | "int_parsing" | "int_parsing_size":
            return "wrong_type", "It has to be a whole number.", "Send a number without quotes and decimals."
        case "greater_than_equal":
            return "out_of_range", "It is too small.", f"Send {context['ge']} or more."
        case "less_than_equal":
            return "out_of_range", "It is too large.", f"Send {context['le']} or less."
        case "string_too_short":
            return "too_short", "It is empty.", f"Send at least {context['min_length']} character."
        case "string_too_long":
            return "too_long", "It is too long.", f"Send at most {context['max_length']} characters."
        case "too_long":
            return "too_long", "There are too many.", f"Send at most {context['max_length']}."
        case "string_pattern_mismatch":
            return "control_characters", "It contains control characters.", "Leave them out."
        case kind if kind.startswith("datetime"):
            return "wrong_instant", "It has to be an instant.", "Write one such as `2026-12-03T09:00:00Z`."
        case _:
            return "invalid_value", f"{details['msg']}.", f"The specification says what `{name}` may be."


def _meant(got: str, known: Sequence[str]) -> str:
    near = get_close_matches(got.lower(), known, n=2)
    if near:
        return f"Did you mean {' or '.join(f'`{each}`' for each in near)}?"
    return f"There are {', '.join(f'`{each}`' for each in known)}." if known else "Leave it out."
