"""What holds after every step, told from one snapshot and the model (DESIGN §4 to §10)."""

from bisect import bisect_left, bisect_right
from collections import Counter
from datetime import datetime

from agentsched.core.timing import Kind
from agentsched.core.words import (
    IN_FLIGHT,
    BackfillStatus,
    Lane,
    Mode,
    NoteKind,
    Overlap,
    PauseReason,
    RunStatus,
    ScheduleStatus,
    TaskKind,
    TaskStatus,
    Trigger,
)
from tests.properties.model import Model, is_used_up
from tests.properties.snapshot import Row, Snapshot, has_ended, is_timed

NOT_STOPPED = (Trigger.MANUAL, Trigger.BACKFILL)


def check_state(state: Snapshot, model: Model) -> None:
    """All of them."""
    _occurrences_are_unique(state)
    for schedule in state.schedules.values():
        _slots_are_accounted_for(state, model, schedule)
        _next_fire_is_the_first_one_left(model, schedule)
        _failures_are_counted(state, model, schedule)
        _nothing_waits_that_may_start(state, schedule)
        _one_backfill_at_a_time(state, schedule)
    _backfills_last_as_long_as_their_runs(state)
    _live_tasks_are_those_of_live_runs(state)
    _one_running_task_a_conversation(state)
    _everything_says_why(state)
    _runs_are_where_they_belong(state)
    _transcripts_have_no_holes(state)


def _occurrences_are_unique(state: Snapshot) -> None:
    keys = Counter((run.schedule_id, run.occurrence_key) for run in state.runs.values())
    assert [key for key, count in keys.items() if count > 1] == []


def _slots_are_accounted_for(state: Snapshot, model: Model, schedule: Row) -> None:
    """Each slot in a time when the schedule was active has one row or is in one missed stretch; no others have."""
    expected = model.slots(schedule)
    accounted: list[datetime] = []
    for run in state.runs_of(schedule.id):
        if not is_timed(run):
            continue
        if run.status == RunStatus.MISSED:
            stretch = expected[bisect_left(expected, run.fire_at) : bisect_right(expected, run.missed_until)]
            assert len(stretch) == run.missed_count, f"{run} is not the stretch {stretch}"
            assert (stretch[0], stretch[-1]) == (run.fire_at, run.missed_until), f"{run} is not the stretch {stretch}"
            accounted += stretch
        else:
            accounted.append(run.fire_at)
    surplus, lacking = Counter(accounted), Counter(expected)
    assert surplus == lacking, f"{schedule}: recorded and not expected {surplus - lacking}, lacking {lacking - surplus}"


def _next_fire_is_the_first_one_left(model: Model, schedule: Row) -> None:
    assert schedule.status != ScheduleStatus.ACTIVE or not is_used_up(schedule), f"{schedule} has had its max_runs"
    if schedule.status != ScheduleStatus.ACTIVE:
        assert schedule.next_fire_at is None
    elif schedule.kind != Kind.WEBHOOK:
        assert schedule.next_fire_at == model.next_slot(schedule), f"{schedule}: expected {model.next_slot(schedule)}"


def _failures_are_counted(state: Snapshot, model: Model, schedule: Row) -> None:
    assert schedule.consecutive_failures == model.failures[schedule.id], schedule
    noted = state.notes.get((schedule.id, NoteKind.SCHEDULE_PAUSED), 0)
    assert noted == model.pauses[schedule.id], f"{schedule}: {noted} notes of {model.pauses[schedule.id]} pauses"
    assert (schedule.status == ScheduleStatus.PAUSED) == (schedule.pause_reason is not None)
    assert schedule.pause_reason != PauseReason.ERROR, f"{schedule} could not be fired"


def _nothing_waits_that_may_start(state: Snapshot, schedule: Row) -> None:
    policies = state.policies(schedule)
    flying = state.in_flight(schedule.id)
    if policies.max_concurrency is not None and len(flying) >= policies.max_concurrency:
        return
    may_start = [run.id for run in state.queued(schedule.id) if may_start_beside(run, flying, schedule, policies)]
    assert may_start == [], f"{schedule} has a free slot, and the runs {may_start} wait"


def may_start_beside(run: Row, flying: list[Row], schedule: Row, policies: Row) -> bool:
    """Whether a queued run may take a free slot (DESIGN §7, §8 and their fine print)."""
    if run.lane == Lane.BACKFILL:
        return all(flight.lane != Lane.BACKFILL for flight in flying)
    if schedule.status == ScheduleStatus.PAUSED and run.trigger != Trigger.REQUEUE:
        return False
    if policies.overlap == Overlap.REPLACE and any(is_stopping(flight) for flight in flying):
        return False
    return not (policies.max_concurrency is None and run.overdue and any(flight.overdue for flight in flying))


def is_stopping(flight: Row) -> bool:
    """A run that a newer one replaces, or that somebody else has asked to stop."""
    return flight.cancel_requested_at is not None and flight.trigger not in NOT_STOPPED


def _one_backfill_at_a_time(state: Snapshot, schedule: Row) -> None:
    assert sum(flight.lane == Lane.BACKFILL for flight in state.in_flight(schedule.id)) <= 1


def _backfills_last_as_long_as_their_runs(state: Snapshot) -> None:
    for backfill in state.backfills.values():
        runs = [run for run in state.runs.values() if run.backfill_id == backfill.id]
        assert len(runs) == backfill.count, backfill
        left = [run for run in runs if not has_ended(run)]
        assert backfill.status == BackfillStatus.CANCELLED or (backfill.status == BackfillStatus.RUNNING) == bool(left)
        assert backfill.status != BackfillStatus.CANCELLED or all(run.status != RunStatus.QUEUED for run in left)


def _live_tasks_are_those_of_live_runs(state: Snapshot) -> None:
    live = [task for task in state.tasks.values() if task.status in (TaskStatus.PENDING, TaskStatus.RUNNING)]
    of_runs = {(task.run_id, task.status, task.attempt) for task in live if task.run_id is not None}
    wanted = {
        (run.id, run.status, run.attempt)
        for run in state.runs.values()
        if run.status in (RunStatus.PENDING, RunStatus.RUNNING)
    }
    assert of_runs == wanted, f"live tasks of runs {of_runs - wanted}, runs without one {wanted - of_runs}"
    assert sum(task.run_id is not None for task in live) == len(wanted)
    assert all((task.kind == TaskKind.RUN) == (task.run_id is not None) for task in state.tasks.values())


def _one_running_task_a_conversation(state: Snapshot) -> None:
    running = Counter(task.conversation_id for task in state.tasks.values() if task.status == TaskStatus.RUNNING)
    assert [busy for busy, count in running.items() if count > 1] == []
    occupied = {c.id: c.active_task_id for c in state.conversations.values() if c.active_task_id is not None}
    assert occupied == {
        task.conversation_id: task.id for task in state.tasks.values() if task.status == TaskStatus.RUNNING
    }


def _everything_says_why(state: Snapshot) -> None:
    for run in state.runs.values():
        if run.status in (RunStatus.SKIPPED, RunStatus.MISSED, RunStatus.ABANDONED, RunStatus.CANCELLED):
            assert run.reason_text, run
        elif run.status == RunStatus.FAILED:
            assert run.reason_text or run.error, run


def _runs_are_where_they_belong(state: Snapshot) -> None:
    for run in state.runs.values():
        if run.status not in IN_FLIGHT:
            continue
        owner_id = state.schedules[run.schedule_id].conversation_id
        place, mode = state.conversations[run.conversation_id], state.version_of(run).mode
        if mode == Mode.APPEND:
            assert place.id == owner_id, run
        else:
            assert place.run_id == run.id, run
            assert place.parent_id == (owner_id if mode == Mode.FORK else None), run


def _transcripts_have_no_holes(state: Snapshot) -> None:
    for conversation in state.conversations.values():
        first = (conversation.parent_seq or 0) + 1
        lowest, highest, count = state.entries.get(conversation.id, (first, first - 1, 0))
        assert (lowest, highest, count) == (first, conversation.last_seq, conversation.last_seq - first + 1)
