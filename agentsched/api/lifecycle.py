"""`/v1/schedules/{id}/…`: pause, resume, cancel, run now."""

from typing import Annotated

from litestar import Response, delete, post
from litestar.params import JSONBody, QueryParameter

from agentsched.api.answers import RunStarted
from agentsched.api.auth import FOR_SCHEDULED
from agentsched.api.operations import OptionalBody
from agentsched.api.parameters import REPLAYED, IdempotencyKey, ScheduleId, bare, replay_headers
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.api.schedules import ETAG, answer
from agentsched.core.words import Misfire
from agentsched.service import lifecycle
from agentsched.service.requests import PauseRequest, Request, ResumeRequest
from agentsched.service.views import ScheduleView, run_view_of

StopRunning = Annotated[bool, QueryParameter(description="Ask runs that have fired to stop, too")]


class Nothing(Request):
    """A request without fields."""


@post(
    "/v1/schedules/{schedule_id:int}/pause",
    operation_id="pause_schedule",
    status_code=200,
    operation_class=OptionalBody,
    response_headers=[ETAG],
    responses=may_answer(404, 409, 413, 415, 422),
)
async def pause_schedule(
    parts: WithParts, caller: WithCaller, schedule_id: ScheduleId, data: JSONBody[PauseRequest | None] = None
) -> Response[ScheduleView]:
    """Pause a schedule: slots that pass are not due, and what waits in line by the clock is skipped."""
    note = None if data is None else data.note
    return answer(await lifecycle.pause(parts.db, caller, schedule_id, note=note))


@post(
    "/v1/schedules/{schedule_id:int}/resume",
    operation_id="resume_schedule",
    status_code=200,
    operation_class=OptionalBody,
    response_headers=[ETAG],
    responses=may_answer(404, 409, 413, 415, 422),
)
async def resume_schedule(
    parts: WithParts, caller: WithCaller, schedule_id: ScheduleId, data: JSONBody[ResumeRequest | None] = None
) -> Response[ScheduleView]:
    """Resume a paused schedule from now on; slots that passed in the pause are replayed only with `catch_up`."""
    catch_up = None if data is None or data.catch_up is None else Misfire(data.catch_up)
    row = await lifecycle.resume(parts.db, parts.settings, caller, schedule_id, catch_up=catch_up)
    parts.waker.wake()
    return answer(row)


@delete(
    "/v1/schedules/{schedule_id:int}",
    operation_id="cancel_schedule",
    opt={FOR_SCHEDULED: True},
    status_code=200,
    response_headers=[ETAG],
    responses=may_answer(404, 409, 422),
)
async def cancel_schedule(
    parts: WithParts, caller: WithCaller, schedule_id: ScheduleId, stop_running: StopRunning = False
) -> Response[ScheduleView]:
    """Cancel a schedule for good. What waits in line is skipped; what has fired finishes, unless asked to stop."""
    row = await lifecycle.cancel(parts.db, caller, schedule_id, stop_running=stop_running)
    parts.waker.wake()
    return answer(row)


@post(
    "/v1/schedules/{schedule_id:int}/run-now",
    operation_id="run_schedule_now",
    status_code=201,
    operation_class=OptionalBody,
    response_headers=[REPLAYED],
    responses=may_answer(404, 409, 413, 415, 422, 429),
)
async def run_schedule_now(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: ScheduleId,
    data: JSONBody[Nothing | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[RunStarted]:
    """Run a schedule at once, also while it is paused; its cadence does not move."""
    run, new = await lifecycle.run_now(parts.db, parts.settings, caller, schedule_id, key=bare(idempotency_key))
    parts.waker.wake()
    return Response(RunStarted(run=run_view_of(run)), headers=replay_headers(new))
