"""`/v1/runs/…/requeue` and `/discard`: what becomes of failed runs, one by one and in bulk."""

from litestar import Response, post
from litestar.params import JSONBody

from agentsched.api.answers import RunStarted
from agentsched.api.lifecycle import Nothing
from agentsched.api.operations import OptionalBody
from agentsched.api.parameters import REPLAYED, IdempotencyKey, RunId, bare, replay_headers
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.service import dead_letters, requeue
from agentsched.service.requests import DeadLetterChoice
from agentsched.service.views import DeadLettersDone, RunView, run_view_of


@post(
    "/v1/runs/{run_id:int}/requeue",
    operation_id="requeue_run",
    status_code=201,
    operation_class=OptionalBody,
    response_headers=[REPLAYED],
    responses=may_answer(404, 409, 413, 415, 422),
)
async def requeue_run(
    parts: WithParts,
    caller: WithCaller,
    run_id: RunId,
    data: JSONBody[Nothing | None] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response[RunStarted]:
    """Run a failed run again, as a new one.

    It has the failed run's `fire_at` and payload, and the schedule's prompt and policies as they are now. It waits in
    line whatever `overlap` says, and starts also while the schedule is paused or completed.
    """
    run, new = await requeue.requeue(parts.db, parts.settings, caller, run_id, key=bare(idempotency_key))
    parts.waker.wake()
    return Response(RunStarted(run=run_view_of(run)), headers=replay_headers(new))


@post(
    "/v1/runs/{run_id:int}/discard",
    operation_id="discard_run",
    status_code=200,
    operation_class=OptionalBody,
    responses=may_answer(404, 409, 413, 415, 422),
)
async def discard_run(
    parts: WithParts, caller: WithCaller, run_id: RunId, data: JSONBody[Nothing | None] = None
) -> RunView:
    """Say of a failed run that nobody needs it any more."""
    return run_view_of(await requeue.discard(parts.db, caller, run_id))


@post(
    "/v1/runs/requeue",
    operation_id="requeue_runs",
    status_code=200,
    responses=may_answer(404, 413, 415, 422),
)
async def requeue_runs(parts: WithParts, caller: WithCaller, data: JSONBody[DeadLetterChoice]) -> DeadLettersDone:
    """Requeue many dead letters, the oldest first.

    Each is requeued or refused for itself. Those of cancelled schedules, which are refused, come last.
    """
    done = await dead_letters.requeue_chosen(parts.db, parts.settings, caller, data)
    parts.waker.wake()
    return done


@post(
    "/v1/runs/discard",
    operation_id="discard_runs",
    status_code=200,
    responses=may_answer(404, 413, 415, 422),
)
async def discard_runs(parts: WithParts, caller: WithCaller, data: JSONBody[DeadLetterChoice]) -> DeadLettersDone:
    """Discard many dead letters, the oldest first. Each is discarded or refused for itself."""
    return await dead_letters.discard_chosen(parts.db, caller, data)
