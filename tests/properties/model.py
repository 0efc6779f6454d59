"""What schedules must have done, kept beside the service by naive rules: spans of time in force, and counts."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from agentsched.core.timing import Kind, Timing, next_occurrence, occurrences
from agentsched.core.words import COUNTED, Misfire, RunStatus, ScheduleStatus, TaskStatus
from agentsched.service.requests import BackfillRequest
from tests.properties.snapshot import Row, Snapshot, has_ended, timing_of


@dataclass(frozen=True)
class Step:
    """What was done, and to what. ``refused``: the service said no."""

    do: str
    refused: Exception | None = None
    schedule_id: int | None = None
    catch_up: Misfire | None = None
    backfill: BackfillRequest | None = None


@dataclass
class Span:
    """A time (after, until] in which a schedule was active with one timing; ``until`` None: it still is."""

    after: datetime
    until: datetime | None
    timing: Timing


class Model:
    """The expectations about every schedule."""

    def __init__(self) -> None:
        self.spans: dict[int, list[Span]] = {}
        self.failures: dict[int, int] = {}
        self.pauses: dict[int, int] = {}
        """How often failures have paused a schedule."""
        self.losses: dict[int, int] = {}
        """How often a run has lost its worker."""
        self.went_back = False
        """Whether the clock ever did."""

    def follow(self, step: Step, before: Snapshot, after: Snapshot) -> None:
        """Draw the consequences of a step."""
        self.went_back = self.went_back or after.now < before.now
        self._follow_losses(step, before, after)
        for schedule in after.schedules.values():
            old = before.schedules.get(schedule.id)
            if old is None:
                self.spans[schedule.id] = [Span(after.now, None, timing_of(schedule))]
                self.failures[schedule.id] = self.pauses[schedule.id] = 0
            else:
                self._follow_time(step, old, schedule, after.now)
                self._follow_failures(step, before, after, old, schedule)

    def slots(self, schedule: Row) -> list[datetime]:
        """Every slot that has to be accounted for by now, in order."""
        expected: list[datetime] = []
        for span in self.spans[schedule.id]:
            until = span.until or schedule.accounted_until
            if until is not None:
                expected += slots_between(span.timing, span.after, until)
        return sorted(expected)

    def next_slot(self, schedule: Row) -> datetime | None:
        """The first slot of an active schedule that is not accounted for."""
        span = self.spans[schedule.id][-1]
        return next_occurrence(span.timing, later(span.after, schedule.accounted_until))

    def _follow_losses(self, step: Step, before: Snapshot, after: Snapshot) -> None:
        if step.do not in ("tick", "sweep"):
            return
        for task in before.tasks.values():
            if task.status == TaskStatus.RUNNING and task.run_id is not None and task.lease_expires_at <= after.now:
                self.losses[task.run_id] = self.losses.get(task.run_id, 0) + 1

    def _follow_time(self, step: Step, old: Row, new: Row, now: datetime) -> None:
        spans = self.spans[new.id]
        if old.status == ScheduleStatus.ACTIVE:
            end = now if old.ends_at is None else min(now, old.ends_at)
            if new.status != ScheduleStatus.ACTIVE:
                cut = step.do in ("tick", "sweep") and is_used_up(new)
                spans[-1].until = new.accounted_until if cut else later(end, old.accounted_until)
            elif timing_of(old) != timing_of(new):
                spans[-1].until = later(end, old.accounted_until)
                spans.append(Span(later(now, new.accounted_until), None, timing_of(new)))
        elif step.do == "resume" and old.status == ScheduleStatus.PAUSED != new.status:
            self._follow_resume(step, old, new, now)

    def _follow_resume(self, step: Step, old: Row, new: Row, now: datetime) -> None:
        timing, end = timing_of(old), now if old.ends_at is None else min(now, old.ends_at)
        since = later(old.paused_at, old.accounted_until)
        passed = slots_between(timing, since, end)
        replayed = passed and step.catch_up is not None and not is_used_up(old)
        # A once whose instant passed in the pause is recorded when the pause ends (DESIGN §10, fine print).
        if not replayed and not (passed and old.kind == Kind.ONCE):
            since = end = later(now, old.accounted_until)
        over = new.status == ScheduleStatus.COMPLETED
        until = (new.accounted_until if replayed and is_used_up(new) else end) if over else None
        self.spans[new.id].append(Span(since, until, timing))

    def _follow_failures(self, step: Step, before: Snapshot, after: Snapshot, old: Row, new: Row) -> None:
        if step.do == "resume" and old.status == ScheduleStatus.PAUSED != new.status:
            self.failures[old.id] = 0
        failed = 0
        for run in ended_in(before, after, old.id):
            if run.trigger in COUNTED and run.status == RunStatus.FAILED:
                failed += 1
            elif run.trigger in COUNTED and run.status == RunStatus.COMPLETED:
                self.failures[old.id] = 0
        self.failures[old.id] += failed
        limit = before.policies(old).pause_after_failures
        too_many = limit is not None and self.failures[old.id] >= limit
        if failed and too_many and old.status == ScheduleStatus.ACTIVE:
            self.pauses[old.id] += 1


def ended_in(before: Snapshot, after: Snapshot, schedule_id: int) -> list[Row]:
    """The runs that have ended in a step, those that were never anything else included."""
    return [
        run
        for run in after.runs_of(schedule_id)
        if has_ended(run) and (run.id not in before.runs or not has_ended(before.runs[run.id]))
    ]


@lru_cache(maxsize=4096)
def slots_between(timing: Timing, after: datetime, until: datetime) -> tuple[datetime, ...]:
    """The occurrences in (after, until]."""
    return tuple(occurrences(timing, after, until)) if until > after else ()


def later(one: datetime, other: datetime | None) -> datetime:
    return one if other is None else max(one, other)


def is_used_up(schedule: Row) -> bool:
    """Its fire reached ``max_runs`` and ended there, whatever else was due (DESIGN §10)."""
    return schedule.max_runs is not None and schedule.runs_admitted >= schedule.max_runs
