"""After a change of the time zone database the occurrences to come are computed anew (DESIGN §3)."""

from datetime import datetime

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.problems import Refused
from agentsched.core.timing import next_occurrence
from agentsched.core.words import ScheduleStatus
from agentsched.core.zones import tzdata_version
from agentsched.store import clock, facts, next_fires, schedules
from agentsched.store.database import Database

log = structlog.get_logger()

FACT = "tzdata_version"
SCHEDULES_A_TRANSACTION = 200


async def recompute_after_tzdata_change(db: Database) -> int:
    """Recompute each future ``next_fire_at`` if it was computed with another tzdata; how many have moved.

    A slot that is due already stays due. Safe to be cut off and to run in several processes at once.
    """
    version = tzdata_version()
    async with db.begin() as conn:
        if await facts.read(conn, FACT) == version:
            return 0
    moved = after = 0
    while True:
        async with db.begin() as conn:
            ids = await next_fires.find_future(conn, after, SCHEDULES_A_TRANSACTION)
            for schedule_id in ids:
                moved += await _recompute(conn, schedule_id)
        if not ids:
            break
        after = ids[-1]
    async with db.begin() as conn:
        await facts.write(conn, FACT, version)
    log.info("tzdata.changed", version=version, moved=moved)
    return moved


async def _recompute(conn: AsyncConnection, schedule_id: int) -> bool:
    schedule = await schedules.lock(conn, schedule_id)
    now = await clock.now(conn)
    if schedule is None or schedule.status != ScheduleStatus.ACTIVE:
        return False
    if schedule.next_fire_at is None or schedule.next_fire_at <= now:
        return False
    try:
        expected = next_occurrence(schedule.timing, _later(now, schedule.accounted_until))
    except Refused as refused:
        # Its zone or expression is none any more: when it comes due, the fire puts it aside with a note.
        log.warning("tzdata.left", schedule_id=schedule_id, error=str(refused))
        return False
    if expected == schedule.next_fire_at:
        return False
    if expected is None or (schedule.ends_at is not None and expected > schedule.ends_at):
        await schedules.end(conn, schedule_id, ScheduleStatus.COMPLETED, accounted_until=None, now=now)
    else:
        await next_fires.move(conn, schedule_id, expected=schedule.next_fire_at, next_fire_at=expected, now=now)
    return True


def _later(now: datetime, accounted_until: datetime | None) -> datetime:
    return now if accounted_until is None else max(now, accounted_until)
