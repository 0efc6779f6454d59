"""`/v1/tasks`: read one, and ask for sub-tasks under a task's token."""

from litestar import Response, get, post
from litestar.params import JSONBody

from agentsched.api.answers import TaskAccepted, task_view
from agentsched.api.auth import FOR_SCHEDULED
from agentsched.api.parameters import REPLAYED, IdempotencyKey, TaskId, bare, replay_headers
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.service import runs, subtasks
from agentsched.service.requests import NewSubtask
from agentsched.service.views import TaskView


@get("/v1/tasks/{task_id:int}", operation_id="get_task", responses=may_answer(404))
async def get_task(parts: WithParts, caller: WithCaller, task_id: TaskId) -> TaskView:
    """Read one task."""
    return task_view(await runs.task(parts.db, caller, task_id))


@post(
    "/v1/tasks",
    operation_id="create_subtask",
    opt={FOR_SCHEDULED: True},
    response_headers=[REPLAYED],
    responses=may_answer(409, 413, 415, 422),
)
async def create_subtask(
    parts: WithParts, caller: WithCaller, data: JSONBody[NewSubtask], idempotency_key: IdempotencyKey = None
) -> Response[TaskAccepted]:
    """Ask for a sub-task, under the token of a running task. It runs in a conversation of its own.

    Its result is read at `GET /v1/tasks/{id}`. What a scheduled run asks for cannot schedule either.
    """
    task_id, new = await subtasks.ask(parts.db, parts.settings, caller, data, key=bare(idempotency_key))
    parts.waker.wake()
    return Response(TaskAccepted(task_id=task_id), headers=replay_headers(new))
