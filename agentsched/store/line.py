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


_READ_QUEUED = text("""
SELECT r.id, r.fire_at, r.trigger, r.lane, v.mode, v.agent_id, v.misfire, v.timeout_seconds, v.start_deadline_seconds
FROM runs r JOIN schedule_versions v ON v.schedule_id = r.schedule_id AND v.version = r.version
WHERE r.id = ANY(CAST(:ids AS bigint[])) AND r.status = 'queued'
""")

_FIND_MOVABLE = text("""
SELECT s.id FROM (
    SELECT schedule_id, bool_or(lane = 'backfill') AS backfill FROM runs
    WHERE status = 'queued' AND schedule_id > :after GROUP BY schedule_id
) q
JOIN schedules s ON s.id = q.schedule_id
JOIN schedule_versions v ON v.schedule_id = s.id AND v.version = s.version
WHERE (s.status <> 'paused' OR q.backfill) AND (v.max_concurrency IS NULL OR v.max_concurrency > (
    SELECT count(*) FROM runs WHERE schedule_id = s.id AND status IN ('pending', 'running', 'retry_wait')
))
ORDER BY s.id LIMIT :limit
""")


async def read_queued(conn: AsyncConnection, ids: Sequence[int]) -> dict[int, QueuedRow]:
    """Read queued runs by id."""
    return {row[0]: QueuedRow(*row) for row in await conn.execute(_READ_QUEUED, {"ids": ids})}


async def find_movable(conn: AsyncConnection, after: int, limit: int) -> list[int]:
    """Ids greater than ``after`` of schedules with waiting runs and a free slot, without locks."""
    return list((await conn.execute(_FIND_MOVABLE, {"after": after, "limit": limit})).scalars())
