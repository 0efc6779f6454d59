"""End what nobody else will end: lost tasks, attempts past their time, ignored cancellations, runs nobody started.

Candidates are found without locks, locked in order, and judged again (DESIGN §5, §6).
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.attempt import End, runs_late
from agentsched.core.limits import attempt_timeout
from agentsched.core.reasons import not_started_text
from agentsched.core.words import (
    Misfire,
    Mode,
    RunStatus,
    TaskStatus,
    Trigger,
)
from agentsched.service.one_by_one import alone
from agentsched.service.settle import Locked, Report, end_unstarted, lock_task, settle, start_next
from agentsched.settings import Settings
from agentsched.store import clock, ledger, overdue, runs, schedules, targets, tasks, workers
from agentsched.store.database import Database
from agentsched.store.ledger import RunFacts
from agentsched.store.runs import Ending
from agentsched.store.schedules import ScheduleRow
from agentsched.store.targets import Start
from agentsched.store.tasks import TaskRow

CANDIDATES_A_PASS = 200


async def reap(db: Database, settings: Settings) -> int:
    """One pass over everything that is over, in the order of the design; how many tasks and runs were moved."""
    moved = await _each(db, settings, overdue.find_lost, _reap_lost)
    moved += await _each(db, settings, overdue.find_timed_out, _reap_timed_out)
    moved += await _each(db, settings, overdue.find_cancel_over, _reap_cancel_over)
    moved += await _each(db, settings, overdue.find_not_started, _reap_not_started)
    return moved + await _each(db, settings, overdue.find_retries, _start_retry)


async def _each(
    db: Database,
    settings: Settings,
    find: Callable[[AsyncConnection, int], Awaitable[Sequence[int]]],
    end: Callable[[AsyncConnection, Settings, int], Awaitable[bool]],
) -> int:
    moved = 0
    while True:
        async with db.begin() as conn:
            found = await find(conn, CANDIDATES_A_PASS)
        ended = 0
        for one in found:
            ended += await alone(db, settings, end, one)
        moved += ended
        if len(found) < CANDIDATES_A_PASS or not ended:
            return moved


async def _reap_lost(conn: AsyncConnection, settings: Settings, task_id: int) -> bool:
    locked, now = await _lock_running(conn, task_id)
    if locked is None or not _is_over(locked.task.lease_expires_at, now):
        return False
    worker = locked.task.worker
    error = f"its worker {worker} was last heard too long ago and counts as lost"
    await settle(conn, settings, locked, Report(End.LOST, error_code="lost", error=error), now)
    return True


async def _reap_timed_out(conn: AsyncConnection, settings: Settings, task_id: int) -> bool:
    locked, now = await _lock_running(conn, task_id)
    if locked is None or not _is_over(locked.task.deadline_at, now):
        return False
    error = "the attempt took longer than it may (timeout_seconds)"
    await settle(conn, settings, locked, Report(End.TIMED_OUT, error_code="timeout", error=error), now)
    return True


async def _reap_cancel_over(conn: AsyncConnection, settings: Settings, task_id: int) -> bool:
    locked, now = await _lock_running(conn, task_id)
    if locked is None or not _is_over(locked.task.cancel_deadline_at, now):
        return False
    error = "it was asked to stop and did not within cancel_grace_seconds, so it was fenced off"
    await settle(conn, settings, locked, Report(End.FENCED_OFF, error=error), now)
    return True


async def _reap_not_started(conn: AsyncConnection, settings: Settings, task_id: int) -> bool:
    locked = await lock_task(conn, task_id)
    now = await clock.now(conn)
    if locked is None or locked.run is None or locked.schedule is None:
        return False
    if locked.task.status != TaskStatus.PENDING or not _is_over(locked.task.start_deadline_at, now):
        return False
    await _give_up_waiting(conn, settings, locked.task, locked.run, locked.schedule, now)
    return True


async def _give_up_waiting(
    conn: AsyncConnection, settings: Settings, task: TaskRow, run: RunFacts, schedule: ScheduleRow, now: datetime
) -> None:
    """missed(not_started) for a run that was never started; abandoned for one that was and then waited again."""
    await tasks.finish(conn, task, TaskStatus.ABANDONED, now=now)
    if run.attempt == 1 and task.fence == 0:
        served = {harness for worker in await workers.present(conn) for harness in worker.harnesses}
        text = not_started_text(run.start_deadline_seconds, harness=task.harness, served=task.harness in served)
        await runs.miss_unstarted(conn, run.id, text=text, now=now)
        await start_next(conn, settings, schedule, now)
    else:
        text = "abandoned: no worker took it up again before its start deadline"
        await end_unstarted(conn, settings, run, schedule, Ending(RunStatus.ABANDONED, reason_text=text), now)


async def _start_retry(conn: AsyncConnection, settings: Settings, run_id: int) -> bool:
    """retry_wait → pending with a new task, or abandoned when a timed run's retry is overdue."""
    seen = await ledger.read_facts(conn, run_id)
    schedule = None if seen is None else await schedules.lock(conn, seen.schedule_id)
    await runs.lock(conn, run_id)
    run = await ledger.read_facts(conn, run_id)
    now = await clock.now(conn)
    if run is None or schedule is None or run.status != RunStatus.RETRY_WAIT or not _is_over(run.retry_at, now):
        return False
    late_is_fine = runs_late(Trigger(run.trigger), Misfire(run.misfire), overdue=run.overdue)
    deadline = timedelta(seconds=run.start_deadline_seconds)
    if not late_is_fine and run.retry_at is not None and now - run.retry_at >= deadline:
        text = "abandoned: its next attempt was overdue by more than its start deadline"
        await end_unstarted(conn, settings, run, schedule, Ending(RunStatus.ABANDONED, reason_text=text), now)
        return True
    if run.conversation_id is None:
        raise AssertionError(f"run {run_id} waits for a retry without a conversation")
    await runs.retry(conn, run_id)
    ids = await targets.allocate_ids(conn, tasks=1)
    start = Start(
        run_id=run.id,
        conversation_id=run.conversation_id,
        task_id=next(ids.tasks),
        owner_id=schedule.conversation_id,
        mode=Mode.APPEND,
        snapshot_id=schedule.agent_id,
        title="",
        timeout_seconds=attempt_timeout(run.timeout_seconds, schedule.timing, run.fire_at),
        start_deadline_seconds=None if late_is_fine else run.start_deadline_seconds,
    )
    await targets.open_tasks(conn, [start], now)
    return True


async def _lock_running(conn: AsyncConnection, task_id: int) -> tuple[Locked | None, datetime]:
    locked = await lock_task(conn, task_id)
    now = await clock.now(conn)
    if locked is None or locked.task.status != TaskStatus.RUNNING:
        return None, now
    return locked, now


def _is_over(instant: datetime | None, now: datetime) -> bool:
    return instant is not None and instant <= now
