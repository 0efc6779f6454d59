"""Read a schedule's line for the moment a slot opens, and find schedules whose line could move."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class QueuedRow(NamedTuple):
    """A queued run with what its version says about how it starts."""

    run_id: int
    fire_at: datetime
    trigger: str
    lane: str
    mode: str
    agent_id: int
    misfire: str
    timeout_seconds: int
    start_deadline_seconds: int
    overdue: bool


_READ_QUEUED = text("""
SELECT r.id, r.fire_at, r.trigger, r.lane, v.mode, v.agent_id, v.misfire, v.timeout_seconds, v.start_deadline_seconds,
       r.overdue
FROM runs r JOIN schedule_versions v ON v.schedule_id = r.schedule_id AND v.version = r.version
WHERE r.id = ANY(CAST(:ids AS bigint[])) AND r.status = 'queued'
""")

_STRANDABLE = """
FROM runs r JOIN schedule_versions v ON v.schedule_id = r.schedule_id AND v.version = r.version
WHERE r.status = 'queued' AND r.lane = 'live' AND r.trigger IN ('cron', 'interval', 'once') AND NOT r.overdue
  AND v.misfire = 'skip'
"""

READ_STRANDABLE = text(f"""
SELECT r.id, r.fire_at, r.created_at {_STRANDABLE} AND r.schedule_id = :schedule_id ORDER BY r.fire_at, r.id
""")

_STRANDABLE_SINCE = text(f"SELECT min(r.created_at) {_STRANDABLE} AND r.schedule_id = :schedule_id")

_FIND_STRANDABLE = text(f"""
SELECT DISTINCT r.schedule_id {_STRANDABLE} AND r.schedule_id > :after ORDER BY r.schedule_id LIMIT :limit
""")

_FIND_MOVABLE = text("""
SELECT s.id FROM (
    SELECT schedule_id, bool_or(trigger IN ('backfill', 'requeue')) AS goes_on FROM runs
    WHERE status = 'queued' AND schedule_id > :after GROUP BY schedule_id
) q
JOIN schedules s ON s.id = q.schedule_id
JOIN schedule_versions v ON v.schedule_id = s.id AND v.version = s.version
WHERE (s.status <> 'paused' OR q.goes_on) AND (v.max_concurrency IS NULL OR v.max_concurrency > (
    SELECT count(*) FROM runs WHERE schedule_id = s.id AND status IN ('pending', 'running', 'retry_wait')
))
ORDER BY s.id LIMIT :limit
""")


async def read_queued(conn: AsyncConnection, ids: Sequence[int]) -> dict[int, QueuedRow]:
    """Read queued runs by id."""
    return {row[0]: QueuedRow(*row) for row in await conn.execute(_READ_QUEUED, {"ids": ids})}


class StrandableRow(NamedTuple):
    """A queued run that an outage may strand."""

    run_id: int
    fire_at: datetime
    queued_at: datetime


async def strandable_since(conn: AsyncConnection, schedule_id: int) -> datetime | None:
    """Since when the first of a schedule's queued timed runs of ``misfire: skip`` has waited; None without any."""
    since: datetime | None = (await conn.execute(_STRANDABLE_SINCE, {"schedule_id": schedule_id})).scalar_one()
    return since


async def read_strandable(conn: AsyncConnection, schedule_id: int) -> list[StrandableRow]:
    """Read a schedule's queued timed runs of ``misfire: skip``, in line order."""
    return [StrandableRow(*row) for row in await conn.execute(READ_STRANDABLE, {"schedule_id": schedule_id})]


async def find_strandable(conn: AsyncConnection, after: int, limit: int) -> list[int]:
    """Ids greater than ``after`` of schedules with queued timed runs of ``misfire: skip``, without locks."""
    return list((await conn.execute(_FIND_STRANDABLE, {"after": after, "limit": limit})).scalars())


async def find_movable(conn: AsyncConnection, after: int, limit: int) -> list[int]:
    """Ids greater than ``after`` of schedules with waiting runs and a free slot, without locks."""
    return list((await conn.execute(_FIND_MOVABLE, {"after": after, "limit": limit})).scalars())
