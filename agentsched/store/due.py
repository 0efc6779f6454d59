"""Find, lock and read the schedules that are due."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class DueRow(NamedTuple):
    """A due schedule with the version in force, as the fire needs it."""

    id: int
    version: int
    principal_id: int
    conversation_id: int
    number: int
    name: str | None
    kind: str
    cron: str | None
    every_minutes: int | None
    anchor_at: datetime | None
    at: datetime | None
    timezone: str
    next_fire_at: datetime
    ends_at: datetime | None
    max_runs: int | None
    runs_admitted: int
    day: date | None
    day_runs: int
    day_tokens: int
    day_noted: bool
    mode: str
    agent_id: int
    overlap: str
    max_concurrency: int | None
    queue_limit: int | None
    misfire: str
    misfire_grace_seconds: int
    start_deadline_seconds: int
    timeout_seconds: int
    daily_run_limit: int | None
    daily_token_limit: int | None
    has_line: bool


class LineRow(NamedTuple):
    """A run in flight or queued, with the task that holds its slot."""

    schedule_id: int
    run_id: int
    trigger: str
    lane: str
    status: str
    overdue: bool
    asked: bool
    fire_at: datetime
    started_at: datetime | None
    worker: str | None
    heartbeat_at: datetime | None


_DUE = "status = 'active' AND next_fire_at <= (SELECT clock_now())"

LOCK_DUE = text(f"""
SELECT id FROM schedules WHERE {_DUE}
ORDER BY next_fire_at, id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")

_FIND_DUE = text(f"SELECT id FROM schedules WHERE {_DUE} AND id > :after ORDER BY id LIMIT :limit")

_LOCK_ONE_DUE = text(f"SELECT id FROM schedules WHERE id = :id AND {_DUE} FOR NO KEY UPDATE")

READ_DUE = text("""
SELECT s.id, s.version, s.principal_id, s.conversation_id, s.number, s.name, s.kind, s.cron, s.every_minutes,
       s.anchor_at, s.at, s.timezone, s.next_fire_at, s.ends_at, s.max_runs, s.runs_admitted,
       s.day, s.day_runs, s.day_tokens, s.day_noted,
       v.mode, v.agent_id, v.overlap, v.max_concurrency, v.queue_limit, v.misfire, v.misfire_grace_seconds,
       v.start_deadline_seconds, v.timeout_seconds, v.daily_run_limit, v.daily_token_limit,
       EXISTS (SELECT FROM runs WHERE schedule_id = s.id AND status IN ('pending', 'running', 'retry_wait'))
       OR EXISTS (SELECT FROM runs WHERE schedule_id = s.id AND status = 'queued')
FROM schedules s JOIN schedule_versions v ON v.schedule_id = s.id AND v.version = s.version
WHERE s.id = ANY(CAST(:ids AS bigint[]))
ORDER BY s.next_fire_at, s.id
""")

READ_LINES = text("""
SELECT i.id, l.run_id, l.trigger, l.lane, l.status, l.overdue, l.asked, l.fire_at, l.started_at, l.worker,
       l.heartbeat_at
FROM unnest(CAST(:ids AS bigint[]), CAST(:waiting AS integer[])) AS i(id, waiting)
CROSS JOIN LATERAL (
    SELECT r.id AS run_id, r.trigger, r.lane, r.status, r.overdue, r.cancel_requested_at IS NOT NULL AS asked,
           r.fire_at, t.started_at, t.worker, t.heartbeat_at
    FROM runs r LEFT JOIN tasks t ON t.run_id = r.id AND t.status IN ('pending', 'running')
    WHERE r.schedule_id = i.id AND r.status IN ('pending', 'running', 'retry_wait')
    UNION ALL (
        SELECT id, trigger, lane, status, overdue, false, fire_at, NULL, NULL, NULL
        FROM runs WHERE schedule_id = i.id AND status = 'queued' AND lane = 'live'
        ORDER BY fire_at, id LIMIT i.waiting
    )
    UNION ALL (
        SELECT id, trigger, lane, status, overdue, false, fire_at, NULL, NULL, NULL
        FROM runs WHERE schedule_id = i.id AND status = 'queued' AND lane = 'backfill'
        ORDER BY fire_at, id LIMIT 1
    )
) l
""")


async def lock_due(conn: AsyncConnection, limit: int) -> list[int]:
    """Lock up to ``limit`` due schedules that nobody else has locked, the longest due first; their ids."""
    return list((await conn.execute(LOCK_DUE, {"limit": limit})).scalars())


async def find_due(conn: AsyncConnection, after: int, limit: int) -> list[int]:
    """Ids of due schedules greater than ``after``, without locks."""
    return list((await conn.execute(_FIND_DUE, {"after": after, "limit": limit})).scalars())


async def lock_one_due(conn: AsyncConnection, schedule_id: int) -> bool:
    """Wait for the lock on one schedule; False if it is not due (any more)."""
    return (await conn.execute(_LOCK_ONE_DUE, {"id": schedule_id})).first() is not None


async def read_due(conn: AsyncConnection, ids: Sequence[int]) -> list[DueRow]:
    """Read locked due schedules with the version in force."""
    return [DueRow(*row) for row in await conn.execute(READ_DUE, {"ids": ids})]


async def read_lines(conn: AsyncConnection, waiting: dict[int, int | None]) -> dict[int, list[LineRow]]:
    """Read what is in flight and what waits, in line order, per schedule id.

    ``waiting`` bounds how many waiting live runs are read for each schedule; None = all. Of backfill runs, which go
    one at a time, only the first is read.
    """
    parameters: dict[str, Any] = {"ids": list(waiting), "waiting": list(waiting.values())}
    lines: dict[int, list[LineRow]] = {schedule_id: [] for schedule_id in waiting}
    for row in await conn.execute(READ_LINES, parameters):
        line = LineRow(*row)
        lines[line.schedule_id].append(line)
    return lines
