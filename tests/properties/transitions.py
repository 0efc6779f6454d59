"""What holds between the snapshots before and after a step (DESIGN §4 to §10)."""

from datetime import UTC, datetime, timedelta

from agentsched.core.words import (
    IN_FLIGHT,
    Lane,
    Misfire,
    Overlap,
    PauseReason,
    Reason,
    Reprocess,
    RunStatus,
    ScheduleStatus,
    TaskStatus,
    Trigger,
)
from agentsched.core.zones import zone
from agentsched.service.requests import BackfillRequest
from tests.properties.invariants import NOT_STOPPED, is_stopping
from tests.properties.model import Model, Step, ended_in, is_used_up, later, slots_between
from tests.properties.snapshot import Row, Snapshot, has_ended, is_timed, place, timing_of
from tests.properties.time_limits import check_limits, may_be_too_late
from tests.properties.world import SMALL

ENDED_TASK = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.ABANDONED)
ALWAYS_ADMITTED = (Trigger.MANUAL, Trigger.BACKFILL, Trigger.REQUEUE)
KEEP, DAILY_RUNS = SMALL["misfire_all_keep"], SMALL["daily_run_limit_per_principal"]

Slots = tuple[datetime, ...]


def check_step(step: Step, before: Snapshot, after: Snapshot, model: Model) -> None:
    """All of them. ``model`` is that of the time before the step."""
    if step.refused is not None:
        # A delivery over budget leaves a note, and one after ends_at completes the schedule (DESIGN §10).
        ledgers = ((state.runs, state.tasks, state.days) for state in (before, after))
        assert all(before == after for before, after in zip(*ledgers, strict=True)), f"{step} has changed something"
        assert after == before or step.do == "deliver", f"{step} has changed something"
        return
    _what_has_ended_stays(step, before, after)
    _fences_grow(step, before, after)
    _retries_wait_their_delay(before, after)
    check_limits(step, before, after, model)
    for schedule in after.schedules.values():
        _slots_are_held(before, after, schedule)
        _the_line_is_in_order(before, after, schedule)
        _endings_are_those_of_the_policies(before, after, schedule)
        old = before.schedules.get(schedule.id)
        if old is not None:
            _accounts_grow(old, schedule)
            _counters_are_right(before, after, old, schedule)
            _pauses_have_a_cause(step, before, after, old, schedule)
            if step.do in ("tick", "sweep") and old.status == ScheduleStatus.ACTIVE:
                since = later(model.spans[old.id][-1].after, old.accounted_until)
                _late_slots_go_by_misfire(before, after, old, schedule, since)
            if step.catch_up is not None and old.status == ScheduleStatus.PAUSED != schedule.status:
                _pauses_are_replayed(step.catch_up, before, after, old, schedule)
    _principals_days_are_right(before, after)
    if step.backfill is not None and step.schedule_id is not None:
        _backfill_runs_what_qualifies(step.backfill, before, after, after.schedules[step.schedule_id])
    if step.do == "tick":
        due = [s for s in after.schedules.values() if s.next_fire_at is not None and s.next_fire_at <= after.now]
        assert due == [], "due after a tick"


def _what_has_ended_stays(step: Step, before: Snapshot, after: Snapshot) -> None:
    for run in before.runs.values():
        now = after.runs[run.id]
        if has_ended(run):
            discarded = step.do == "discard" and run.status == RunStatus.FAILED
            assert now == run or discarded, f"{run} has become {now}"
        elif run.status in IN_FLIGHT:
            assert now.status != RunStatus.QUEUED, f"{run} is back in line"
    for task in before.tasks.values():
        if task.status in ENDED_TASK:
            assert after.tasks[task.id] == task, f"{task} has become {after.tasks[task.id]}"


def _fences_grow(step: Step, before: Snapshot, after: Snapshot) -> None:
    for task in after.tasks.values():
        old = before.tasks.get(task.id)
        fence = 0 if old is None else old.fence
        claimed = (
            step.do == "claim" and task.status == TaskStatus.RUNNING and (old is None or old.status != task.status)
        )
        assert task.fence == fence + claimed, f"fence {fence} of {task}"


def _retries_wait_their_delay(before: Snapshot, after: Snapshot) -> None:
    for run in after.runs.values():
        policies = after.version_of(run)
        assert run.attempt <= policies.retry_max_attempts, run
        was = before.runs.get(run.id)
        if run.status != RunStatus.RETRY_WAIT or (was is not None and was.status == RunStatus.RETRY_WAIT):
            continue
        delay = policies.retry_initial_delay_seconds * 2 ** (run.attempt - 1)
        delay = min(delay, policies.retry_max_delay_seconds)
        assert run.retry_at == after.now + timedelta(seconds=delay), run


def _slots_are_held(before: Snapshot, after: Snapshot, schedule: Row) -> None:
    """In flight is at most ``max_concurrency`` when something starts; manual runs always start, and count."""
    policies, flying = after.policies(schedule), after.in_flight(schedule.id)
    started = [run for run in _entered_flight(before, after, schedule) if run.trigger != Trigger.MANUAL]
    if not started:
        return
    if policies.max_concurrency is not None:
        assert len(flying) <= policies.max_concurrency, f"{started} started beside {flying}"
    elif any(run.overdue for run in started):
        assert sum(run.overdue for run in flying) == 1, f"{started} started beside {flying}"


def _the_line_is_in_order(before: Snapshot, after: Snapshot, schedule: Row) -> None:
    policies = after.policies(schedule)
    stayed = [run for run in after.queued(schedule.id) if run.id in before.runs]
    for started in _entered_flight(before, after, schedule):
        for waiting in stayed:
            if started.trigger == Trigger.MANUAL or place(waiting) > place(started):
                continue
            held_by_pause = schedule.status == ScheduleStatus.PAUSED and waiting.trigger != Trigger.REQUEUE
            one_by_one = policies.max_concurrency is None and waiting.overdue and not started.overdue
            replacing = policies.overlap == Overlap.REPLACE and started.lane == Lane.BACKFILL
            held = waiting.lane == Lane.LIVE and (held_by_pause or one_by_one or replacing)
            assert held, f"{started} was started before {waiting}"


def _entered_flight(before: Snapshot, after: Snapshot, schedule: Row) -> list[Row]:
    return [
        run
        for run in after.in_flight(schedule.id)
        if run.id not in before.runs or before.runs[run.id].status == RunStatus.QUEUED
    ]


def _endings_are_those_of_the_policies(before: Snapshot, after: Snapshot, schedule: Row) -> None:
    policies, flying = after.policies(schedule), after.in_flight(schedule.id)
    waiting = [run for run in after.queued(schedule.id) if run.lane == Lane.LIVE]
    for run in ended_in(before, after, schedule.id):
        match run.status, run.reason:
            case (RunStatus.ABANDONED, _) | (_, Reason.STRANDED | Reason.NOT_STARTED):
                assert may_be_too_late(after, run), run
            case _, Reason.OVERLAP:
                assert policies.overlap == Overlap.SKIP, run
                assert len(flying) >= policies.max_concurrency or waiting, run
            case _, Reason.QUEUE_FULL:
                assert policies.overlap in (Overlap.QUEUE, Overlap.ALLOW), run
                assert len(waiting) >= policies.queue_limit, run
            case _, Reason.BUDGET:
                spent = policies.daily_run_limit is not None and schedule.day_runs >= policies.daily_run_limit
                day = run.principal_id, after.now.astimezone(UTC).date()
                assert spent or after.days[day][0] >= DAILY_RUNS, run
            case _:
                pass
    _replacements_stop_the_others(before, after, schedule)


def _replacements_stop_the_others(before: Snapshot, after: Snapshot, schedule: Row) -> None:
    """A fire that waits under ``replace`` has asked all that it replaces to stop (DESIGN §7)."""
    if after.policies(schedule).overlap != Overlap.REPLACE:
        return
    fired = [run for run in after.queued(schedule.id) if run.id not in before.runs and is_timed(run)]
    if any(not run.overdue for run in fired):
        others = [run for run in after.in_flight(schedule.id) if run.id in before.runs]
        spared = [run for run in others if not is_stopping(run) and run.trigger not in NOT_STOPPED]
        assert spared == [], f"{fired} wait, and nobody has stopped {spared}"


def _accounts_grow(old: Row, new: Row) -> None:
    if old.accounted_until is not None:
        assert new.accounted_until >= old.accounted_until, f"{old} has become {new}"
    if new.next_fire_at is not None and new.accounted_until is not None:
        assert new.next_fire_at > new.accounted_until, new


def _counters_are_right(before: Snapshot, after: Snapshot, old: Row, new: Row) -> None:
    admitted = [run for run in after.runs_of(new.id) if run.id not in before.runs and _is_admitted(run)]
    tokens = sum(_tokens(run) for run in ended_in(before, after, new.id))
    assert new.runs_admitted == old.runs_admitted + sum(run.counted for run in admitted), new
    had = (old.day_runs, old.day_tokens) if new.day == old.day else (0, 0)
    now_has = (new.day_runs, new.day_tokens)
    assert now_has == (had[0] + len(admitted), had[1] + tokens), f"{now_has} on {new.day}, {had} before {admitted}"
    if admitted or tokens:
        assert new.day == after.now.astimezone(zone(new.timezone)).date(), new
    limit = after.policies(new).daily_run_limit
    if limit is not None and any(run.counted for run in admitted):
        assert new.day_runs <= limit, f"{new} has spent more than its day"


def _principals_days_are_right(before: Snapshot, after: Snapshot) -> None:
    expected = dict(before.days)
    today = after.now.astimezone(UTC).date()
    for run in after.runs.values():
        was = before.runs.get(run.id)
        tokens = _tokens(run) if was is None or not has_ended(was) else 0
        admitted = was is None and _is_admitted(run)
        if admitted or tokens:
            runs, used = expected.get((run.principal_id, today), (0, 0))
            expected[run.principal_id, today] = runs + admitted, used + tokens
            assert not (admitted and run.counted) or runs < DAILY_RUNS, f"{run} is more than the principal's day"
    assert after.days == expected, f"{after.days}, expected {expected}"


def _tokens(run: Row) -> int:
    return sum(run.usage.values()) if run.usage else 0


def _is_admitted(run: Row) -> bool:
    return run.counted or run.trigger in ALWAYS_ADMITTED


def _pauses_have_a_cause(step: Step, before: Snapshot, after: Snapshot, old: Row, new: Row) -> None:
    if old.status != ScheduleStatus.ACTIVE:
        return
    failed = any(run.status == RunStatus.FAILED for run in ended_in(before, after, new.id))
    limit = before.policies(old).pause_after_failures
    too_many = failed and limit is not None and new.consecutive_failures >= limit
    counted = new.consecutive_failures > old.consecutive_failures
    if counted and too_many:
        assert (new.status, new.pause_reason) == (ScheduleStatus.PAUSED, PauseReason.FAILURES), new
    elif new.status == ScheduleStatus.PAUSED:
        assert (step.do, new.pause_reason) == ("pause", PauseReason.USER), f"{new} was paused by {step}"


def _late_slots_go_by_misfire(before: Snapshot, after: Snapshot, old: Row, new: Row, since: datetime) -> None:
    """Which of the slots that were due since then were missed, by a rule as simple as the words of DESIGN §8."""
    if new.accounted_until == old.accounted_until or new.status == ScheduleStatus.PAUSED:
        return
    now, policies = after.now, after.policies(new)
    end = now if old.ends_at is None else min(now, old.ends_at)
    due = slots_between(timing_of(old), since, end)
    minute = now.replace(second=0, microsecond=0)
    late = tuple(slot for slot in due if minute - slot > timedelta(seconds=policies.misfire_grace_seconds))
    _are_missed(before, after, new, due, _lost(Misfire(policies.misfire), due, late))


def _pauses_are_replayed(catch_up: Misfire, before: Snapshot, after: Snapshot, old: Row, new: Row) -> None:
    """All slots that passed are late, ``catch_up`` sorts them, and what runs of them is never too late (DESIGN §8)."""
    end = after.now if old.ends_at is None else min(after.now, old.ends_at)
    due = slots_between(timing_of(old), later(old.paused_at, old.accounted_until), end)
    if due and not is_used_up(old):
        _are_missed(before, after, new, due, _lost(catch_up, due, due))
    newest_only = after.policies(new).overlap in (Overlap.QUEUE_LATEST, Overlap.REPLACE)
    for run in after.runs_of(new.id):
        if run.id not in before.runs and not has_ended(run):
            assert run.overdue or (newest_only and run.status == RunStatus.QUEUED), run


def _lost(misfire: Misfire, due: Slots, late: Slots) -> Slots:
    match misfire:
        case Misfire.SKIP:
            return late
        case Misfire.LATEST:
            return due[:-1] if late else ()
        case Misfire.ALL:
            return due[:-KEEP] if late else ()


def _are_missed(before: Snapshot, after: Snapshot, schedule: Row, due: Slots, expected: Slots) -> None:
    new = [run for run in after.runs_of(schedule.id) if run.id not in before.runs and run.reason == Reason.MISFIRE]
    assert len(new) <= 1, new
    stretch = tuple(slot for slot in due if new and new[0].fire_at <= slot <= new[0].missed_until)
    assert stretch == expected, f"{schedule}: of the due slots {due}, {stretch} were missed and not {expected}"


def _backfill_runs_what_qualifies(asked: BackfillRequest, before: Snapshot, after: Snapshot, schedule: Row) -> None:
    """Every slot of the range that ``reprocess`` means, and no other (DESIGN §8)."""
    had: dict[datetime, set[str]] = {}
    for run in before.runs_of(schedule.id):
        if _is_of_a_slot(before, run):
            had.setdefault(run.fire_at, set()).add(run.status)
    until = asked.to if schedule.ends_at is None else min(asked.to, schedule.ends_at)
    expected = [
        slot
        for slot in slots_between(timing_of(schedule), asked.from_, until)
        if _qualifies(had.get(slot, set()), asked.reprocess)
    ]
    new = sorted(run.fire_at for run in after.runs.values() if run.id not in before.runs)
    assert new == expected, f"{asked} has made {new}, and not {expected}"


def _is_of_a_slot(state: Snapshot, run: Row) -> bool:
    if run.trigger == Trigger.REQUEUE:
        return _is_of_a_slot(state, state.runs[run.requeue_of])
    return is_timed(run) or run.trigger == Trigger.BACKFILL


def _qualifies(had: set[str], reprocess: Reprocess) -> bool:
    did_not_run = {RunStatus.SKIPPED, RunStatus.MISSED, RunStatus.CANCELLED, RunStatus.ABANDONED}
    match reprocess:
        case Reprocess.MISSING:
            return had <= did_not_run
        case Reprocess.FAILED:
            return RunStatus.FAILED in had and had <= {RunStatus.FAILED, *did_not_run}
        case Reprocess.ALL:
            return True
