"""Requeue a failed run as a new one, or discard it (DESIGN §4, §9). What is terminal stays as it is."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.occurrence_keys import requeue_key
from agentsched.core.words import IN_FLIGHT, RunStatus, ScheduleStatus
from agentsched.service import conversations as conversation_service
from agentsched.service import idempotency
from agentsched.service.budget import spend_runs
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, NotFound
from agentsched.service.line import start_waiting
from agentsched.service.permission import Act, require
from agentsched.service.runs import owned_run
from agentsched.service.schedules import owned
from agentsched.service.update import ended
from agentsched.settings import Settings
from agentsched.store import clock, conversations, dead_letters, ledger, runs, schedules
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow


async def requeue(
    db: Database, settings: Settings, caller: Caller, run_id: int, *, key: str | None = None
) -> tuple[RunRow, bool]:
    """A new run in place of a failed one, and whether it is new (False for a replay of the same ``Idempotency-Key``).

    It has the failed run's ``fire_at`` and payload, and the version in force. It waits in its schedule's line
    whatever ``overlap`` says, starts at once where a slot is free, also while the schedule is paused or completed,
    and counts against the daily budgets, which do not refuse a person. Raises NotFound, and Conflict for a run that
    has not failed, whose earlier requeue has not ended, or whose schedule is cancelled.
    """
    require(caller, Act.SCHEDULE)
    operation = f"requeue:{run_id}"
    async with db.begin() as conn:
        run, schedule = await lock(conn, caller, run_id)
        made = await idempotency.replayed(conn, caller.principal_id, operation, key, {})
        new = made is None
        if made is None:
            now = await clock.now(conn)
            made = await requeue_locked(conn, settings, caller, run, schedule, now)
            await idempotency.remember(conn, caller.principal_id, operation, key, {}, made, now)
        requeued = await ledger.read(conn, caller.principal_id, made)
        if requeued is None:
            raise Conflict("run_pruned", "The run that this Idempotency-Key made is no longer kept. Send a new key.")
        return requeued, new


async def discard(db: Database, caller: Caller, run_id: int) -> RunRow:
    """Note that nobody needs a failed run any more; a discarded one stays as it is.

    Raises NotFound, and Conflict for a run that has not failed.
    """
    require(caller, Act.SCHEDULE)
    async with db.begin() as conn:
        run, _ = await lock(conn, caller, run_id)
        await discard_locked(conn, run, await clock.now(conn))
        return await owned_run(conn, caller, run_id)


async def lock(conn: AsyncConnection, caller: Caller, run_id: int) -> tuple[RunRow, ScheduleRow]:
    """Lock a run with its schedule and the conversation that owns it, then read both.

    The conversation, because its deletion writes off what waits in line. Raises NotFound for what is not the caller's.
    """
    seen = await owned_run(conn, caller, run_id)
    await conversations.lock(conn, (await owned(conn, caller, seen.schedule_id)).conversation_id)
    schedule = await schedules.lock(conn, seen.schedule_id)
    await runs.lock(conn, run_id)
    if schedule is None:
        raise NotFound("run", run_id)
    return await owned_run(conn, caller, run_id), schedule


async def requeue_locked(
    conn: AsyncConnection, settings: Settings, caller: Caller, run: RunRow, schedule: ScheduleRow, now: datetime
) -> int:
    """The id of a new run for a locked failed one. Raises Conflict as ``requeue`` does."""
    _refuse_unless_failed(run, "requeued")
    if schedule.status == ScheduleStatus.CANCELLED:
        raise ended(schedule)
    await conversation_service.owned(conn, caller, schedule.conversation_id)
    newest = await dead_letters.newest_requeue(conn, run.id)
    if newest is not None and newest.status in (RunStatus.QUEUED, *IN_FLIGHT):
        raise Conflict(
            "requeue_in_progress",
            f"Run {newest.run_id} is a requeue of run {run.id}, and it is {newest.status}. "
            "Wait until it has ended, or cancel it.",
        )
    number = 1 if newest is None else newest.number + 1
    new = await dead_letters.insert_requeue(conn, run.id, requeue_key(run.id, number), now)
    await start_waiting(conn, settings, schedule, now)
    await spend_runs(conn, settings, caller, schedule, now)
    return new


async def discard_locked(conn: AsyncConnection, run: RunRow, now: datetime) -> None:
    """Mark a locked failed run. Raises Conflict for any other."""
    _refuse_unless_failed(run, "discarded")
    await dead_letters.discard(conn, run.id, now)


def _refuse_unless_failed(run: RunRow, done: str) -> None:
    if run.status != RunStatus.FAILED:
        raise Conflict("run_not_failed", f"Run {run.id} is {run.status}; only a failed run can be {done}.")
