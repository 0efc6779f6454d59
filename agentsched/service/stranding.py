"""Write off what an outage has stranded in line, before any freed slot may start it (DESIGN §8)."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.reasons import stranded_text
from agentsched.core.stranding import Outage, stranding_outage
from agentsched.core.timing import next_occurrence
from agentsched.service.one_by_one import alone
from agentsched.settings import Settings
from agentsched.store import clock, line, runs, schedules, ticks
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow

SCHEDULES_A_PASS = 100


async def strand_line(conn: AsyncConnection, settings: Settings, schedule: ScheduleRow, now: datetime) -> int:
    """queued → missed(stranded) for what a locked schedule's line has lost to an outage; how many runs."""
    since = await line.strandable_since(conn, schedule.id)
    # A line may be long, and this is asked whenever a run of it ends: without an outage nobody looks at each run.
    outages = [] if since is None else await ticks.outages(conn, since, now)
    if not outages:
        return 0
    stranded: dict[Outage, list[int]] = {}
    for run in await line.read_strandable(conn, schedule.id):
        outage = stranding_outage(
            fire_at=run.fire_at,
            queued_at=run.queued_at,
            following=next_occurrence(schedule.timing, run.fire_at),
            outages=outages,
            window_seconds=settings.queue_adoption_window_seconds,
        )
        if outage is not None:
            stranded.setdefault(outage, []).append(run.run_id)
    for outage, ids in stranded.items():
        text = stranded_text(
            outage, window_seconds=settings.queue_adoption_window_seconds, timezone=schedule.timezone, now=now
        )
        await runs.strand(conn, ids, text=text, now=now)
    return sum(map(len, stranded.values()))


async def strand_all(db: Database, settings: Settings) -> None:
    """Do it for every line, one schedule at a time: what the tick and the sweep do first after an outage."""
    after = 0
    while True:
        async with db.begin() as conn:
            lines = await line.find_strandable(conn, after, SCHEDULES_A_PASS)
        if not lines:
            return
        for schedule_id in lines:
            await alone(db, settings, _strand_line_of, schedule_id)
        after = lines[-1]


async def _strand_line_of(conn: AsyncConnection, settings: Settings, schedule_id: int) -> int:
    schedule = await schedules.lock(conn, schedule_id)
    return 0 if schedule is None else await strand_line(conn, settings, schedule, await clock.now(conn))
