"""Runs and tasks as people see them: read and list."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.words import RunStatus
from agentsched.service.caller import Caller
from agentsched.service.errors import NotFound
from agentsched.service.schedules import owned
from agentsched.service.views import RunView, run_view_of
from agentsched.store import ledger, shown_tasks, workers
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from agentsched.store.shown_tasks import ShownTask


async def get(db: Database, caller: Caller, run_id: int) -> RunView:
    """Read one. Raises NotFound."""
    async with db.begin() as conn:
        row = await owned_run(conn, caller, run_id)
        served = frozenset(harness for worker in await workers.present(conn) for harness in worker.harnesses)
        return run_view_of(row, served)


async def owned_run(conn: AsyncConnection, caller: Caller, run_id: int) -> RunRow:
    """A run of the caller's. Raises NotFound, for one that the caller's key is not made for as well."""
    row = await ledger.read(conn, caller.principal_id, run_id)
    if row is None:
        raise NotFound("run", run_id)
    try:
        await owned(conn, caller, row.schedule_id)
    except NotFound:
        raise NotFound("run", run_id) from None
    return row


async def list_page(
    db: Database,
    caller: Caller,
    *,
    schedule_id: int | None,
    statuses: Sequence[RunStatus] | None,
    dead_letter: bool | None,
    ledger_order: bool,
    after: tuple[datetime, int] | None,
    limit: int,
) -> list[RunView]:
    """Runs of one schedule or of all, newest first or in the order of the ledger. Raises NotFound for the schedule."""
    async with db.begin() as conn:
        if schedule_id is not None:
            await owned(conn, caller, schedule_id)
        rows = await ledger.list_page(
            conn,
            caller.principal_id,
            schedule_id=schedule_id,
            conversation_id=caller.conversation_id if schedule_id is None else None,
            statuses=None if statuses is None else [status.value for status in statuses],
            dead_letter=dead_letter,
            ledger_order=ledger_order,
            after=after,
            limit=limit,
        )
        served = frozenset(harness for worker in await workers.present(conn) for harness in worker.harnesses)
        return [run_view_of(row, served) for row in rows]


async def task(db: Database, caller: Caller, task_id: int) -> ShownTask:
    """Read one task, from a task's own conversation or of its own sub-tasks. Raises NotFound."""
    async with db.begin() as conn:
        found = await shown_tasks.read(conn, caller.principal_id, task_id)
        own = found is not None and caller.task is not None and found.parent_task_id == caller.task.id
        if found is None or (caller.conversation_id not in (None, found.conversation_id) and not own):
            raise NotFound("task", task_id)
        return found


async def tasks_of(db: Database, caller: Caller, run_id: int) -> list[ShownTask]:
    """The attempts of a run, first to last. Raises NotFound."""
    await get(db, caller, run_id)
    async with db.begin() as conn:
        return await shown_tasks.of_run(conn, caller.principal_id, run_id)
