"""One batch of the fire: read locked schedules, decide each in the core, write all of it in sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.fire import DueSchedule, FireDecision, Slot, decide_fire
from agentsched.core.limits import attempt_timeout
from agentsched.core.occurrence_keys import slot_key
from agentsched.core.overlap import Limits, Line
from agentsched.core.reasons import Holder, overlap_text, reason_text
from agentsched.core.timing import Kind, Timing
from agentsched.core.words import (
    IN_FLIGHT,
    PRIORITY_LIVE,
    Misfire,
    Mode,
    NoteKind,
    Overlap,
    Reason,
    RunStatus,
)
from agentsched.core.zones import zone
from agentsched.service.line import line_of
from agentsched.settings import Settings
from agentsched.store import clock, due, fires, notes, poison, runs, targets
from agentsched.store.due import DueRow, LineRow
from agentsched.store.fires import Advance, NewRun
from agentsched.store.notes import Note
from agentsched.store.targets import Start

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


@dataclass(frozen=True, slots=True)
class _Decided:
    row: DueRow
    decision: FireDecision
    day: date


async def fire_locked(conn: AsyncConnection, settings: Settings, ids: Sequence[int]) -> FireCounts:
    """Fire due schedules that this transaction has locked. A schedule whose decision fails is paused (``error``)."""
    now = await clock.now(conn)
    rows = await due.read_due(conn, ids)
    await runs.lock_flights(conn, [row.id for row in rows if row.overlap == Overlap.REPLACE and row.has_line])
    lines = await due.read_lines(conn, {row.id: _waiting_to_read(row) for row in rows if row.has_line})
    today = now.astimezone(UTC).date()
    had = await fires.lock_principal_days(conn, list({row.principal_id for row in rows}), today)
    spent: dict[int, int] = {}
    counts = FireCounts()
    decided: list[_Decided] = []
    slots = 0
    for row in rows:
        left = settings.daily_run_limit_per_principal - had[row.principal_id] - spent.get(row.principal_id, 0)
        try:
            day = now.astimezone(zone(row.timezone)).date()
            due_schedule = _due_schedule(row, lines.get(row.id), day, left)
            decision = decide_fire(due_schedule, now, keep=settings.misfire_all_keep)
        except Exception as error:
            counts.add(await record_poison(conn, row.id, str(error), now))
            continue
        decided.append(_Decided(row, decision, day))
        if decision.admitted:
            spent[row.principal_id] = spent.get(row.principal_id, 0) + decision.admitted
        slots += len(decision.slots)
        if slots >= ROWS_A_BATCH * settings.fire_batch:
            break
    counts.add(await _write(conn, decided, lines, now))
    await fires.spend_principal_days(conn, spent, today)
    return counts


async def record_poison(conn: AsyncConnection, schedule_id: int, error: str, now: datetime) -> FireCounts:
    """Record the slot of a schedule that cannot be fired as failed, and pause it with a note in the owner's inbox."""
    await poison.pause_unfirable(conn, schedule_id, error[:2000], now)
    return FireCounts(due=1)


def _waiting_to_read(row: DueRow) -> int | None:
    """How many waiting runs the decision needs: a bounded line is only counted, the others are superseded by id."""
    match Overlap(row.overlap):
        case Overlap.QUEUE | Overlap.ALLOW:
            return row.queue_limit or 1
        case Overlap.SKIP | Overlap.QUEUE_LATEST | Overlap.REPLACE:
            return None


def _due_schedule(row: DueRow, line: Sequence[LineRow] | None, day: date, principal_left: int) -> DueSchedule:
    runs_left = principal_left
    if row.daily_run_limit is not None:
        runs_left = min(runs_left, row.daily_run_limit - (row.day_runs if row.day == day else 0))
    if row.daily_token_limit is not None and row.day == day and row.day_tokens >= row.daily_token_limit:
        runs_left = 0
    return DueSchedule(
        timing=Timing(Kind(row.kind), row.cron, row.every_minutes, row.anchor_at, row.at, row.timezone),
        limits=Limits(Overlap(row.overlap), row.max_concurrency, row.queue_limit),
        misfire=Misfire(row.misfire),
        misfire_grace_seconds=row.misfire_grace_seconds,
        next_fire_at=row.next_fire_at,
        ends_at=row.ends_at,
        max_runs=row.max_runs,
        runs_admitted=row.runs_admitted,
        runs_left=runs_left,
        line=line_of(line) if line else Line(),
    )


async def _write(
    conn: AsyncConnection, decided: Sequence[_Decided], lines: Mapping[int, Sequence[LineRow]], now: datetime
) -> FireCounts:
    ids = await _allocate(conn, decided)
    new_runs: list[NewRun] = []
    starts: list[Start] = []
    advances: list[Advance] = []
    new_notes: list[Note] = []
    counts = FireCounts()
    for one in decided:
        row, decision = one.row, one.decision
        await runs.make_way(conn, supersede=decision.supersede, cancel=decision.cancel, ask=decision.ask, now=now)
        if decision.missed is not None:
            new_runs.append(_missed_run(one, next(ids.runs), now))
            counts.missed += decision.missed.count
        over_budget = False
        for slot in decision.slots:
            run_id, conversation_id = next(ids.runs), None
            if slot.status is RunStatus.PENDING:
                conversation_id = row.conversation_id if row.mode == Mode.APPEND else next(ids.conversations)
                starts.append(_start(row, slot, run_id, conversation_id, next(ids.tasks)))
            elif slot.status is RunStatus.SKIPPED:
                counts.skipped += 1
                over_budget = over_budget or slot.reason is Reason.BUDGET
            counts.fired += slot.status is not RunStatus.SKIPPED
            new_runs.append(_slot_run(one, slot, run_id, conversation_id, lines.get(row.id, ()), now))
        noted = row.day == one.day and row.day_noted
        if over_budget and not noted:
            new_notes.append(_budget_note(row))
        advances.append(_advance(one, noted=noted or over_budget))
    counts.due = counts.fired + counts.skipped + counts.missed
    await targets.open_conversations(conn, starts, now)
    await fires.insert_runs(conn, new_runs, now)
    await targets.open_tasks(conn, starts, now)
    await fires.advance_schedules(conn, advances, now)
    await notes.insert_notes(conn, new_notes, now)
    return counts


async def _allocate(conn: AsyncConnection, decided: Sequence[_Decided]) -> targets.IdStreams:
    conversations = run_ids = tasks = 0
    for one in decided:
        starting = sum(slot.status is RunStatus.PENDING for slot in one.decision.slots)
        run_ids += len(one.decision.slots) + (one.decision.missed is not None)
        tasks += starting
        conversations += starting if one.row.mode != Mode.APPEND else 0
    return await targets.allocate_ids(conn, conversations=conversations, runs=run_ids, tasks=tasks)


def _start(row: DueRow, slot: Slot, run_id: int, conversation_id: int, task_id: int) -> Start:
    timing = Timing(Kind(row.kind), row.cron, row.every_minutes, row.anchor_at, row.at, row.timezone)
    return Start(
        run_id=run_id,
        conversation_id=conversation_id,
        task_id=task_id,
        owner_id=row.conversation_id,
        mode=Mode(row.mode),
        snapshot_id=row.agent_id,
        title=targets.title(row.name, row.number, slot.fire_at, row.timezone),
        priority=PRIORITY_LIVE,
        due_at=slot.fire_at,
        attempt=1,
        timeout_seconds=attempt_timeout(row.timeout_seconds, timing, slot.fire_at),
        start_deadline_seconds=row.start_deadline_seconds if row.misfire == Misfire.SKIP else None,
    )


def _slot_run(
    one: _Decided,
    slot: Slot,
    run_id: int,
    conversation_id: int | None,
    line: Sequence[LineRow],
    now: datetime,
) -> NewRun:
    skipped = slot.status is RunStatus.SKIPPED
    return NewRun(
        id=run_id,
        principal_id=one.row.principal_id,
        schedule_id=one.row.id,
        version=one.row.version,
        trigger=one.row.kind,
        fire_at=slot.fire_at,
        occurrence_key=slot_key(slot.fire_at),
        status=slot.status,
        reason=slot.reason,
        reason_text=_skip_text(slot.reason, one.row, line, now) if slot.reason is not None else None,
        conversation_id=conversation_id,
        attempt=1 if conversation_id is not None else 0,
        missed_count=None,
        missed_until=None,
        overdue=slot.overdue,
        counted=not skipped,
        finished_at=now if skipped else None,
    )


def _missed_run(one: _Decided, run_id: int, now: datetime) -> NewRun:
    stretch = one.decision.missed
    assert stretch is not None  # noqa: S101 — the caller has looked
    return NewRun(
        id=run_id,
        principal_id=one.row.principal_id,
        schedule_id=one.row.id,
        version=one.row.version,
        trigger=one.row.kind,
        fire_at=stretch.first,
        occurrence_key=slot_key(stretch.first),
        status=RunStatus.MISSED,
        reason=Reason.MISFIRE,
        reason_text=reason_text(Reason.MISFIRE),
        conversation_id=None,
        attempt=0,
        missed_count=stretch.count,
        missed_until=stretch.last,
        overdue=False,
        counted=False,
        finished_at=now,
    )


def _skip_text(reason: Reason, row: DueRow, line: Sequence[LineRow], now: datetime) -> str:
    flights = [flight for flight in line if flight.status in IN_FLIGHT]
    if reason is not Reason.OVERLAP or not flights:
        return reason_text(reason)
    held = min(flights, key=lambda flight: (flight.fire_at, flight.run_id))
    holder = Holder(
        held.run_id, RunStatus(held.status), held.started_at or held.fire_at, held.worker, held.heartbeat_at
    )
    return overlap_text(holder, slots=row.max_concurrency or 1, timezone=row.timezone, now=now)


def _budget_note(row: DueRow) -> Note:
    name = row.name or f"Schedule {row.number}"
    text = f"{name} has used up its runs for today; further fires are recorded as skipped until midnight."
    return Note(row.conversation_id, NoteKind.BUDGET, text, row.id, None)


def _advance(one: _Decided, *, noted: bool) -> Advance:
    row, decision = one.row, one.decision
    fired = [slot.fire_at for slot in decision.slots if slot.status is not RunStatus.SKIPPED]
    same_day = row.day == one.day
    return Advance(
        id=row.id,
        version=row.version,
        read_next_fire_at=row.next_fire_at,
        next_fire_at=decision.next_fire_at,
        accounted_until=decision.accounted_until,
        last_fire_at=fired[-1] if fired else None,
        admitted=decision.admitted,
        day=one.day,
        day_runs=(row.day_runs if same_day else 0) + decision.admitted,
        day_tokens=row.day_tokens if same_day else 0,
        day_noted=noted,
    )
