"""What pydantic found wrong with what was sent, in words for whoever wrote it (DESIGN §13)."""

from collections.abc import Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agentsched.core.problems import Problem

BODY = "body"
"""The field of a problem that the body as a whole has."""

LONGEST_GOT = 200

_OBJECT = ("wrong_type", "It has to be a JSON object.", "Send an object, in braces.")
_NUMBER = ("wrong_type", "It has to be a whole number.", "Send a number without quotes and decimals.")
_BOOLEAN = ("wrong_type", "It has to be true or false.", "Send `true` or `false`, without quotes.")
_WORDS = {
    "model_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": ("wrong_type", "It has to be a JSON array.", "Send an array, in brackets."),
    "string_type": ("wrong_type", "It has to be text.", "Send a string, in quotes."),
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "int_type": _NUMBER,
    "int_parsing": _NUMBER,
    "int_from_float": _NUMBER,
    "int_parsing_size": _NUMBER,
    "greater_than_equal": ("out_of_range", "It is too small.", "Send {ge} or more."),
    "less_than_equal": ("out_of_range", "It is too large.", "Send {le} or less."),
    "string_too_short": ("too_short", "It is empty.", "Send at least {min_length} character."),
    "string_too_long": ("too_long", "It is too long.", "Send at most {max_length} characters."),
    "too_short": ("too_short", "There are too few.", "Send at least {min_length}."),
    "too_long": ("too_long", "There are too many.", "Send at most {max_length}."),
    "string_pattern_mismatch": ("control_characters", "It contains control characters.", "Leave them out."),
}
"""By pydantic's kind of error: the code, what is wrong, and what to write instead."""


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Every finding as a problem; unknown fields come with the names that were perhaps meant."""
    found = error.errors(include_url=False)
    known = {details["loc"][:-1] for details in found if details["type"] == "extra_forbidden"}
    return [_problem(details, {path: fields_at(model, path) for path in known}) for details in found]


def shown(got: object) -> object:
    """What was sent, short enough to be sent back."""
    if got is None or isinstance(got, bool | int) or (isinstance(got, float) and isfinite(got)):
        return got
    if isinstance(got, list) and all(isinstance(each, str) for each in got):
        return [shown(each) for each in got[:20]]
    text = got if isinstance(got, str) else str(got)
    return text if len(text) <= LONGEST_GOT else text[:LONGEST_GOT] + "…"


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
    kind = details["type"]
    context = details.get("ctx", {})
    name = str(details["loc"][-1]) if details["loc"] else BODY
    if kind == "extra_forbidden":
        return "unknown_field", f"There is no field `{name[:60]}` here.", meant(name, known)
    if kind == "missing":
        return "missing_field", "It is missing.", f"Send `{name}`."
    if kind in ("enum", "literal_error"):
        expected = str(context["expected"]).replace("'", "`")
        return "unknown_value", f"It is one of {expected}.", meant(str(details["input"]), expected.split("`")[1::2])
    if kind in _WORDS:
        code, problem, fix = _WORDS[kind]
        return code, problem, fix.format(**context)
    if kind.startswith("datetime") or kind == "timezone_aware":
        return "wrong_instant", "It has to be an instant.", "Write one such as `2026-12-03T09:00:00Z`."
    return "invalid_value", f"{details['msg']}.", f"The specification says what `{name}` may be."


def meant(got: str, known: Sequence[str]) -> str:
    """What to write instead of a name that does not exist: the nearest ones, else all."""
    near = get_close_matches(got.lower(), known, n=2)
    if near:
        return f"Did you mean {' or '.join(f'`{each}`' for each in near)}?"
    return f"There are {', '.join(f'`{each}`' for each in known)}." if known else "Leave it out."
