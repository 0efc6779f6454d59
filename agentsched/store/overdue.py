"""Find what the reaper has to end: candidates without locks, each judged again under its locks."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

LOST = text("""
SELECT id FROM tasks WHERE status = 'running' AND lease_expires_at <= (SELECT clock_now())
ORDER BY lease_expires_at, id LIMIT :limit
""")

TIMED_OUT = text("""
SELECT id FROM tasks WHERE status = 'running' AND deadline_at <= (SELECT clock_now())
ORDER BY deadline_at, id LIMIT :limit
""")

CANCEL_OVER = text("""
SELECT id FROM tasks
WHERE status = 'running' AND cancel_deadline_at IS NOT NULL AND cancel_deadline_at <= (SELECT clock_now())
ORDER BY cancel_deadline_at, id LIMIT :limit
""")

NOT_STARTED = text("""
SELECT id FROM tasks
WHERE status = 'pending' AND start_deadline_at IS NOT NULL AND start_deadline_at <= (SELECT clock_now())
ORDER BY start_deadline_at, id LIMIT :limit
""")

RETRIES = text("""
SELECT id FROM runs WHERE status = 'retry_wait' AND retry_at <= (SELECT clock_now()) ORDER BY retry_at, id LIMIT :limit
""")


async def _ids(conn: AsyncConnection, statement: object, limit: int) -> Sequence[int]:
    return list((await conn.execute(statement, {"limit": limit})).scalars())  # type: ignore[call-overload]


async def find_lost(conn: AsyncConnection, limit: int) -> Sequence[int]:
    """Running tasks whose lease has expired."""
    return await _ids(conn, LOST, limit)


async def find_timed_out(conn: AsyncConnection, limit: int) -> Sequence[int]:
    """Running tasks past their attempt's time."""
    return await _ids(conn, TIMED_OUT, limit)


async def find_cancel_over(conn: AsyncConnection, limit: int) -> Sequence[int]:
    """Running tasks that were asked to stop and did not within the grace."""
    return await _ids(conn, CANCEL_OVER, limit)


async def find_not_started(conn: AsyncConnection, limit: int) -> Sequence[int]:
    """Pending tasks past their start deadline."""
    return await _ids(conn, NOT_STARTED, limit)


async def find_retries(conn: AsyncConnection, limit: int) -> Sequence[int]:
    """Runs whose next attempt is due."""
    return await _ids(conn, RETRIES, limit)
