"""A running task asks for sub-tasks, within bounds that keep a model out of spending loops (DESIGN §10)."""

from agentsched.service import conversations as conversation_service
from agentsched.service import idempotency
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, Forbidden
from agentsched.service.permission import Act, require
from agentsched.service.requests import NewSubtask
from agentsched.settings import Settings
from agentsched.store import clock, subtasks, tasks
from agentsched.store.database import Database


async def ask(
    db: Database, settings: Settings, caller: Caller, request: NewSubtask, *, key: str | None = None
) -> tuple[int, bool]:
    """A sub-task of the caller's own task; its id, and whether it is new (False for a replay of the key).

    It has the asker's lineage: what a scheduled run has asked for cannot schedule either. Raises Forbidden without a
    task token, and Conflict for a task that has ended, is a sub-task too deep, or has asked for too many.
    """
    require(caller, Act.SUBTASK)
    if caller.task is None:
        raise Forbidden("task_token_needed", "A sub-task belongs to a task.")
    parent = caller.task.id
    operation, asked = f"subtask:{parent}", request.model_dump(mode="json")
    async with db.begin() as conn:
        await tasks.lock(conn, parent)
        made = await idempotency.replayed(conn, caller.principal_id, operation, key, asked)
        if made is not None:
            return made, False
        family = await subtasks.read_family(conn, parent)
        if family is None:
            raise Conflict("task_ended", f"Task {parent} runs no longer, and asks for nothing any more.")
        if family.depth >= settings.subtask_depth:
            raise Conflict(
                "subtask_too_deep",
                f"Task {parent} is a sub-task of depth {family.depth}, and there are {settings.subtask_depth} levels. "
                "Do the work yourself.",
            )
        if family.children >= settings.subtasks_per_task:
            raise Conflict(
                "too_many_subtasks",
                f"Task {parent} has asked for {family.children} sub-tasks, and may for no more. Do the rest yourself.",
            )
        agent_id = None
        if request.agent is not None:
            agent_id = await conversation_service.agent_id(conn, caller.principal_id, request.agent)
        now = await clock.now(conn)
        made = await subtasks.insert(conn, parent, request.prompt, agent_id=agent_id, now=now)
        await idempotency.remember(conn, caller.principal_id, operation, key, asked, made, now)
        return made, True
