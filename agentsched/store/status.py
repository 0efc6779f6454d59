"""Counts for the status of the service."""

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

_SCHEDULES = text("SELECT status, count(*) FROM schedules WHERE principal_id = :principal_id GROUP BY status")

_RUNS = text("""
SELECT r.status, count(*) FROM schedules s JOIN runs r ON r.schedule_id = s.id
WHERE s.principal_id = :principal_id AND r.status IN ('pending', 'running', 'retry_wait') GROUP BY r.status
UNION ALL
SELECT 'queued', count(*) FROM schedules s JOIN runs r ON r.schedule_id = s.id
WHERE s.principal_id = :principal_id AND r.status = 'queued' HAVING count(*) > 0
""")

_TASKS = text("""
SELECT status, count(*) FROM tasks WHERE principal_id = :principal_id AND status IN ('pending', 'running') GROUP BY
       status
""")

_PENDING = text("""
SELECT harness, count(*) FROM tasks WHERE principal_id = :principal_id AND status = 'pending' GROUP BY harness
""")


async def schedules_by_status(conn: AsyncConnection, principal_id: int) -> dict[str, int]:
    """How many schedules there are of each status."""
    return await _counts(conn, _SCHEDULES, principal_id)


async def live_runs_by_status(conn: AsyncConnection, principal_id: int) -> dict[str, int]:
    """How many runs wait and how many are in flight."""
    return await _counts(conn, _RUNS, principal_id)


async def live_tasks_by_status(conn: AsyncConnection, principal_id: int) -> dict[str, int]:
    """How many tasks are pending and running."""
    return await _counts(conn, _TASKS, principal_id)


async def pending_by_harness(conn: AsyncConnection, principal_id: int) -> dict[str, int]:
    """How many pending tasks there are for each harness."""
    return await _counts(conn, _PENDING, principal_id)


async def _counts(conn: AsyncConnection, statement: TextClause, principal_id: int) -> dict[str, int]:
    return {row[0]: row[1] for row in await conn.execute(statement, {"principal_id": principal_id})}
