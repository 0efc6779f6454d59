"""What a worker reports about a task it owns: heartbeat, end, hand-back.

Each is accepted with the current fence only.
"""

from agentsched.core.attempt import End
from agentsched.core.words import TaskStatus
from agentsched.service import settle
from agentsched.service.settle import Locked, Report
from agentsched.settings import Settings
from agentsched.store import clock, tasks
from agentsched.store.database import Database
from agentsched.store.tasks import Beat


class StaleFence(Exception):  # noqa: N818 — the word of the contract
    """The task is somebody else's by now, or has ended; the report was refused and has changed nothing."""


class NotAskedToStop(Exception):  # noqa: N818 — says what is wrong with the report
    """``stopped`` honours a cancellation, and nobody has asked this task to stop."""


async def heartbeat(db: Database, settings: Settings, *, task_id: int, fence: int) -> Beat:
    """Extend the lease. Raises StaleFence to whoever has lost the task."""
    async with db.begin() as conn:
        beat = await tasks.heartbeat(conn, task_id, fence, lease_seconds=settings.lease_seconds)
    if beat is None:
        raise StaleFence(task_id)
    return beat


async def report(db: Database, settings: Settings, *, task_id: int, fence: int, report: Report) -> None:
    """The end of an attempt, in one transaction with all that follows from it.

    Raises StaleFence, or NotAskedToStop for a ``stopped`` that nobody asked for; then nothing is written. An expired
    lease alone refuses nothing.
    """
    async with db.begin() as conn:
        locked = _owned(await settle.lock_task(conn, task_id), task_id, fence)
        if report.end is End.STOPPED and locked.task.cancel_requested_at is None:
            raise NotAskedToStop(task_id)
        await settle.settle(conn, settings, locked, report, await clock.now(conn))


async def release(db: Database, settings: Settings, *, task_id: int, fence: int) -> None:
    """Hand a task back, as a worker does that shuts down: no attempt and no restart is counted.

    A task that was asked to stop is cancelled instead. Raises StaleFence.
    """
    async with db.begin() as conn:
        locked = _owned(await settle.lock_task(conn, task_id), task_id, fence)
        now = await clock.now(conn)
        if locked.task.cancel_requested_at is not None:
            await settle.settle(conn, settings, locked, Report(End.STOPPED), now)
        elif locked.run is not None:
            await settle.restart(conn, locked.task, locked.run, lost=False, now=now)
        else:
            await tasks.return_to_pending(conn, locked.task, lost=False, start_deadline_seconds=None, now=now)


def _owned(locked: Locked | None, task_id: int, fence: int) -> Locked:
    if locked is None or locked.task.status != TaskStatus.RUNNING or locked.task.fence != fence:
        raise StaleFence(task_id)
    return locked
