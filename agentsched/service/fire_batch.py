"""One batch of the fire: read locked schedules, decide each in the core, write all of it in sets."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.fire import DueSchedule, decide_fire
from agentsched.core.misfire import NOTHING_IS_ON_TIME
from agentsched.core.overlap import Limits, Line
from agentsched.core.timing import Kind, Timing, next_occurrence
from agentsched.core.words import Misfire, Overlap, Reason
from agentsched.core.zones import zone
from agentsched.service.account import account_due_slots
from agentsched.service.fire_rows import Decided, FireRows
from agentsched.service.line import line_of
from agentsched.settings import Settings
from agentsched.store import clock, due, fires, notes, poison, runs, schedules, targets
from agentsched.store.due import DueRow, LineRow
from agentsched.store.schedules import ScheduleRow

log = structlog.get_logger()

LONG_WALK = 100
"""After a walk over more missed slots than this, heartbeats and other duties of the process get their turn."""

ROWS_A_BATCH = 10
"""A batch ends after this many times ``fire_batch`` ledger rows, so that no transaction grows without bound."""


@dataclass
class FireCounts:
    """What a fire did, in slots: ``due`` = ``fired`` (started or queued) + ``skipped`` + ``missed``, but for errors."""

    due: int = 0
    fired: int = 0
    skipped: int = 0
    missed: int = 0

    def add(self, other: "FireCounts") -> None:
        self.due += other.due
        self.fired += other.fired
        self.skipped += other.skipped
        self.missed += other.missed


class Overspent(Exception):  # noqa: N818 — what happened, not an error
    """Somebody else spent of a principal's day between the decision and its writing: decide again."""


async def fire_locked(
    conn: AsyncConnection, settings: Settings, ids: Sequence[int], *, catch_up: Misfire | None = None
) -> FireCounts:
    """Fire due schedules that this transaction has locked. A schedule whose decision fails is paused (``error``).

    ``catch_up`` takes all due slots as late, and is the policy for them: what a resume does that replays the pause.
    Raises Overspent when the transaction is to be rolled back and tried again: daily budgets are read without locks and
    spent last.
    """
    now = await clock.now(conn)
    rows = await due.read_due(conn, ids)
    if catch_up is not None:
        rows = [row._replace(misfire=catch_up, misfire_grace_seconds=NOTHING_IS_ON_TIME) for row in rows]
    await runs.lock_flights(conn, [row.id for row in rows if row.overlap == Overlap.REPLACE and row.has_line])
    lines = await due.read_lines(conn, {row.id: waiting_to_read(row) for row in rows if row.has_line})
    today = now.astimezone(UTC).date()
    had = await fires.read_principal_days(conn, list({row.principal_id for row in rows}), today)
    limit = settings.daily_run_limit_per_principal
    spent: dict[int, int] = {}
    counts = FireCounts()
    decided: list[Decided] = []
    slots = 0
    for row in rows:
        so_far = spent.get(row.principal_id, 0)
        try:
            day = now.astimezone(zone(row.timezone)).date()
            schedule = due_schedule(row, lines.get(row.id), day, limit - had.get(row.principal_id, 0) - so_far)
            decision = decide_fire(schedule, now, keep=settings.misfire_all_keep)
        except Exception as error:
            counts.add(await record_poison(conn, row.id, str(error)))
            continue
        decided.append(Decided(row, schedule.timing, decision, day, lines.get(row.id, ())))
        if decision.admitted:
            spent[row.principal_id] = so_far + decision.admitted
        slots += len(decision.slots)
        if decision.missed is not None and decision.missed.count > LONG_WALK:
            await asyncio.sleep(0)
        if slots >= ROWS_A_BATCH * settings.fire_batch:
            break
    counts.add(await write(conn, FireRows(decided, now)))
    totals = await fires.spend_principal_days(conn, spent, today)
    if any(total > limit and total - spent[owner] != had.get(owner, 0) for owner, total in totals.items()):
        raise Overspent
    return counts


async def record_poison(conn: AsyncConnection, schedule_id: int, error: str) -> FireCounts:
    """Record the slot of a schedule that cannot be fired as failed, and pause it with a note in the owner's inbox."""
    now = await clock.now(conn)
    schedule = await schedules.read(conn, schedule_id)
    await poison.pause_unfirable(conn, schedule_id, error[:2000], now)
    if schedule is not None:
        await _account_further_slots(conn, schedule, now)
    await runs.skip_line(conn, schedule_id, Reason.PAUSED, now, timed_only=True)
    return FireCounts(due=1)


async def _account_further_slots(conn: AsyncConnection, schedule: ScheduleRow, now: datetime) -> None:
    """Record what was due behind the slot that failed, as far as it can be told."""
    try:
        async with conn.begin_nested():
            following = next_occurrence(schedule.timing, schedule.next_fire_at or now)
            until = await account_due_slots(conn, schedule._replace(next_fire_at=following), Reason.PAUSED, now)
            if until is not None:
                await schedules.account(conn, schedule.id, until)
    except Exception as error:
        log.warning("fire.slots_untold", schedule_id=schedule.id, error=repr(error))


async def write(conn: AsyncConnection, rows: FireRows) -> FireCounts:
    """Write what was decided of locked schedules, and make way for it."""
    for decision, why in rows.displacing:
        if decision.supersede:
            await runs.skip_queued(conn, decision.supersede, Reason.SUPERSEDED, rows.now, text=why)
        if decision.cancel:
            await runs.cancel_unstarted(conn, decision.cancel, rows.now)
        if decision.ask:
            await runs.ask_to_stop(conn, decision.ask, rows.now)
    rows.compose(
        await targets.allocate_ids(conn, conversations=rows.new_targets, runs=rows.new_runs, tasks=rows.new_tasks)
    )
    await targets.open_conversations(conn, rows.starts, rows.now)
    await fires.insert_started(conn, rows.started, rows.now, delivery_id=rows.delivery_id)
    await fires.insert_recorded(conn, rows.recorded, rows.now, delivery_id=rows.delivery_id)
    await targets.open_tasks(conn, rows.starts, rows.now)
    await fires.advance_schedules(conn, rows.advances, rows.now)
    await notes.insert_notes(conn, rows.notes, rows.now)
    return FireCounts(rows.fired + rows.skipped + rows.missed, rows.fired, rows.skipped, rows.missed)


def waiting_to_read(row: DueRow) -> int | None:
    """How many waiting runs the decision needs: a bounded line is only counted, the others are superseded by id."""
    match Overlap(row.overlap):
        case Overlap.QUEUE | Overlap.ALLOW:
            return row.queue_limit or 1
        case Overlap.SKIP | Overlap.QUEUE_LATEST | Overlap.REPLACE:
            return None


_NO_LINE = Line()


@lru_cache(maxsize=32_768)
def _timing(
    kind: str,
    cron: str | None,
    every_minutes: int | None,
    anchor_at: datetime | None,
    at: datetime | None,
    timezone: str,
) -> Timing:
    return Timing(Kind(kind), cron, every_minutes, anchor_at, at, timezone)


@lru_cache(maxsize=1024)
def _limits(overlap: str, max_concurrency: int | None, queue_limit: int | None) -> Limits:
    return Limits(Overlap(overlap), max_concurrency, queue_limit)


def due_schedule(row: DueRow, line: Sequence[LineRow] | None, day: date, principal_left: int) -> DueSchedule:
    """What the core decides on. ``day`` is that of the schedule's zone, ``principal_left`` of its owner's runs."""
    runs_left = principal_left
    if row.daily_run_limit is not None:
        runs_left = min(runs_left, row.daily_run_limit - (row.day_runs if row.day == day else 0))
    if row.daily_token_limit is not None and row.day == day and row.day_tokens >= row.daily_token_limit:
        runs_left = 0
    return DueSchedule(
        timing=_timing(row.kind, row.cron, row.every_minutes, row.anchor_at, row.at, row.timezone),
        limits=_limits(row.overlap, row.max_concurrency, row.queue_limit),
        misfire=Misfire(row.misfire),
        misfire_grace_seconds=row.misfire_grace_seconds,
        next_fire_at=row.next_fire_at,
        ends_at=row.ends_at,
        max_runs=row.max_runs,
        runs_admitted=row.runs_admitted,
        runs_left=runs_left,
        line=line_of(line) if line else _NO_LINE,
    )
