"""The record of ticks, and of the outages between them."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.stranding import Outage


class TickRow(NamedTuple):
    """A recorded minute: when its tick began and ended, and its slots by what became of them."""

    minute: datetime
    started_at: datetime
    finished_at: datetime
    due: int
    fired: int
    skipped: int
    missed: int


_LAST = text("""
SELECT minute, started_at, finished_at, due, fired, skipped, missed FROM ticks
WHERE minute <= :now ORDER BY minute DESC LIMIT 1
""")

_RECORD_OUTAGE = text("""
INSERT INTO outages (until_minute, last_minute, recorded_at) VALUES (:minute, :last_minute, :now)
ON CONFLICT (until_minute) DO NOTHING
""")

_OUTAGES = text("""
SELECT last_minute, until_minute FROM outages WHERE until_minute > :since
UNION ALL
SELECT minute, date_trunc('minute', CAST(:now AS timestamptz)) FROM (
    SELECT max(minute) AS minute FROM ticks WHERE minute <= :now
) last WHERE date_trunc('minute', CAST(:now AS timestamptz)) > minute + interval '1 minute'
ORDER BY 2
""")

_RECORD = text("""
INSERT INTO ticks (minute, started_at, finished_at, due, fired, skipped, missed)
VALUES (:minute, :started_at, clock_now(), :due, :fired, :skipped, :missed)
ON CONFLICT (minute) DO UPDATE
SET finished_at = excluded.finished_at, due = ticks.due + excluded.due, fired = ticks.fired + excluded.fired,
    skipped = ticks.skipped + excluded.skipped, missed = ticks.missed + excluded.missed
""")


async def last(conn: AsyncConnection, now: datetime) -> TickRow | None:
    """The newest recorded minute; one in the future counts as none."""
    row = (await conn.execute(_LAST, {"now": now})).first()
    return None if row is None else TickRow(*row)


async def record_outage(conn: AsyncConnection, last_minute: datetime, minute: datetime, now: datetime) -> None:
    """Record the hole between two ticks."""
    await conn.execute(_RECORD_OUTAGE, {"last_minute": last_minute, "minute": minute, "now": now})


async def outages(conn: AsyncConnection, since: datetime, now: datetime) -> list[Outage]:
    """The outages that ended after ``since``, and the one that lasts until now, if no tick has recorded it yet."""
    return [Outage(*row) for row in await conn.execute(_OUTAGES, {"since": since, "now": now})]


async def record(
    conn: AsyncConnection, minute: datetime, started_at: datetime, *, due: int, fired: int, skipped: int, missed: int
) -> None:
    """Add what a tick did to the record of its minute."""
    await conn.execute(
        _RECORD,
        {
            "minute": minute,
            "started_at": started_at,
            "due": due,
            "fired": fired,
            "skipped": skipped,
            "missed": missed,
        },
    )
