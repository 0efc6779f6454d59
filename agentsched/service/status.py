"""Is the service well, and what is it doing?"""

from dataclasses import dataclass
from datetime import datetime

from agentsched.service.caller import Caller
from agentsched.store import clock, dead_letters, status, ticks, workers
from agentsched.store.database import Database
from agentsched.store.migrate import is_current
from agentsched.store.ticks import TickRow
from agentsched.store.workers import Worker

LATE_TICK_SECONDS = 150


@dataclass(frozen=True)
class Status:
    """What a principal sees of the service. Counts are of the principal's own things."""

    now: datetime
    last_tick: TickRow | None
    tick_is_late: bool
    schedules: dict[str, int]
    runs: dict[str, int]
    dead_letters: int
    tasks: dict[str, int]
    workers: list[Worker]
    unserved_harnesses: dict[str, int]


async def read_status(db: Database, caller: Caller) -> Status:
    """Counts of what lives, who works, and pending tasks by harnesses that nobody serves."""
    async with db.begin() as conn:
        now = await clock.now(conn)
        last = await ticks.last(conn, now)
        present = await workers.present(conn)
        served = {harness for worker in present for harness in worker.harnesses}
        pending = await status.pending_by_harness(conn, caller.principal_id)
        return Status(
            now=now,
            last_tick=last,
            tick_is_late=last is None or (now - last.minute).total_seconds() > LATE_TICK_SECONDS,
            schedules=await status.schedules_by_status(conn, caller.principal_id),
            runs=await status.live_runs_by_status(conn, caller.principal_id),
            dead_letters=await dead_letters.count(conn, caller.principal_id),
            tasks=await status.live_tasks_by_status(conn, caller.principal_id),
            workers=present,
            unserved_harnesses={name: count for name, count in pending.items() if name not in served},
        )


async def is_ready(db: Database) -> bool:
    """Whether the database answers and its schema is the one that this code needs."""
    return await is_current(db)
