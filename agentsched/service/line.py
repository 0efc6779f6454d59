"""Start what waits in a schedule's line where a slot is free (DESIGN §7)."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.attempt import runs_late
from agentsched.core.limits import attempt_timeout
from agentsched.core.overlap import Flight, Limits, Line, Waiting, on_slot_open
from agentsched.core.words import (
    IN_FLIGHT,
    Lane,
    Misfire,
    Mode,
    Overlap,
    Reason,
    RunStatus,
    ScheduleStatus,
    Trigger,
)
from agentsched.service.one_by_one import alone
from agentsched.service.stranding import strand_line
from agentsched.settings import Settings
from agentsched.store import clock, due, line, runs, schedules, targets
from agentsched.store.database import Database
from agentsched.store.due import LineRow
from agentsched.store.line import QueuedRow
from agentsched.store.schedules import ScheduleRow
from agentsched.store.targets import Start

SCHEDULES_A_PASS = 100
WAITING_TO_READ = 100
"""At most this many runs start when slots open at once; the next pass starts more."""


def line_of(rows: Sequence[LineRow]) -> Line:
    """The line that the overlap policy decides on, from the runs in flight and queued."""
    return Line(
        tuple(
            Flight(row.run_id, Trigger(row.trigger), RunStatus(row.status), row.asked, row.overdue)
            for row in rows
            if row.status in IN_FLIGHT
        ),
        tuple(
            Waiting(row.run_id, Lane(row.lane), row.overdue, Trigger(row.trigger))
            for row in rows
            if row.status == RunStatus.QUEUED
        ),
    )


async def start_waiting(conn: AsyncConnection, settings: Settings, schedule: ScheduleRow, now: datetime) -> int:
    """Start as many waiting runs of a locked schedule as its policy in force allows; how many."""
    limits = Limits(Overlap(schedule.overlap), schedule.max_concurrency, schedule.queue_limit)
    newest_only = limits.overlap in (Overlap.QUEUE_LATEST, Overlap.REPLACE)
    paused = schedule.status == ScheduleStatus.PAUSED
    waiting = {schedule.id: None if newest_only or paused else WAITING_TO_READ}
    rows = (await due.read_lines(conn, waiting))[schedule.id]
    if any(row.status == RunStatus.QUEUED for row in rows) and await strand_line(conn, settings, schedule, now):
        rows = (await due.read_lines(conn, waiting))[schedule.id]
    opening = on_slot_open(limits, line_of(rows), paused=paused)
    if opening.supersede:
        await runs.skip_queued(conn, opening.supersede, Reason.SUPERSEDED, now)
    ids = opening.starts
    if not ids:
        return 0
    queued = await line.read_queued(conn, ids)
    new = await targets.allocate_ids(
        conn,
        conversations=sum(queued[run_id].mode != Mode.APPEND for run_id in ids),
        tasks=len(ids),
    )
    starts = [
        _start(
            schedule,
            queued[run_id],
            schedule.conversation_id if queued[run_id].mode == Mode.APPEND else next(new.conversations),
            next(new.tasks),
        )
        for run_id in ids
    ]
    await targets.open_conversations(conn, starts, now)
    await runs.start_queued(conn, {start.run_id: start.conversation_id for start in starts})
    await targets.open_tasks(conn, starts, now)
    return len(starts)


async def start_all_waiting(db: Database, settings: Settings) -> int:
    """Start what waits in every line that could move; how many. The net under the finishes, one schedule at a time."""
    started = after = 0
    while True:
        async with db.begin() as conn:
            movable = await line.find_movable(conn, after, SCHEDULES_A_PASS)
        if not movable:
            return started
        for schedule_id in movable:
            started += await alone(db, settings, _start_waiting_of, schedule_id)
        after = movable[-1]


async def _start_waiting_of(conn: AsyncConnection, settings: Settings, schedule_id: int) -> int:
    schedule = await schedules.lock(conn, schedule_id)
    return 0 if schedule is None else await start_waiting(conn, settings, schedule, await clock.now(conn))


def _start(schedule: ScheduleRow, run: QueuedRow, conversation_id: int, task_id: int) -> Start:
    late_is_fine = runs_late(Trigger(run.trigger), Misfire(run.misfire), overdue=run.overdue)
    return Start(
        run_id=run.run_id,
        conversation_id=conversation_id,
        task_id=task_id,
        owner_id=schedule.conversation_id,
        mode=Mode(run.mode),
        snapshot_id=run.agent_id,
        title=targets.title(schedule.name, schedule.number, run.fire_at, schedule.timezone),
        timeout_seconds=attempt_timeout(run.timeout_seconds, schedule.timing, run.fire_at),
        start_deadline_seconds=None if late_is_fine else run.start_deadline_seconds,
    )
