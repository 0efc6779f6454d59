"""Path, query and header parameters that routes share, and what is wrong with them in words."""

import re
from collections.abc import Iterator
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request
from litestar.datastructures import ResponseHeader
from litestar.enums import ParamType
from litestar.exceptions import ValidationException
from litestar.params import HeaderParameter, ParameterKwarg, PathParameter
from litestar.typing import FieldDefinition

from agentsched.api.rejected import Rejected
from agentsched.core.problems import Problem, Refused
from agentsched.service.errors import NotFound
from agentsched.service.field_problems import meant

LARGEST_ID = 2**63 - 1

ConversationId = Annotated[int, PathParameter(ge=1, le=LARGEST_ID, description="The conversation's id")]
ScheduleId = Annotated[int, PathParameter(ge=1, le=LARGEST_ID, description="The schedule's id")]
RunId = Annotated[int, PathParameter(ge=1, le=LARGEST_ID, description="The run's id")]
TaskId = Annotated[int, PathParameter(ge=1, le=LARGEST_ID, description="The task's id")]

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="1 to 255 characters, bare or quoted: the same request with the same key is done once",
    ),
]
IfMatch = Annotated[
    str | None,
    HeaderParameter(name="If-Match", description="The version that the patch is made for, bare or quoted"),
]

REPLAYED = ResponseHeader(
    name="Idempotent-Replayed",
    value="true",
    description="There when an earlier request with this `Idempotency-Key` did it",
    documentation_only=True,
)

_VERSION = re.compile(r'"?([0-9]{1,9})"?')


def version_of(if_match: str | None) -> int:
    """The version in `If-Match`. Raises Rejected: 428 where it is missing, 400 where it is no version."""
    if if_match is None:
        raise Rejected(
            HTTPStatus.PRECONDITION_REQUIRED,
            "if_match_missing",
            "A patch names the version that it is made for. Read the schedule, and send its `version` as `If-Match`.",
        )
    found = _VERSION.fullmatch(if_match.strip())
    if found is None or (if_match.count('"') % 2):
        raise Rejected(
            HTTPStatus.BAD_REQUEST,
            "if_match_malformed",
            f"`If-Match: {if_match[:40]}` is no version. Write the schedule's `version`, such as `If-Match: 3`.",
        )
    return int(found[1])


def bare(header: str | None) -> str | None:
    """A header that may be quoted, without its quotes."""
    if header is not None and len(header) > 1 and header[0] == header[-1] == '"':
        return header[1:-1]
    return header


def replay_headers(new: bool) -> dict[str, str]:
    """The header of an answer that was given before."""
    return {} if new else {"Idempotent-Replayed": "true"}


def refuse_unknown_query(request: Request[Any, Any, Any]) -> None:
    """A misspelt parameter must not be silently without effect. Raises Refused."""
    injected = request.route_handler.resolve_dependencies()
    known = [name for name, field in _signature(request).items() if _is_query(field) and name not in injected]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise Refused(
            *(
                Problem(
                    "unknown_parameter",
                    name,
                    request.query_params[name],
                    f"There is no parameter `{name[:60]}` here.",
                    meant(name, known),
                )
                for name in unknown
            )
        )


def parameter_problems(request: Request[Any, Any, Any], error: ValidationException) -> list[Problem]:
    """What is wrong with parameters. An id that nothing can have is as absent as any other: raises NotFound."""
    found: list[Problem] = []
    for message in error.extra or []:
        key = message.get("key", "") if isinstance(message, dict) else ""
        if key in request.path_params:
            raise NotFound(key.removesuffix("_id"), request.path_params[key])
        if key == "data":
            found.append(Problem("missing_body", "body", None, "The request has no body.", "Send a JSON object."))
        else:
            name = key.split(".")[0]
            field = _signature(request).get(name)
            expected = "It is not valid." if field is None else _expected(field)
            got = request.query_params.getall(name, None)
            found.append(Problem("wrong_parameter", name, got, expected, "Correct it, or leave it out."))
    return found or [Problem("wrong_parameter", "request", None, error.detail, "See the specification.")]


def _signature(request: Request[Any, Any, Any]) -> dict[str, FieldDefinition]:
    return request.route_handler.parsed_fn_signature.parameters


def _is_query(field: FieldDefinition) -> bool:
    return isinstance(field.kwarg_definition, ParameterKwarg) and field.kwarg_definition.param_type is ParamType.QUERY


def _expected(field: FieldDefinition) -> str:
    kinds = set(_kinds(field))
    words = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)), None)
    bounds = field.kwarg_definition
    if words is not None:
        return f"It is one of {', '.join(f'`{word.value}`' for word in words)}."
    if bool in kinds:
        return "It is `true` or `false`."
    if int in kinds and isinstance(bounds, ParameterKwarg):
        return f"It is a whole number from {bounds.ge} to {bounds.le}."
    return "It is not valid."


def _kinds(field: FieldDefinition) -> Iterator[Any]:
    yield field.annotation
    for inner in field.inner_types:
        yield from _kinds(inner)
