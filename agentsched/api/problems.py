"""Every refusal and failure as RFC 9457 problem details: a stable code, and all that is wrong at once (DESIGN §13)."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ExceptionHandlersMap
from pydantic import BaseModel, ConfigDict, Field

from agentsched.api.parameters import parameter_problems
from agentsched.api.rejected import Rejected
from agentsched.core.hook_body import MalformedBody, UnsupportedType
from agentsched.core.problems import Problem, Refused
from agentsched.service.errors import (
    Busy,
    Conflict,
    Forbidden,
    NotFound,
    ServiceError,
    StaleVersion,
    TooMany,
    UnknownToken,
)
from agentsched.service.field_problems import shown
from agentsched.store.availability import is_away

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 5
SPECIFICATION_PATH = "/schema/openapi.json"

log = structlog.get_logger(__name__)

AnyRequest = Request[Any, Any, Any]


class FieldProblem(BaseModel):
    """One thing that is wrong with a request."""

    code: str = Field(description="Stable, for programs")
    field: str = Field(description="Where: a field of the body, a parameter or a header")
    got: Any = Field(description="What was sent there, shortened")
    problem: str = Field(description="What is wrong with it")
    fix: str = Field(description="What to write instead")


def _absent(member: object) -> bool:
    return member is None


class ProblemDetails(BaseModel):
    """A refusal or a failure (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "cron: Two occurrences are only 1 minute apart. Write `*/5 * * * *`.",
                    "code": "interval_too_short",
                    "errors": [
                        {
                            "code": "interval_too_short",
                            "field": "cron",
                            "got": "* * * * *",
                            "problem": "Two occurrences are only 1 minute apart.",
                            "fix": "Write `*/5 * * * *`.",
                        }
                    ],
                }
            ]
        }
    )

    type: str = "about:blank"
    title: str = Field(description="The name of the status")
    status: int
    detail: str = Field(description="What happened, and what to do about it, for people")
    code: str = Field(description="Stable, for programs; with several `errors` that of the first")
    errors: list[FieldProblem] = Field(description="Everything that is wrong with the request, field by field")
    count: int | None = Field(
        None,
        exclude_if=_absent,
        description="With `confirmation_required` and `too_many_slots`: how many slots the backfill would run",
    )
    count_is_exact: bool | None = Field(
        None, exclude_if=_absent, description="With `count`; `false`: there are more, too many to be counted"
    )


TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    428: "Precondition Required",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""The names of RFC 9110, which Python's own differ from, one version from another."""

_DESCRIPTIONS = {
    400: "The body is not what its content type says, or a header is malformed",
    401: "There is no credential in force in `Authorization`",
    403: "The key does not allow this",
    404: "There is no such thing for this credential",
    409: "Its state does not allow this",
    412: "Somebody else has changed it",
    413: "The body is too large",
    415: "The body is of a type that is not read here",
    422: "The request is wrong; `errors` says where and what to write",
    428: "`If-Match` is missing",
    429: "A bound is reached and nothing was done; try again after `Retry-After` seconds",
    503: "The database is away, or not ready; try again after `Retry-After` seconds",
}


def may_answer(*statuses: int) -> dict[int, ResponseSpec]:
    """For the specification: the problems that an operation may answer with. All need a key and the database."""
    return described(*sorted({400, 401, 403, 503, *statuses}))


def described(*statuses: int) -> dict[int, ResponseSpec]:
    """For the specification: problems with these statuses."""
    return {
        status: ResponseSpec(
            ProblemDetails, generate_examples=False, description=_DESCRIPTIONS[status], media_type=MEDIA_TYPE
        )
        for status in statuses
    }


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response[ProblemDetails]:
    """An answer with problem details; ``extra`` are members that only some refusals have."""
    body = ProblemDetails(
        title=TITLES[status],
        status=status,
        detail=detail,
        code=code,
        errors=[field_problem(problem) for problem in problems],
        **(extra or {}),
    )
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def address_problem() -> Response[ProblemDetails]:
    """Nothing is at this address."""
    return problem_response(
        404, "address_not_found", f"Nothing is at this address. The addresses are in {SPECIFICATION_PATH}."
    )


def field_problem(problem: Problem) -> FieldProblem:
    """A problem as it is shown."""
    return FieldProblem(**vars(problem) | {"got": shown(problem.got)})


def _refused(_: AnyRequest, error: Refused) -> Response[ProblemDetails]:
    return problem_response(422, error.problems[0].code, str(error), problems=error.problems)


def _service_error(status: HTTPStatus) -> Any:
    def handle(_: AnyRequest, error: ServiceError) -> Response[ProblemDetails]:
        return problem_response(status, error.code, error.message)

    return handle


def _try_later(status: HTTPStatus) -> Any:
    def handle(_: AnyRequest, error: Busy | TooMany) -> Response[ProblemDetails]:
        headers = {"Retry-After": str(error.retry_after_seconds)}
        return problem_response(status, error.code, error.message, headers=headers)

    return handle


def _malformed(_: AnyRequest, error: MalformedBody) -> Response[ProblemDetails]:
    return problem_response(400, error.code, error.message)


def _unsupported(_: AnyRequest, error: UnsupportedType) -> Response[ProblemDetails]:
    return problem_response(415, "unsupported_media_type", str(error))


def _conflict(_: AnyRequest, error: Conflict) -> Response[ProblemDetails]:
    return problem_response(409, error.code, error.message, extra=error.extra)


def _rejected(_: AnyRequest, error: Rejected) -> Response[ProblemDetails]:
    return problem_response(error.status, error.code, error.detail, headers=error.headers)


def _parameters(request: AnyRequest, error: ValidationException) -> Response[ProblemDetails]:
    try:
        problems = parameter_problems(request, error)
    except NotFound as absent:
        return problem_response(404, absent.code, absent.message)
    return problem_response(422, problems[0].code, "; ".join(map(str, problems)), problems=problems)


def _http(request: AnyRequest, error: HTTPException) -> Response[ProblemDetails]:
    """What Litestar itself answers: no such route, no such method, too large a body."""
    status = error.status_code
    if status >= 500:
        return _failed(request, error)
    if status == 404:
        return address_problem()
    if status == 413:
        return _too_large(request)
    if status == 405:
        detail = f"This address does not know {request.method}. `Allow` names what it knows."
        return problem_response(405, "method_not_allowed", detail, headers=error.headers)
    return problem_response(status if status in TITLES else 400, "bad_request", error.detail, headers=error.headers)


def _too_large(request: AnyRequest) -> Response[ProblemDetails]:
    limit = request.route_handler.resolve_request_max_body_size()
    # The server reads the rest and throws it away, so that the sender gets to the answer; unless there is no end to it.
    headers = {} if "content-length" in request.headers else {"Connection": "close"}
    return problem_response(
        413, "body_too_large", f"The body is larger than {limit} bytes. Send less.", headers=headers
    )


def _failed(request: AnyRequest, error: Exception) -> Response[ProblemDetails]:
    """Anything else is a failure of ours, and its details go to the log only."""
    where = {"method": request.method, "route": request.scope.get("path_template")}
    if is_away(error):
        log.warning("database_away", **where, error=type(error).__name__)
        return problem_response(
            503,
            "database_unavailable",
            f"The database does not answer. Try again in {RETRY_AFTER_SECONDS} seconds; with the same Idempotency-Key "
            "nothing is done twice.",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    log.error("request_failed", **where, exc_info=error)
    return problem_response(500, "internal_error", "The service failed to answer. Its log says why.")


HANDLERS: ExceptionHandlersMap = {
    Refused: _refused,
    Rejected: _rejected,
    NotFound: _service_error(HTTPStatus.NOT_FOUND),
    Conflict: _conflict,
    Forbidden: _service_error(HTTPStatus.FORBIDDEN),
    UnknownToken: _service_error(HTTPStatus.NOT_FOUND),
    Busy: _try_later(HTTPStatus.CONFLICT),
    TooMany: _try_later(HTTPStatus.TOO_MANY_REQUESTS),
    MalformedBody: _malformed,
    UnsupportedType: _unsupported,
    StaleVersion: _service_error(HTTPStatus.PRECONDITION_FAILED),
    ValidationException: _parameters,
    HTTPException: _http,
    Exception: _failed,
}
