"""Status, health, and the tick by hand."""

from http import HTTPStatus

from litestar import get, post
from litestar.params import JSONBody

from agentsched.api.answers import HealthView, StatusView, TickView, status_view, tick_view
from agentsched.api.auth import SCOPE
from agentsched.api.lifecycle import Nothing
from agentsched.api.operations import OptionalBody
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import RETRY_AFTER_SECONDS, may_answer
from agentsched.api.rejected import Rejected
from agentsched.core.words import Scope
from agentsched.service.status import is_ready, read_status
from agentsched.service.tick import tick


@get("/v1/status", operation_id="get_status", opt={SCOPE: None}, responses=may_answer())
async def get_status(parts: WithParts, caller: WithCaller) -> StatusView:
    """What lives, what runs, who works, and whether the tick comes."""
    return status_view(await read_status(parts.db, caller))


@post(
    "/v1/admin/tick",
    operation_id="run_tick",
    status_code=200,
    operation_class=OptionalBody,
    opt={SCOPE: Scope.ADMIN},
    responses=may_answer(413, 415, 422),
)
async def run_tick(parts: WithParts, data: JSONBody[Nothing | None] = None) -> TickView:
    """One whole tick now: reap, fire everything that is due, start what waits. Needs a key of scope admin."""
    report = await tick(parts.db, parts.settings)
    parts.waker.wake()
    return tick_view(report)


@get("/health/live", operation_id="is_alive", security=[{}])
async def is_alive() -> HealthView:
    """The process answers."""
    return HealthView(status="alive")


@get("/health/ready", operation_id="is_ready", security=[{}], responses={503: may_answer()[503]})
async def ready(parts: WithParts) -> HealthView:
    """The database answers, and its schema is the one that this version needs."""
    if not await is_ready(parts.db):
        raise Rejected(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "schema_outdated",
            "The schema of the database is not the one of this version. Run `agentsched migrate`.",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    return HealthView(status="ready")
