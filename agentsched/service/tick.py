"""The tick: write off what an outage stranded, reap, fire what is due, start what waits, record (DESIGN §6).

It never fires "minute N": a lost, doubled, late or reordered tick is harmless.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from agentsched.service.fire import fire_due
from agentsched.service.line import start_all_waiting
from agentsched.service.reap import reap
from agentsched.service.stranding import strand_all
from agentsched.settings import Settings
from agentsched.store import clock, ticks
from agentsched.store.database import Database

MINUTE = timedelta(minutes=1)
RECORD_AFTER = timedelta(seconds=10)
"""The sweep does the whole tick when the current minute has none on record this long after it began."""


@dataclass(frozen=True)
class TickReport:
    """What one tick did. The slots are those of ``FireCounts``."""

    minute: datetime
    due: int
    fired: int
    skipped: int
    missed: int
    reaped: int
    started: int


async def tick(db: Database, settings: Settings) -> TickReport:
    """One whole tick. Raises the database's error when it goes away; everything committed before stays."""
    async with db.begin() as conn:
        started_at = await clock.now(conn)
        minute = started_at.replace(second=0, microsecond=0)
        last = await ticks.last(conn, started_at)
        outage = last is not None and minute - last.minute > MINUTE
        if last is not None and outage:
            await ticks.record_outage(conn, last.minute, minute, started_at)
    if outage:
        await strand_all(db, settings)
    reaped = await reap(db, settings)
    fired = await fire_due(db, settings)
    started = await start_all_waiting(db, settings)
    async with db.begin() as conn:
        await ticks.record(
            conn,
            minute,
            started_at,
            due=fired.due,
            fired=fired.fired,
            skipped=fired.skipped,
            missed=fired.missed,
        )
    return TickReport(minute, fired.due, fired.fired, fired.skipped, fired.missed, reaped, started)


async def sweep(db: Database, settings: Settings) -> bool:
    """Reap and start what waits; the whole tick when the minute's own has not come.

    Whether anything may have started.
    """
    async with db.begin() as conn:
        now = await clock.now(conn)
        last = await ticks.last(conn, now)
    minute = now.replace(second=0, microsecond=0)
    if (last is None or last.minute < minute) and now - minute >= RECORD_AFTER:
        report = await tick(db, settings)
        return bool(report.fired or report.reaped or report.started)
    if last is not None and minute - last.minute > MINUTE:
        await strand_all(db, settings)
    moved = await reap(db, settings)
    return bool(moved + await start_all_waiting(db, settings))
