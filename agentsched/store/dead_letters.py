"""Dead letters: failed runs that nobody has requeued or discarded yet (DESIGN §4)."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

DEAD_LETTER = """(
    r.status = 'failed' AND r.discarded_at IS NULL AND NOT EXISTS (SELECT FROM runs q WHERE q.requeue_of = r.id)
)"""
"""The condition for a row ``r`` of runs."""


class Criteria(NamedTuple):
    """Which dead letters; None = any. They failed at or after ``failed_after``, and before ``failed_before``."""

    schedule_id: int | None = None
    conversation_id: int | None = None
    error_code: str | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None


class Chosen(NamedTuple):
    """Ids of dead letters, and how many more there are that fit."""

    ids: list[int]
    remaining: int


class RequeueRow(NamedTuple):
    """The newest requeue of a run; ``number`` counts them from 1."""

    run_id: int
    status: str
    number: int


COUNT = text(f"SELECT count(*) FROM runs r WHERE r.principal_id = :principal_id AND {DEAD_LETTER}")

CHOOSE = text(f"""
SELECT r.id, count(*) OVER ()
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.principal_id = :principal_id AND {DEAD_LETTER}
  AND (CAST(:schedule_id AS bigint) IS NULL OR r.schedule_id = :schedule_id)
  AND (CAST(:conversation_id AS bigint) IS NULL OR s.conversation_id = :conversation_id)
  AND (CAST(:error_code AS text) IS NULL OR r.error_code = :error_code)
  AND (CAST(:failed_after AS timestamptz) IS NULL OR r.finished_at >= :failed_after)
  AND (CAST(:failed_before AS timestamptz) IS NULL OR r.finished_at < :failed_before)
ORDER BY CASE WHEN :cancelled_last THEN s.status = 'cancelled' ELSE false END, r.id LIMIT :limit
""")

NEWEST_REQUEUE = text("""
SELECT id, status, CAST(split_part(occurrence_key, ':', 3) AS integer) FROM runs
WHERE requeue_of = :run_id ORDER BY id DESC LIMIT 1
""")

_REQUEUE = text("""
INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, overdue,
                  delivery_id, requeue_of, created_at)
SELECT r.principal_id, r.schedule_id, s.version, 'requeue', 'live', r.fire_at, :key, 'queued', true,
       r.delivery_id, r.id, :now
FROM runs r JOIN schedules s ON s.id = r.schedule_id
WHERE r.id = :run_id AND r.status = 'failed'
RETURNING id
""")

_DISCARD = text("UPDATE runs SET discarded_at = :now WHERE id = :id AND status = 'failed' AND discarded_at IS NULL")


async def count(conn: AsyncConnection, principal_id: int) -> int:
    """How many dead letters a principal has."""
    dead: int = (await conn.execute(COUNT, {"principal_id": principal_id})).scalar_one()
    return dead


async def choose(
    conn: AsyncConnection, principal_id: int, criteria: Criteria, *, limit: int, cancelled_last: bool
) -> Chosen:
    """A principal's dead letters that fit, the oldest first, without locks.

    ``cancelled_last``: those of cancelled schedules, which nobody can requeue, stand in the way of no other.
    """
    parameters = {"principal_id": principal_id, "limit": limit, "cancelled_last": cancelled_last}
    rows = (await conn.execute(CHOOSE, parameters | criteria._asdict())).all()
    return Chosen([row[0] for row in rows], rows[0][1] - len(rows) if rows else 0)


async def newest_requeue(conn: AsyncConnection, run_id: int) -> RequeueRow | None:
    """The newest requeue of a run; None if there was none."""
    row = (await conn.execute(NEWEST_REQUEUE, {"run_id": run_id})).first()
    return None if row is None else RequeueRow(*row)


async def insert_requeue(conn: AsyncConnection, run_id: int, key: str, now: datetime) -> int:
    """Put a new run for a locked failed one in its schedule's line, with the version in force; its id.

    It is overdue, so that it waits there whatever ``overlap`` says, and counts against no ``max_runs``.
    """
    new: int = (await conn.execute(_REQUEUE, {"run_id": run_id, "key": key, "now": now})).scalar_one()
    return new


async def discard(conn: AsyncConnection, run_id: int, now: datetime) -> None:
    """Mark a failed run as one that nobody needs any more; the first mark stays."""
    await conn.execute(_DISCARD, {"id": run_id, "now": now})
