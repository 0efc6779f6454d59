"""Turn the decisions of a batch into the rows that it writes."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

from agentsched.core.fire import FireDecision, Slot
from agentsched.core.limits import attempt_timeout
from agentsched.core.misfire import NOTHING_IS_ON_TIME, Stretch
from agentsched.core.occurrence_keys import hook_key, slot_key
from agentsched.core.reasons import (
    Holder,
    misfire_text,
    overlap_text,
    passed_in_pause_text,
    queue_full_text,
    reason_text,
    superseded_text,
)
from agentsched.core.timing import Timing
from agentsched.core.words import IN_FLIGHT, Misfire, Mode, NoteKind, Overlap, Reason, RunStatus
from agentsched.store.due import DueRow, LineRow
from agentsched.store.fires import Advance, Recorded, Started
from agentsched.store.notes import Note
from agentsched.store.targets import IdStreams, Start, title


class Decided(NamedTuple):
    """A due schedule with its decision. ``day`` is the day of its zone, ``line`` what was in flight and waiting."""

    row: DueRow
    timing: Timing
    decision: FireDecision
    day: date
    line: Sequence[LineRow]


class FireRows:
    """The rows of one batch, or those of a webhook's delivery. ``compose`` fills them once the ids are there."""

    def __init__(self, decided: Sequence[Decided], now: datetime, *, delivery_id: int | None = None) -> None:
        self.now = now
        self.delivery_id = delivery_id
        self.fired = self.skipped = self.missed = 0
        self.starts: list[Start] = []
        self.started: list[Started] = []
        self.recorded: list[Recorded] = []
        self.advances: list[Advance] = []
        self.notes: list[Note] = []
        self._decided = decided
        self.new_targets = self.new_runs = self.new_tasks = 0
        for one in decided:
            starting = sum(slot.status is RunStatus.PENDING for slot in one.decision.slots)
            self.new_tasks += starting
            self.new_targets += starting if one.row.mode != Mode.APPEND else 0
            self.new_runs += len(one.decision.slots) + (one.decision.missed is not None)

    @property
    def displacing(self) -> list[tuple[FireDecision, str]]:
        """Decisions that do something to earlier runs, and why, for those that they supersede."""
        return [
            (one.decision, _superseded_text(one, self.now))
            for one in self._decided
            if one.decision.supersede or one.decision.cancel or one.decision.ask
        ]

    def compose(self, ids: IdStreams) -> None:
        """Make the rows, with ids in the order of the slots."""
        for one in self._decided:
            if one.decision.missed is not None:
                self._miss(one, one.decision.missed, next(ids.runs))
            for slot in one.decision.slots:
                if slot.status is RunStatus.PENDING:
                    self._start(one, slot, ids)
                else:
                    self._record(one, slot, next(ids.runs))
            self._advance(one)

    def _start(self, one: Decided, slot: Slot, ids: IdStreams) -> None:
        row = one.row
        run_id = next(ids.runs)
        target_id = row.conversation_id if row.mode == Mode.APPEND else next(ids.conversations)
        self.fired += 1
        self.started.append(
            Started(run_id, row.id, slot.fire_at, self._key(slot), target_id, slot.overdue or _caught_up(row))
        )
        self.starts.append(
            Start(
                run_id=run_id,
                conversation_id=target_id,
                task_id=next(ids.tasks),
                owner_id=row.conversation_id,
                mode=Mode(row.mode),
                snapshot_id=row.agent_id,
                title=title(row.name, row.number, slot.fire_at, row.timezone),
                timeout_seconds=attempt_timeout(row.timeout_seconds, one.timing, slot.fire_at),
                start_deadline_seconds=None if self._late_is_fine(row) else row.start_deadline_seconds,
            )
        )

    def _record(self, one: Decided, slot: Slot, run_id: int) -> None:
        text = None
        if slot.reason is None:
            self.fired += 1
        else:
            self.skipped += 1
            text = _skip_text(slot.reason, one, self.now)
        key = self._key(slot)
        # Where only the newest waits, a newer fire takes the place of what a resume catches up with, too.
        waits = slot.reason is None and one.row.overlap not in (Overlap.QUEUE_LATEST, Overlap.REPLACE)
        overdue = slot.overdue or (waits and _caught_up(one.row))
        self.recorded.append(
            Recorded(run_id, one.row.id, slot.fire_at, key, slot.status, slot.reason, text, None, None, overdue)
        )

    def _key(self, slot: Slot) -> str:
        return slot_key(slot.fire_at) if self.delivery_id is None else hook_key(self.delivery_id)

    def _late_is_fine(self, row: DueRow) -> bool:
        return self.delivery_id is not None or row.misfire != Misfire.SKIP

    def _miss(self, one: Decided, stretch: Stretch, run_id: int) -> None:
        self.missed += stretch.count
        self.recorded.append(
            Recorded(
                id=run_id,
                schedule_id=one.row.id,
                fire_at=stretch.first,
                occurrence_key=slot_key(stretch.first),
                status=RunStatus.MISSED,
                reason=Reason.MISFIRE,
                reason_text=_missed_text(stretch, one.row, self.now),
                missed_count=stretch.count,
                missed_until=stretch.last,
                overdue=False,
            )
        )

    def _advance(self, one: Decided) -> None:
        row, decision = one.row, one.decision
        admitted = [slot.fire_at for slot in decision.slots if slot.status is not RunStatus.SKIPPED]
        noted = row.day_noted and row.day == one.day
        if not noted and any(slot.reason is Reason.BUDGET for slot in decision.slots):
            self.notes.append(budget_note(one))
            noted = True
        self.advances.append(
            Advance(
                id=row.id,
                version=row.version,
                read_next_fire_at=row.next_fire_at if self.delivery_id is None else None,
                next_fire_at=decision.next_fire_at,
                accounted_until=decision.accounted_until,
                last_fire_at=admitted[-1] if admitted else None,
                admitted=decision.admitted,
                day=one.day,
                day_noted=noted,
                completes=decision.completes,
            )
        )


def _skip_text(reason: Reason, one: Decided, now: datetime) -> str:
    row = one.row
    match reason:
        case Reason.OVERLAP:
            return _overlap_text(row, one.line, now)
        case Reason.SUPERSEDED:
            return _superseded_text(one, now)
        case Reason.QUEUE_FULL if row.queue_limit is not None:
            return queue_full_text(row.queue_limit)
        case Reason.BUDGET:
            return reason_text(reason, detail=spent(one).text)
        case _:
            return reason_text(reason)


def _overlap_text(row: DueRow, line: Sequence[LineRow], now: datetime) -> str:
    flights = [flight for flight in line if flight.status in IN_FLIGHT]
    if not flights:
        return reason_text(Reason.OVERLAP)
    held = min(flights, key=lambda flight: (flight.fire_at, flight.run_id))
    holder = Holder(
        held.run_id, RunStatus(held.status), held.started_at or held.fire_at, held.worker, held.heartbeat_at
    )
    return overlap_text(holder, slots=row.max_concurrency or 1, timezone=row.timezone, now=now)


def _superseded_text(one: Decided, now: datetime) -> str:
    newest = next(slot for slot in reversed(one.decision.slots) if slot.status is not RunStatus.SKIPPED)
    return superseded_text(newest.fire_at, timezone=one.row.timezone, now=now)


def _caught_up(row: DueRow) -> bool:
    """Whether it fires for a resume that replays a pause."""
    return row.misfire_grace_seconds == NOTHING_IS_ON_TIME


def _missed_text(stretch: Stretch, row: DueRow, now: datetime) -> str:
    if _caught_up(row):
        return passed_in_pause_text(stretch, timezone=row.timezone, now=now)
    return misfire_text(
        stretch,
        misfire=Misfire(row.misfire),
        grace_seconds=row.misfire_grace_seconds,
        timezone=row.timezone,
        now=now,
    )


class Spent(NamedTuple):
    """A budget that is spent, in words; it is renewed at midnight in ``timezone``."""

    text: str
    timezone: str


def spent(one: Decided) -> Spent:
    """Which budget is spent: the schedule's own, or else the principal's."""
    row = one.row
    today = row.day == one.day
    runs = (row.day_runs if today else 0) + one.decision.admitted
    if row.daily_run_limit is not None and runs >= row.daily_run_limit:
        text = f"the schedule has had its {row.daily_run_limit} runs of {one.day} ({row.timezone})"
        return Spent(text, row.timezone)
    if row.daily_token_limit is not None and today and row.day_tokens >= row.daily_token_limit:
        text = f"the schedule has used its {row.daily_token_limit} tokens of {one.day} ({row.timezone})"
        return Spent(text, row.timezone)
    return Spent("its owner's schedules have had all their runs of the day (UTC)", "UTC")


def budget_note(one: Decided) -> Note:
    """For the first fire in a day that a budget keeps from running."""
    row, budget = one.row, spent(one)
    name = row.name or f"Schedule {row.number}"
    text = f"{name} does not run any more until midnight ({budget.timezone}): {budget.text}."
    return Note(row.conversation_id, NoteKind.BUDGET, text, row.id, None)
