"""Pause, resume, cancel and run a schedule now (DESIGN §8)."""

import json
from collections.abc import Mapping
from datetime import datetime
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.limits import attempt_timeout
from agentsched.core.occurrence_keys import manual_key
from agentsched.core.problems import Refused
from agentsched.core.timing import Kind, next_occurrence
from agentsched.core.words import (
    LIVE_SCHEDULE,
    Misfire,
    Mode,
    Overlap,
    PauseReason,
    Reason,
    ScheduleStatus,
    Trigger,
)
from agentsched.service import conversations as conversation_service
from agentsched.service import idempotency, policies
from agentsched.service.account import account_due_slots
from agentsched.service.budget import spend_runs
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict
from agentsched.service.fire_batch import Overspent, fire_locked
from agentsched.service.line import start_waiting
from agentsched.service.pause import pause_locked
from agentsched.service.permission import Act, require
from agentsched.service.schedules import owned
from agentsched.service.update import ended
from agentsched.settings import Settings
from agentsched.store import backfills, changes, clock, fires, ledger, runs, schedules, targets
from agentsched.store.database import Database
from agentsched.store.fires import Started
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow
from agentsched.store.targets import Start


async def pause(db: Database, caller: Caller, schedule_id: int, *, note: str | None = None) -> ScheduleRow:
    """Pause an active schedule; a paused one stays as it is. Raises NotFound, and Conflict for one that has ended."""
    require(caller, Act.SCHEDULE)
    async with db.begin() as conn:
        row = await _lock(conn, caller, schedule_id)
        if row.status == ScheduleStatus.PAUSED:
            return row
        if row.status != ScheduleStatus.ACTIVE:
            raise ended(row)
        now = await clock.now(conn)
        await pause_locked(conn, row, PauseReason.USER, note, now)
        await _record(conn, row, "paused", caller, {} if note is None else {"note": note})
        return await owned(conn, caller, schedule_id)


async def resume(
    db: Database, settings: Settings, caller: Caller, schedule_id: int, *, catch_up: Misfire | None = None
) -> ScheduleRow:
    """Resume a paused schedule from now. An active one stays as it is.

    The pause is replayed only with ``catch_up``: ``latest`` runs the newest slot that passed, ``all`` every one of
    them. Without it a ``once`` whose instant passed becomes skipped(paused), and the schedule completed. Raises
    NotFound, Conflict for one that has ended, and Refused for a ``catch_up`` that contradicts ``overlap``.
    """
    require(caller, Act.SCHEDULE)
    while True:
        try:
            async with db.begin() as conn:
                return await _resume(conn, settings, caller, schedule_id, catch_up)
        except Overspent:
            continue


async def _resume(
    conn: AsyncConnection, settings: Settings, caller: Caller, schedule_id: int, catch_up: Misfire | None
) -> ScheduleRow:
    row = await _lock(conn, caller, schedule_id)
    if row.status == ScheduleStatus.ACTIVE:
        return row
    if row.status != ScheduleStatus.PAUSED:
        raise ended(row)
    problem = catch_up and policies.contradiction(catch_up, Overlap(row.overlap), field="catch_up")
    if problem:
        raise Refused(problem)
    now = await clock.now(conn)
    passed = _first_passed(row, now)
    spent = row.max_runs is not None and row.runs_admitted >= row.max_runs
    following = next_occurrence(row.timing, max(now, row.accounted_until or now))
    if following is not None and row.ends_at is not None and following > row.ends_at:
        following = None
    accounted = None
    if catch_up is not None and passed is not None and not spent:
        following = passed
    elif passed is not None and row.kind == Kind.ONCE:
        accounted = await account_due_slots(conn, row._replace(next_fire_at=passed), Reason.PAUSED, now)
    completed = spent or (row.kind != Kind.WEBHOOK and following is None)
    await schedules.resume(
        conn,
        row.id,
        next_fire_at=None if completed else following,
        completed=completed,
        accounted_until=accounted,
        now=now,
    )
    if following is not None and following <= now and not completed:
        await fire_locked(conn, settings, [row.id], catch_up=catch_up)
    await _record(conn, row, "resumed", caller, {} if catch_up is None else {"catch_up": catch_up})
    await start_waiting(conn, settings, await owned(conn, caller, schedule_id), now)
    return await owned(conn, caller, schedule_id)


def _first_passed(row: ScheduleRow, now: datetime) -> datetime | None:
    """The first slot that passed while the schedule was paused, of those that nothing else has accounted for."""
    if row.paused_at is None:
        return None
    first = next_occurrence(row.timing, max(row.paused_at, row.accounted_until or row.paused_at))
    over = first is None or first > now or (row.ends_at is not None and first > row.ends_at)
    return None if over else first


async def cancel(db: Database, caller: Caller, schedule_id: int, *, stop_running: bool = False) -> ScheduleRow:
    """Cancel for good: what waits is skipped, what has fired finishes, unless ``stop_running`` asks it to stop.

    A cancelled schedule stays as it is. Raises NotFound, and Conflict for a completed one.
    """
    require(caller, Act.CANCEL_SCHEDULE, schedule_id=schedule_id)
    async with db.begin() as conn:
        row = await _lock(conn, caller, schedule_id)
        if row.status == ScheduleStatus.CANCELLED:
            return row
        if row.status not in LIVE_SCHEDULE:
            raise ended(row)
        now = await clock.now(conn)
        until = await account_due_slots(conn, row, Reason.SCHEDULE_CANCELLED, now)
        await runs.skip_line(conn, row.id, Reason.SCHEDULE_CANCELLED, now, timed_only=False)
        await backfills.cancel_all(conn, row.id, now)
        await schedules.end(conn, row.id, ScheduleStatus.CANCELLED, accounted_until=until, now=now)
        if stop_running:
            await runs.lock_flights(conn, [row.id])
            flights = await ledger.in_flight(conn, row.id)
            await runs.cancel_unstarted(conn, flights, now)
            await runs.ask_to_stop(conn, flights, now)
        await _record(conn, row, "cancelled", caller, {"stop_running": True} if stop_running else {})
        return await owned(conn, caller, schedule_id)


async def run_now(
    db: Database, settings: Settings, caller: Caller, schedule_id: int, *, key: str | None = None
) -> tuple[RunRow, bool]:
    """Run at once, also while paused or completed, beside whatever is in flight; the cadence does not move.

    It counts as in flight and against the daily budgets, which refuse a model and not a person. The run, and whether
    it is new (False for a replay of the same ``Idempotency-Key``). Raises NotFound, Conflict for a cancelled
    schedule, and TooMany for a model that is over budget.
    """
    require(caller, Act.SCHEDULE)
    operation = f"run-now:{schedule_id}"
    async with db.begin() as conn:
        row = await _lock(conn, caller, schedule_id)
        made = await idempotency.replayed(conn, caller.principal_id, operation, key, {})
        new = made is None
        if made is None:
            if row.status == ScheduleStatus.CANCELLED:
                raise ended(row)
            await conversation_service.owned(conn, caller, row.conversation_id)
            made = await _start_manual(conn, settings, caller, row, key or uuid4().hex)
            await idempotency.remember(conn, caller.principal_id, operation, key, {}, made, await clock.now(conn))
        run = await ledger.read(conn, caller.principal_id, made)
        if run is None:
            raise Conflict("run_pruned", "The run that this Idempotency-Key made is no longer kept. Send a new key.")
        return run, new


async def _start_manual(
    conn: AsyncConnection, settings: Settings, caller: Caller, row: ScheduleRow, request_id: str
) -> int:
    now = await clock.now(conn)
    fire_at = now.replace(second=0, microsecond=0)
    mode = Mode(row.mode)
    ids = await targets.allocate_ids(conn, conversations=int(mode is not Mode.APPEND), runs=1, tasks=1)
    run_id = next(ids.runs)
    start = Start(
        run_id=run_id,
        conversation_id=row.conversation_id if mode is Mode.APPEND else next(ids.conversations),
        task_id=next(ids.tasks),
        owner_id=row.conversation_id,
        mode=mode,
        snapshot_id=row.agent_id,
        title=targets.title(row.name, row.number, fire_at, row.timezone),
        timeout_seconds=attempt_timeout(row.timeout_seconds, row.timing, fire_at),
        start_deadline_seconds=None,
    )
    await targets.open_conversations(conn, [start], now)
    run = Started(run_id, row.id, fire_at, manual_key(request_id), start.conversation_id, overdue=False)
    await fires.insert_started(conn, [run], now, trigger=Trigger.MANUAL)
    await targets.open_tasks(conn, [start], now)
    await spend_runs(conn, settings, caller, row, now)
    return run_id


async def _lock(conn: AsyncConnection, caller: Caller, schedule_id: int) -> ScheduleRow:
    await owned(conn, caller, schedule_id)
    await schedules.lock(conn, schedule_id)
    return await owned(conn, caller, schedule_id)


async def _record(
    conn: AsyncConnection, row: ScheduleRow, action: str, caller: Caller, asked: Mapping[str, object] | None = None
) -> None:
    now = await clock.now(conn)
    await changes.record(
        conn, row.id, row.version, action=action, actor=caller.actor, changes=json.dumps(dict(asked or {})), now=now
    )
