"""Decide all that a due schedule does in one fire: which slots run, wait, are skipped or missed (DESIGN §5 to §8)."""

from datetime import datetime
from itertools import chain
from typing import NamedTuple

from agentsched.core.misfire import Stretch, is_late, sort_due
from agentsched.core.overlap import Admission, Flight, Limits, Line, Waiting, on_due
from agentsched.core.timing import Timing, next_occurrence, occurrences
from agentsched.core.words import Lane, Misfire, Reason, RunStatus, Trigger


class DueSchedule(NamedTuple):
    """A due schedule as the fire reads it under its lock. ``runs_left``: of its daily budget; None = no limit."""

    timing: Timing
    limits: Limits
    misfire: Misfire
    misfire_grace_seconds: int
    next_fire_at: datetime
    ends_at: datetime | None
    max_runs: int | None
    runs_admitted: int
    runs_left: int | None
    line: Line


class Slot(NamedTuple):
    """One slot's row in the ledger. ``status`` is pending, queued or skipped (then with a reason)."""

    fire_at: datetime
    status: RunStatus
    reason: Reason | None = None
    overdue: bool = False


class FireDecision(NamedTuple):
    """What one fire writes. ``completes``: nothing is left to fire.

    ``supersede``, ``cancel`` and ``ask`` name earlier runs of the schedule, as in ``overlap.Admission``.
    """

    missed: Stretch | None
    slots: tuple[Slot, ...]
    accounted_until: datetime
    next_fire_at: datetime | None
    admitted: int
    supersede: tuple[int, ...]
    cancel: tuple[int, ...]
    ask: tuple[int, ...]
    completes: bool


def decide_fire(due: DueSchedule, now: datetime, *, keep: int) -> FireDecision:
    """Decide all slots of ``due`` up to ``now`` (both UTC). ``keep``: how many overdue slots ``misfire: all`` runs.

    The next fire is after the later of ``now`` and the last slot accounted for, so that no slot can repeat.
    """
    end = now if due.ends_at is None else min(now, due.ends_at)
    following = next_occurrence(due.timing, due.next_fire_at)
    if following is not None and following <= end:
        slots = chain((due.next_fire_at, following), occurrences(due.timing, following, end))
    elif _is_plain(due, now):
        over = following is None or (due.ends_at is not None and following > due.ends_at)
        started = (Slot(due.next_fire_at, RunStatus.PENDING),)
        return FireDecision(None, started, due.next_fire_at, None if over else following, 1, (), (), (), over)
    else:
        slots = chain((due.next_fire_at,))
    work = sort_due(
        slots,
        misfire=due.misfire,
        now=now,
        grace_seconds=due.misfire_grace_seconds,
        keep=keep,
    )
    ledger = _Ledger(due)
    for slot, overdue in chain(((s, True) for s in work.overdue), ((s, False) for s in work.on_time)):
        if ledger.max_runs_reached:
            break
        ledger.decide(slot, overdue=overdue)
    accounted = ledger.slots[-1].fire_at if ledger.slots else work.missed.last if work.missed else due.next_fire_at
    if following is not None and following <= now:
        following = next_occurrence(due.timing, max(now, accounted))
    over = following is None or (due.ends_at is not None and following > due.ends_at) or ledger.max_runs_reached
    return ledger.decision(
        missed=work.missed, accounted_until=accounted, next_fire_at=None if over else following, completes=over
    )


def decide_delivery(due: DueSchedule) -> FireDecision:
    """Decide a webhook delivery that is accepted in the minute ``next_fire_at``, as the slot of a fire."""
    ledger = _Ledger(due)
    ledger.decide(due.next_fire_at, overdue=False)
    return ledger.decision(
        missed=None, accounted_until=due.next_fire_at, next_fire_at=None, completes=ledger.max_runs_reached
    )


def _is_plain(due: DueSchedule, now: datetime) -> bool:
    """Nothing in flight, nothing waiting, nothing late, nothing nearly used up: as nearly always, and quickly told."""
    return (
        not due.line.in_flight
        and not due.line.waiting
        and due.max_runs is None
        and (due.runs_left is None or due.runs_left > 0)
        and not is_late(due.next_fire_at, now, due.misfire_grace_seconds)
    )


class _Ledger:
    """The slots of one fire, decided one after the other; each sees the line that the ones before it left.

    Slots of this fire have no run id yet: in the line they go by negative numbers, -1 for the first.
    """

    def __init__(self, due: DueSchedule) -> None:
        self._due = due
        self._line = due.line
        self.slots: list[Slot] = []
        self.admitted = 0
        self.supersede: list[int] = []
        self.cancel: list[int] = []
        self.ask: list[int] = []

    @property
    def max_runs_reached(self) -> bool:
        return self._due.max_runs is not None and self._due.runs_admitted + self.admitted >= self._due.max_runs

    def decide(self, fire_at: datetime, *, overdue: bool) -> None:
        admission = on_due(self._due.limits, self._line, overdue=overdue)
        if isinstance(admission.verdict, Reason):
            self.slots.append(Slot(fire_at, RunStatus.SKIPPED, admission.verdict))
            return
        if self._due.runs_left is not None and self.admitted >= self._due.runs_left:
            self.slots.append(Slot(fire_at, RunStatus.SKIPPED, Reason.BUDGET))
            return
        self._make_way(admission)
        self.admitted += 1
        key = -len(self.slots) - 1
        if admission.verdict == "start":
            self.slots.append(Slot(fire_at, RunStatus.PENDING, overdue=overdue))
            flight = Flight(key, Trigger.CRON, RunStatus.PENDING, overdue=overdue)
            self._line = Line((*self._line.in_flight, flight), self._line.waiting)
        else:
            self.slots.append(Slot(fire_at, RunStatus.QUEUED, overdue=overdue))
            waiting = Waiting(key, Lane.LIVE, overdue)
            self._line = Line(self._line.in_flight, (*self._line.waiting, waiting))

    def decision(
        self, *, missed: Stretch | None, accounted_until: datetime, next_fire_at: datetime | None, completes: bool
    ) -> FireDecision:
        return FireDecision(
            missed=missed,
            slots=tuple(self.slots),
            accounted_until=accounted_until,
            next_fire_at=next_fire_at,
            admitted=self.admitted,
            supersede=tuple(self.supersede),
            cancel=tuple(self.cancel),
            ask=tuple(self.ask),
            completes=completes,
        )

    def _make_way(self, admission: Admission) -> None:
        if not (admission.supersede or admission.cancel or admission.ask):
            return
        gone = (*admission.supersede, *admission.cancel)
        for run_id in gone:
            if run_id < 0:
                fire_at = self.slots[-run_id - 1].fire_at
                self.slots[-run_id - 1] = Slot(fire_at, RunStatus.SKIPPED, Reason.SUPERSEDED)
                self.admitted -= 1
        self.supersede += [run_id for run_id in admission.supersede if run_id > 0]
        self.cancel += [run_id for run_id in admission.cancel if run_id > 0]
        self.ask += admission.ask
        flights = tuple(
            f._replace(asked=f.asked or f.run_id in admission.ask) for f in self._line.in_flight if f.run_id not in gone
        )
        self._line = Line(flights, tuple(w for w in self._line.waiting if w.run_id not in gone))
