"""Path, query and header parameters that routes share, and what is wrong with them in words."""

import re
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request
from litestar.exceptions import ValidationException
from litestar.params import HeaderParameter, ParameterKwarg, PathParameter
from litestar.typing import FieldDefinition

from agentsched.api.rejected import Rejected
from agentsched.core.problems import Problem
from agentsched.service.errors import NotFound

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


def parameter_problems(request: Request[Any, Any, Any], error: ValidationException) -> list[Problem]:
    """What is wrong with parameters. An id that nothing can have is as absent as any other: raises NotFound."""
    found: list[Problem] = []
    signature = request.route_handler.parsed_fn_signature.parameters
    for message in error.extra or []:
        key = message.get("key", "") if isinstance(message, dict) else ""
        if key in request.path_params:
            raise NotFound(key.removesuffix("_id"), request.path_params[key])
        field = signature.get(key)
        if key == "data":
            found.append(Problem("body_missing", "body", None, "The request has no body.", "Send a JSON object."))
        else:
            got = request.query_params.get(key)
            problem, fix = ("It is not valid.", "Leave it out.") if field is None else _expected(field)
            found.append(Problem("parameter_invalid", key, got, problem, fix))
    return found or [Problem("parameter_invalid", "request", None, error.detail, "See the specification.")]


def _expected(field: FieldDefinition) -> tuple[str, str]:
    kinds = [each.annotation for each in (field, *field.inner_types)]
    words = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)), None)
    if words is not None:
        names = ", ".join(f"`{word.value}`" for word in words)
        return "It has an unknown value.", f"Use one of {names}."
    if bool in kinds:
        return "It has to be true or false.", "Write `true` or `false`."
    bounds = field.kwarg_definition
    if int in kinds and isinstance(bounds, ParameterKwarg):
        return "It has to be a whole number within its bounds.", f"Write a number from {bounds.ge} to {bounds.le}."
    return "It is not valid.", "Leave it out."
