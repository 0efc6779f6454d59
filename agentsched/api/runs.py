"""`/v1/runs`: read the ledger, cancel a run."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

from litestar import get, post
from litestar.params import JSONBody, QueryParameter

from agentsched.api.answers import task_view
from agentsched.api.lifecycle import Nothing
from agentsched.api.operations import OptionalBody
from agentsched.api.pages import DEFAULT_PAGE, Cursor, Limit, Page, bad_cursor, decode, page_of, whole
from agentsched.api.parameters import RunId, ScheduleId
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.core.words import RunStatus
from agentsched.service import cancel_run, runs
from agentsched.service.views import RunView, TaskView, run_view_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunOrder(StrEnum):
    """Newest first, or by the instants that runs were due at (the ledger's order)."""

    NEWEST = "newest"
    FIRE_AT = "fire_at"


Statuses = Annotated[list[RunStatus] | None, QueryParameter(description="Only runs of these statuses; may be repeated")]
DeadLetter = Annotated[
    bool | None,
    QueryParameter(description="`true`: only failed runs that nobody has requeued or discarded; `false`: only others"),
]
Order = Annotated[RunOrder, QueryParameter(description="`newest` first, or `fire_at`: the order of the ledger")]


@get("/v1/runs", operation_id="list_runs", responses=may_answer(422))
async def list_runs(
    parts: WithParts,
    caller: WithCaller,
    status: Statuses = None,
    dead_letter: DeadLetter = None,
    order: Order = RunOrder.NEWEST,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[RunView]:
    """The runs of all schedules."""
    return await _page(parts, caller, None, status, dead_letter, order, limit, cursor)


@get("/v1/schedules/{schedule_id:int}/runs", operation_id="list_schedule_runs", responses=may_answer(404, 422))
async def list_schedule_runs(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: ScheduleId,
    status: Statuses = None,
    dead_letter: DeadLetter = None,
    order: Order = RunOrder.NEWEST,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[RunView]:
    """The runs of a schedule."""
    return await _page(parts, caller, schedule_id, status, dead_letter, order, limit, cursor)


async def _page(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: int | None,
    statuses: list[RunStatus] | None,
    dead_letter: bool | None,
    order: RunOrder,
    limit: int,
    cursor: str | None,
) -> Page[RunView]:
    rows = await runs.list_page(
        parts.db,
        caller,
        schedule_id=schedule_id,
        statuses=statuses,
        dead_letter=dead_letter,
        ledger_order=order is RunOrder.FIRE_AT,
        after=_after(cursor, order),
        limit=limit + 1,
    )
    return page_of(rows, limit, show=lambda run: run, keys=_keys, order=order)


def _keys(run: RunView) -> tuple[int, int]:
    return int(run.fire_at.timestamp()), run.id


def _after(cursor: str | None, order: RunOrder) -> tuple[datetime, int] | None:
    if cursor is None:
        return None
    seconds, run_id = decode(cursor, order, 2)
    try:
        return EPOCH + timedelta(seconds=seconds), run_id
    except OverflowError:
        raise bad_cursor(cursor) from None


@get("/v1/runs/{run_id:int}", operation_id="get_run", responses=may_answer(404))
async def get_run(parts: WithParts, caller: WithCaller, run_id: RunId) -> RunView:
    """Read one run."""
    return await runs.get(parts.db, caller, run_id)


@get("/v1/runs/{run_id:int}/tasks", operation_id="list_run_tasks", responses=may_answer(404))
async def list_run_tasks(parts: WithParts, caller: WithCaller, run_id: RunId) -> Page[TaskView]:
    """The attempts of a run, first to last."""
    return whole([task_view(row) for row in await runs.tasks_of(parts.db, caller, run_id)])


@post(
    "/v1/runs/{run_id:int}/cancel",
    operation_id="cancel_run",
    status_code=200,
    operation_class=OptionalBody,
    responses=may_answer(404, 409, 413, 415, 422),
)
async def cancel(parts: WithParts, caller: WithCaller, run_id: RunId, data: JSONBody[Nothing | None] = None) -> RunView:
    """Cancel a run that has not ended: at once where no worker holds it, by asking the worker where one does."""
    run = await cancel_run.cancel_run(parts.db, parts.settings, caller, run_id)
    parts.waker.wake()
    return run_view_of(run)
