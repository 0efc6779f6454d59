"""Backfills: the ranges that people asked to run again, their runs, and how far they are."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.reasons import reason_text
from agentsched.core.words import Reason


class BackfillRow(NamedTuple):
    """A backfill; its slots lie in (``from_at``, ``to_at``]."""

    id: int
    schedule_id: int
    from_at: datetime
    to_at: datetime
    reprocess: str
    slot_count: int
    status: str
    created_at: datetime
    finished_at: datetime | None
    actor: str


_SELECT = """
SELECT id, schedule_id, from_at, to_at, reprocess, count, status, created_at, finished_at, actor FROM backfills
"""

_READ = text(_SELECT + "WHERE id = :id")

_LIST = text(
    _SELECT
    + """
WHERE schedule_id = :schedule_id AND (CAST(:before AS bigint) IS NULL OR id < :before) ORDER BY id DESC LIMIT :limit
"""
)

READ_SLOTS = text("""
SELECT r.fire_at, array_agg(DISTINCT r.status)
FROM runs r
WHERE r.schedule_id = :schedule_id AND r.fire_at > CAST(:after AS timestamptz)
  AND r.fire_at <= CAST(:until AS timestamptz)
  AND (r.trigger IN ('cron', 'interval', 'once', 'backfill') OR r.trigger = 'requeue' AND NOT EXISTS (
      WITH RECURSIVE origins AS (
          SELECT r.requeue_of AS id
          UNION
          SELECT o.requeue_of FROM origins JOIN runs o USING (id) WHERE o.requeue_of IS NOT NULL
      )
      SELECT FROM origins JOIN runs o USING (id) WHERE o.trigger IN ('manual', 'webhook')
  ))
GROUP BY r.fire_at
""")

_INSERT = text("""
INSERT INTO backfills (schedule_id, from_at, to_at, reprocess, count, status, created_at, finished_at, actor)
VALUES (:schedule_id, :from_at, :to_at, :reprocess, :slot_count,
        CASE WHEN :slot_count = 0 THEN 'completed' ELSE 'running' END, :now,
        CASE WHEN :slot_count = 0 THEN CAST(:now AS timestamptz) END, :actor)
RETURNING id
""")

_INSERT_RUNS = text("""
INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, backfill_id,
                  created_at)
SELECT s.principal_id, s.id, s.version, 'backfill', 'backfill', i.fire_at, i.occurrence_key, 'queued', :id, :now
FROM unnest(CAST(:fire_ats AS timestamptz[]), CAST(:keys AS text[])) AS i(fire_at, occurrence_key)
JOIN schedules s ON s.id = :schedule_id
ORDER BY i.fire_at
""")

_PROGRESS = text("""
SELECT backfill_id, status, count(*) FROM runs WHERE backfill_id = ANY(CAST(:ids AS bigint[])) GROUP BY 1, 2
""")

_IN_FLIGHT = text("""
SELECT r.id FROM backfills b JOIN runs r ON r.schedule_id = b.schedule_id AND r.backfill_id = b.id
WHERE b.id = :id AND r.lane = 'backfill' AND r.status IN ('pending', 'running', 'retry_wait')
""")

# This runs at the end of each run of a backfill, so it must not pass by all those that have ended: + 0 keeps the
# planner off the index by backfill, the order leads it to the one of the line.
COMPLETE_ENDED = text("""
UPDATE backfills b SET status = 'completed', finished_at = :now
WHERE b.id = ANY(CAST(:ids AS bigint[])) AND b.status = 'running'
  AND NOT EXISTS (SELECT FROM runs WHERE schedule_id = b.schedule_id AND lane = 'backfill' AND backfill_id + 0 = b.id
                  AND status IN ('pending', 'running', 'retry_wait') OFFSET 0)
  AND (SELECT id FROM runs WHERE schedule_id = b.schedule_id AND lane = 'backfill' AND backfill_id + 0 = b.id
       AND status = 'queued' ORDER BY fire_at, id LIMIT 1) IS NULL
""")

_CANCEL = text("UPDATE backfills SET status = 'cancelled', finished_at = :now WHERE id = :id AND status = 'running'")

_SKIP_RUNS = text("""
UPDATE runs SET status = 'skipped', reason = :reason, reason_text = :text, finished_at = :now
WHERE schedule_id = :schedule_id AND lane = 'backfill' AND backfill_id = :id AND status = 'queued'
""")

_CANCEL_ALL = text("""
UPDATE backfills SET status = 'cancelled', finished_at = :now WHERE schedule_id = :schedule_id AND status = 'running'
""")


async def read(conn: AsyncConnection, backfill_id: int) -> BackfillRow | None:
    """Read a backfill; None if there is none."""
    row = (await conn.execute(_READ, {"id": backfill_id})).first()
    return None if row is None else BackfillRow(*row)


async def list_page(conn: AsyncConnection, schedule_id: int, *, before: int | None, limit: int) -> list[BackfillRow]:
    """A schedule's backfills, newest first, ids smaller than ``before``."""
    rows = await conn.execute(_LIST, {"schedule_id": schedule_id, "before": before, "limit": limit})
    return [BackfillRow(*row) for row in rows]


async def read_slots(
    conn: AsyncConnection, schedule_id: int, after: datetime, until: datetime
) -> dict[datetime, list[str]]:
    """The statuses of the runs that the slots in (``after``, ``until``] have had, absent where there were none.

    Runs that somebody started by hand or by a webhook are of no slot, and neither are requeues of such.
    """
    rows = await conn.execute(READ_SLOTS, {"schedule_id": schedule_id, "after": after, "until": until})
    return {row[0]: row[1] for row in rows}


class NewBackfill(NamedTuple):
    """A backfill to be made; one of no slots is completed at once."""

    schedule_id: int
    from_at: datetime
    to_at: datetime
    reprocess: str
    slot_count: int
    actor: str


async def insert(conn: AsyncConnection, backfill: NewBackfill, now: datetime) -> int:
    """Insert a backfill without its runs; its id."""
    made: int = (await conn.execute(_INSERT, {**backfill._asdict(), "now": now})).scalar_one()
    return made


async def insert_runs(
    conn: AsyncConnection, backfill_id: int, schedule_id: int, keys: dict[datetime, str], now: datetime
) -> None:
    """Insert the queued runs of a backfill of a locked schedule, for slots with their occurrence keys."""
    parameters = {"id": backfill_id, "schedule_id": schedule_id, "now": now}
    await conn.execute(_INSERT_RUNS, {**parameters, "fire_ats": list(keys), "keys": list(keys.values())})


async def read_progress(conn: AsyncConnection, ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """How many runs of each status backfills have."""
    progress: dict[int, dict[str, int]] = {backfill_id: {} for backfill_id in ids}
    for backfill_id, status, count in await conn.execute(_PROGRESS, {"ids": ids}):
        progress[backfill_id][status] = count
    return progress


async def in_flight(conn: AsyncConnection, backfill_id: int) -> list[int]:
    """Ids of the runs that a backfill has in flight: one at most."""
    return list((await conn.execute(_IN_FLIGHT, {"id": backfill_id})).scalars())


async def complete_ended(conn: AsyncConnection, ids: Sequence[int], now: datetime) -> None:
    """running → completed, for those of these backfills whose last run has just ended. Their schedules are locked."""
    if ids:
        await conn.execute(COMPLETE_ENDED, {"ids": ids, "now": now})


async def cancel(conn: AsyncConnection, backfill: BackfillRow, now: datetime) -> None:
    """running → cancelled, and its queued runs → skipped(backfill_cancelled)."""
    reason = Reason.BACKFILL_CANCELLED
    await conn.execute(_CANCEL, {"id": backfill.id, "now": now})
    await conn.execute(
        _SKIP_RUNS,
        {
            "id": backfill.id,
            "schedule_id": backfill.schedule_id,
            "reason": reason,
            "text": reason_text(reason),
            "now": now,
        },
    )


async def cancel_all(conn: AsyncConnection, schedule_id: int, now: datetime) -> None:
    """running → cancelled, for all backfills of a schedule that is cancelled; its line is skipped elsewhere."""
    await conn.execute(_CANCEL_ALL, {"schedule_id": schedule_id, "now": now})
