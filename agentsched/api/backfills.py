"""`/v1/backfills` and those of a schedule: count, make, list, read, cancel."""

from typing import Annotated

from litestar import Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, PathParameter

from agentsched.api.lifecycle import StopRunning
from agentsched.api.pages import DEFAULT_PAGE, Cursor, Limit, Page, after_id, page_of
from agentsched.api.parameters import LARGEST_ID, REPLAYED, IdempotencyKey, ScheduleId, bare, replay_headers
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.service import backfills
from agentsched.service.backfill_views import BackfillPreview, BackfillView
from agentsched.service.requests import BackfillRequest

ORDER = "backfill"

BackfillId = Annotated[int, PathParameter(ge=1, le=LARGEST_ID, description="The backfill's id")]

COUNTED = {200: ResponseSpec(BackfillPreview, generate_examples=False, description="What it would do")}


@post(
    "/v1/schedules/{schedule_id:int}/backfills",
    operation_id="create_backfill",
    status_code=201,
    response_headers=[REPLAYED],
    responses=may_answer(404, 409, 413, 415, 422) | COUNTED,
)
async def create_backfill(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: ScheduleId,
    data: JSONBody[BackfillRequest],
    idempotency_key: IdempotencyKey = None,
) -> Response[BackfillView]:
    """Run slots that have passed, one at a time and in order, behind whatever is due.

    More than 25 slots need `confirm`, more than 1,000 a higher `limit`; otherwise nothing is done, and the refusal has
    the `count`. With `dry_run` the slots are only counted, and the answer is 200.
    """
    if data.dry_run:
        counted = await backfills.preview(parts.db, parts.settings, caller, schedule_id, data)
        return Response(counted, status_code=200)  # type: ignore[arg-type]  # a second answer beside the one of the signature
    made, new = await backfills.make(parts.db, parts.settings, caller, schedule_id, data, key=bare(idempotency_key))
    parts.waker.wake()
    return Response(made, headers=replay_headers(new))


@get("/v1/schedules/{schedule_id:int}/backfills", operation_id="list_backfills", responses=may_answer(404, 422))
async def list_backfills(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: ScheduleId,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[BackfillView]:
    """The backfills of a schedule, newest first."""
    before = None if cursor is None else after_id(cursor, ORDER)
    found = await backfills.list_page(parts.db, caller, schedule_id, before=before, limit=limit + 1)
    return page_of(found, limit, show=lambda each: each, keys=lambda each: (each.id,), order=ORDER)


@get("/v1/backfills/{backfill_id:int}", operation_id="get_backfill", responses=may_answer(404))
async def get_backfill(parts: WithParts, caller: WithCaller, backfill_id: BackfillId) -> BackfillView:
    """Read one backfill, and how far it is."""
    return await backfills.get(parts.db, caller, backfill_id)


@delete(
    "/v1/backfills/{backfill_id:int}",
    operation_id="cancel_backfill",
    status_code=200,
    responses=may_answer(404, 409, 422),
)
async def cancel_backfill(
    parts: WithParts, caller: WithCaller, backfill_id: BackfillId, stop_running: StopRunning = False
) -> BackfillView:
    """Cancel a backfill. What waits is skipped; the run that has started finishes, unless asked to stop."""
    cancelled = await backfills.cancel(parts.db, parts.settings, caller, backfill_id, stop_running=stop_running)
    parts.waker.wake()
    return cancelled
