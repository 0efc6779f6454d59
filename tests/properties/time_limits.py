"""What a tick and a sweep have to end, and what becomes of it (DESIGN §6, §8, §9)."""

import itertools
from datetime import datetime, timedelta

from agentsched.core.timing import next_occurrence
from agentsched.core.words import Misfire, Reason, RunStatus, TaskStatus
from tests.properties.model import Model, Step
from tests.properties.snapshot import Row, Snapshot, is_timed, timing_of

MINUTE = timedelta(minutes=1)


def check_limits(step: Step, before: Snapshot, after: Snapshot, model: Model) -> None:
    """All of them. ``model`` is that of the time before the step."""
    _only_outages_strand(before, after, model)
    if step.do in ("tick", "sweep"):
        _nothing_is_overdue(after)
        _losses_are_judged(before, after, model)
        _outages_strand(after, model)


def _nothing_is_overdue(state: Snapshot) -> None:
    for task in state.tasks.values():
        if task.status not in (TaskStatus.PENDING, TaskStatus.RUNNING):
            continue
        limits = (task.lease_expires_at, task.deadline_at, task.cancel_deadline_at, task.start_deadline_at)
        assert all(limit is None or limit > state.now for limit in limits), task
    for run in state.runs.values():
        assert run.retry_at is None or run.retry_at > state.now, run


def _losses_are_judged(before: Snapshot, after: Snapshot, model: Model) -> None:
    for task in before.tasks.values():
        if task.status != TaskStatus.RUNNING or task.lease_expires_at > after.now:
            continue
        if task.run_id is None:
            assert after.tasks[task.id].status in (TaskStatus.FAILED, TaskStatus.CANCELLED), after.tasks[task.id]
        else:
            run = after.runs[task.run_id]
            expected = _after_a_loss(before, before.runs[task.run_id], after.now, model.losses.get(run.id, 0) + 1)
            assert (run.status, run.attempt) in expected, f"{run}, expected {expected}"


def _after_a_loss(state: Snapshot, run: Row, now: datetime, losses: int) -> list[tuple[str, int]]:
    """Status and attempt of a run that has just lost its worker."""
    policies = state.version_of(run)
    late = now.replace(second=0, microsecond=0) - run.fire_at > timedelta(seconds=policies.misfire_grace_seconds)
    if run.cancel_requested_at is not None:
        return [(RunStatus.CANCELLED, run.attempt)]
    if run.attempt < policies.retry_max_attempts:
        # Without a delay the next attempt is due at once.
        return [(RunStatus.RETRY_WAIT, run.attempt), (RunStatus.PENDING, run.attempt + 1)]
    if late and may_be_too_late(state, run):
        return [(RunStatus.ABANDONED, run.attempt)]
    return [(RunStatus.FAILED if losses >= 3 else RunStatus.PENDING, run.attempt)]


def may_be_too_late(state: Snapshot, run: Row) -> bool:
    """Timed runs under ``misfire: skip``, but those that were admitted late."""
    return is_timed(run) and state.version_of(run).misfire == Misfire.SKIP and not run.overdue


def _only_outages_strand(before: Snapshot, after: Snapshot, model: Model) -> None:
    for run in after.runs.values():
        was = before.runs.get(run.id)
        if run.reason == Reason.STRANDED and (was is None or was.status == RunStatus.QUEUED):
            assert was is not None, run
            assert may_be_too_late(after, run), run
            assert model.went_back or _stranding(after, was), run


def _outages_strand(after: Snapshot, model: Model) -> None:
    if not model.went_back:
        queued = [run for run in after.runs.values() if run.status == RunStatus.QUEUED]
        kept = [run for run in queued if may_be_too_late(after, run) and _stranding(after, run)]
        assert kept == [], f"{kept} are still in line after {_stranding(after, kept[0])}"


def _stranding(state: Snapshot, run: Row) -> tuple[datetime, datetime] | None:
    """The hole between two ticks, or since the last one, that a queued run did not survive (DESIGN §8)."""
    following = next_occurrence(timing_of(state.schedules[run.schedule_id]), run.fire_at)
    if following is None:
        return None
    minutes = [*state.ticks, state.now.replace(second=0, microsecond=0)]
    for last, until in itertools.pairwise(minutes):
        waited = run.fire_at <= last and run.created_at < until
        if waited and until - last > max(2 * (following - run.fire_at), MINUTE):
            return last, until
    return None
