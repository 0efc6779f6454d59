"""Write what a fire decided: ledger rows, the schedules' next fires, budgets. Set-based, one statement a table."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class Started(NamedTuple):
    """A run that starts, as a fire writes it."""

    id: int
    schedule_id: int
    fire_at: datetime
    occurrence_key: str
    conversation_id: int
    overdue: bool


class Recorded(NamedTuple):
    """A run that does not start: queued, skipped or missed. ``missed_*`` are for missed ones only."""

    id: int
    schedule_id: int
    fire_at: datetime
    occurrence_key: str
    status: str
    reason: str | None
    reason_text: str | None
    missed_count: int | None
    missed_until: datetime | None
    overdue: bool


class Advance(NamedTuple):
    """How a schedule moves on, guarded by what was read.

    ``day`` is the schedule's day, on which ``admitted`` runs are spent; ``day_noted``: its budget note is written.
    """

    id: int
    version: int
    read_next_fire_at: datetime | None
    next_fire_at: datetime | None
    accounted_until: datetime
    last_fire_at: datetime | None
    admitted: int
    day: date
    day_noted: bool
    completes: bool


_INSERT_STARTED = text("""
INSERT INTO runs (id, principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status,
                  conversation_id, attempt, overdue, counted, delivery_id, created_at)
SELECT i.id, s.principal_id, s.id, s.version, coalesce(:trigger, s.kind), 'live', i.fire_at, i.occurrence_key,
       'pending',
       i.conversation_id, 1, i.overdue, CAST(:trigger AS text) IS NULL, CAST(:delivery_id AS bigint), :now
FROM unnest(CAST(:c0 AS bigint[]), CAST(:c1 AS bigint[]), CAST(:c2 AS timestamptz[]), CAST(:c3 AS text[]),
            CAST(:c4 AS bigint[]), CAST(:c5 AS boolean[]))
     AS i(id, schedule_id, fire_at, occurrence_key, conversation_id, overdue)
JOIN schedules s ON s.id = i.schedule_id
""")

_INSERT_RECORDED = text("""
INSERT INTO runs (id, principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, reason,
                  reason_text, missed_count, missed_until, overdue, counted, delivery_id, finished_at, created_at)
SELECT i.id, s.principal_id, s.id, s.version, s.kind, 'live', i.fire_at, i.occurrence_key, i.status, i.reason,
       i.reason_text, i.missed_count, i.missed_until, i.overdue, i.status = 'queued', CAST(:delivery_id AS bigint),
       CASE WHEN i.status <> 'queued' THEN CAST(:now AS timestamptz) END, :now
FROM unnest(CAST(:c0 AS bigint[]), CAST(:c1 AS bigint[]), CAST(:c2 AS timestamptz[]), CAST(:c3 AS text[]),
            CAST(:c4 AS text[]), CAST(:c5 AS text[]), CAST(:c6 AS text[]), CAST(:c7 AS integer[]),
            CAST(:c8 AS timestamptz[]), CAST(:c9 AS boolean[]))
     AS i(id, schedule_id, fire_at, occurrence_key, status, reason, reason_text, missed_count, missed_until, overdue)
JOIN schedules s ON s.id = i.schedule_id
""")

_ADVANCE = text("""
UPDATE schedules s
SET next_fire_at = i.next_fire_at,
    status = CASE WHEN i.completes THEN 'completed' ELSE s.status END,
    accounted_until = greatest(s.accounted_until, i.accounted_until),
    last_fire_at = coalesce(i.last_fire_at, s.last_fire_at),
    runs_admitted = s.runs_admitted + i.admitted,
    day = i.day,
    day_runs = CASE WHEN s.day = i.day THEN s.day_runs ELSE 0 END + i.admitted,
    day_tokens = CASE WHEN s.day = i.day THEN s.day_tokens ELSE 0 END,
    day_noted = i.day_noted,
    updated_at = :now
FROM unnest(CAST(:c0 AS bigint[]), CAST(:c1 AS integer[]), CAST(:c2 AS timestamptz[]), CAST(:c3 AS timestamptz[]),
            CAST(:c4 AS timestamptz[]), CAST(:c5 AS timestamptz[]), CAST(:c6 AS integer[]), CAST(:c7 AS date[]),
            CAST(:c8 AS boolean[]), CAST(:c9 AS boolean[]))
     AS i(id, version, read_next_fire_at, next_fire_at, accounted_until, last_fire_at, admitted, day, day_noted,
          completes)
WHERE s.id = i.id AND s.status = 'active' AND s.version = i.version
  AND s.next_fire_at IS NOT DISTINCT FROM i.read_next_fire_at
""")

_READ_DAYS = text("""
SELECT principal_id, runs FROM principal_days WHERE day = :day AND principal_id = ANY(CAST(:ids AS bigint[]))
""")

_SPEND_DAYS = text("""
INSERT INTO principal_days AS d (principal_id, day, runs)
SELECT id, :day, runs FROM unnest(CAST(:ids AS bigint[]), CAST(:runs AS integer[])) AS i(id, runs) ORDER BY id
ON CONFLICT (principal_id, day) DO UPDATE SET runs = d.runs + excluded.runs
RETURNING principal_id, runs
""")


_SPEND_TOKENS = text("""
INSERT INTO principal_days AS d (principal_id, day, tokens) VALUES (:principal_id, :day, :tokens)
ON CONFLICT (principal_id, day) DO UPDATE SET tokens = d.tokens + excluded.tokens
""")


def columns(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows turned into one array a column, named c0, c1, … for ``unnest``."""
    return {f"c{index}": list(column) for index, column in enumerate(zip(*rows, strict=True))}


async def insert_started(
    conn: AsyncConnection,
    runs: Sequence[Started],
    now: datetime,
    *,
    trigger: str | None = None,
    delivery_id: int | None = None,
) -> None:
    """Write pending runs of locked schedules; a slot that is in the ledger already is an error (SQLSTATE 23505).

    Without a ``trigger`` they are the schedules' own fires, and count against ``max_runs``. Those of a webhook are
    made for the delivery ``delivery_id``.
    """
    if runs:
        parameters = {"now": now, "trigger": trigger, "delivery_id": delivery_id, **columns(runs)}
        await conn.execute(_INSERT_STARTED, parameters)


async def insert_recorded(
    conn: AsyncConnection, runs: Sequence[Recorded], now: datetime, *, delivery_id: int | None = None
) -> None:
    """Write queued, skipped and missed runs of locked schedules, as ``insert_started`` does pending ones."""
    if runs:
        await conn.execute(_INSERT_RECORDED, {"now": now, "delivery_id": delivery_id, **columns(runs)})


async def advance_schedules(conn: AsyncConnection, advances: Sequence[Advance], now: datetime) -> None:
    """Move active schedules on to their next fire, if each is still as it was read."""
    if not advances:
        return
    moved = await conn.execute(_ADVANCE, {"now": now, **columns(advances)})
    if moved.rowcount != len(advances):
        raise RuntimeError(f"moved {moved.rowcount} of {len(advances)} locked schedules: a lock did not hold")


async def read_principal_days(conn: AsyncConnection, principal_ids: Sequence[int], day: date) -> dict[int, int]:
    """How many runs principals have had on a UTC day, without locks; none for those that are not in the answer."""
    return {row[0]: row[1] for row in await conn.execute(_READ_DAYS, {"ids": principal_ids, "day": day})}


async def spend_principal_days(conn: AsyncConnection, spent: dict[int, int], day: date) -> dict[int, int]:
    """Add runs to a UTC day of principals, in id order; how many each has had by now, these included."""
    if not spent:
        return {}
    parameters = {"day": day, "ids": list(spent), "runs": list(spent.values())}
    return {row[0]: row[1] for row in await conn.execute(_SPEND_DAYS, parameters)}


async def spend_principal_tokens(conn: AsyncConnection, principal_id: int, tokens: int, day: date) -> None:
    """Add tokens to a UTC day of a principal."""
    await conn.execute(_SPEND_TOKENS, {"principal_id": principal_id, "tokens": tokens, "day": day})
