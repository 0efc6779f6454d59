"""Write what a fire decided: ledger rows, the schedules' next fires, budgets. Set-based, one statement a table."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class NewRun(NamedTuple):
    """A row of the ledger as a fire writes it.

    ``missed_*`` are for missed ones only; ``counted``: it spends of ``max_runs``.
    """

    id: int
    principal_id: int
    schedule_id: int
    version: int
    trigger: str
    fire_at: datetime
    occurrence_key: str
    status: str
    reason: str | None
    reason_text: str | None
    conversation_id: int | None
    attempt: int
    missed_count: int | None
    missed_until: datetime | None
    overdue: bool
    counted: bool
    finished_at: datetime | None
    error_code: str | None = None
    error: str | None = None


class Advance(NamedTuple):
    """How a schedule moves on, guarded by what was read. ``next_fire_at`` None completes it."""

    id: int
    version: int
    read_next_fire_at: datetime
    next_fire_at: datetime | None
    accounted_until: datetime
    last_fire_at: datetime | None
    admitted: int
    day: date
    day_runs: int
    day_tokens: int
    day_noted: bool


_INSERT_RUNS = text("""
INSERT INTO runs (id, principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, reason,
                  reason_text, conversation_id, attempt, missed_count, missed_until, overdue, counted, finished_at,
                  error_code, error, created_at)
SELECT i.id, i.principal_id, i.schedule_id, i.version, i.trigger, 'live', i.fire_at, i.occurrence_key, i.status,
       i.reason,
       i.reason_text, i.conversation_id, i.attempt, i.missed_count, i.missed_until, i.overdue, i.counted, i.finished_at,
       i.error_code, i.error, :now
FROM unnest(CAST(:c0 AS bigint[]), CAST(:c1 AS bigint[]), CAST(:c2 AS bigint[]), CAST(:c3 AS integer[]),
            CAST(:c4 AS text[]), CAST(:c5 AS timestamptz[]), CAST(:c6 AS text[]), CAST(:c7 AS text[]),
            CAST(:c8 AS text[]), CAST(:c9 AS text[]), CAST(:c10 AS bigint[]), CAST(:c11 AS integer[]),
            CAST(:c12 AS integer[]), CAST(:c13 AS timestamptz[]), CAST(:c14 AS boolean[]), CAST(:c15 AS boolean[]),
            CAST(:c16 AS timestamptz[]), CAST(:c17 AS text[]), CAST(:c18 AS text[]))
     AS i(id, principal_id, schedule_id, version, trigger, fire_at, occurrence_key, status, reason, reason_text,
          conversation_id, attempt, missed_count, missed_until, overdue, counted, finished_at, error_code, error)
""")

_ADVANCE = text("""
UPDATE schedules s
SET next_fire_at = i.next_fire_at,
    status = CASE WHEN i.next_fire_at IS NULL THEN 'completed' ELSE s.status END,
    accounted_until = greatest(s.accounted_until, i.accounted_until),
    last_fire_at = coalesce(i.last_fire_at, s.last_fire_at),
    runs_admitted = s.runs_admitted + i.admitted,
    day = i.day, day_runs = i.day_runs, day_tokens = i.day_tokens, day_noted = i.day_noted,
    updated_at = :now
FROM unnest(CAST(:c0 AS bigint[]), CAST(:c1 AS integer[]), CAST(:c2 AS timestamptz[]), CAST(:c3 AS timestamptz[]),
            CAST(:c4 AS timestamptz[]), CAST(:c5 AS timestamptz[]), CAST(:c6 AS integer[]), CAST(:c7 AS date[]),
            CAST(:c8 AS integer[]), CAST(:c9 AS bigint[]), CAST(:c10 AS boolean[]))
     AS i(id, version, read_next_fire_at, next_fire_at, accounted_until, last_fire_at, admitted, day, day_runs,
          day_tokens, day_noted)
WHERE s.id = i.id AND s.status = 'active' AND s.version = i.version AND s.next_fire_at = i.read_next_fire_at
""")

_OPEN_DAYS = text("""
INSERT INTO principal_days (principal_id, day)
SELECT id, :day FROM unnest(CAST(:ids AS bigint[])) AS i(id) ORDER BY id
ON CONFLICT DO NOTHING
""")

_LOCK_DAYS = text("""
SELECT principal_id, runs FROM principal_days
WHERE day = :day AND principal_id = ANY(CAST(:ids AS bigint[]))
ORDER BY principal_id FOR NO KEY UPDATE
""")

_SPEND_DAYS = text("""
UPDATE principal_days d SET runs = d.runs + i.runs
FROM unnest(CAST(:ids AS bigint[]), CAST(:runs AS integer[])) AS i(id, runs)
WHERE d.principal_id = i.id AND d.day = :day
""")


def columns(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Rows turned into one array a column, named c0, c1, … for ``unnest``."""
    return {f"c{index}": list(column) for index, column in enumerate(zip(*rows, strict=True))}


async def insert_runs(conn: AsyncConnection, runs: Sequence[NewRun], now: datetime) -> None:
    """Write rows of the ledger; a slot that is in it already is an error (SQLSTATE 23505)."""
    if runs:
        await conn.execute(_INSERT_RUNS, {"now": now, **columns(runs)})


async def advance_schedules(conn: AsyncConnection, advances: Sequence[Advance], now: datetime) -> None:
    """Move active schedules on to their next fire, if each is still as it was read."""
    if not advances:
        return
    moved = await conn.execute(_ADVANCE, {"now": now, **columns(advances)})
    if moved.rowcount != len(advances):
        raise RuntimeError(f"moved {moved.rowcount} of {len(advances)} locked schedules: a lock did not hold")


async def lock_principal_days(conn: AsyncConnection, principal_ids: Sequence[int], day: date) -> dict[int, int]:
    """Lock the counts of runs that principals had on a UTC day, in id order, making the rows where there are none."""
    parameters = {"ids": sorted(principal_ids), "day": day}
    await conn.execute(_OPEN_DAYS, parameters)
    return {row[0]: row[1] for row in await conn.execute(_LOCK_DAYS, parameters)}


async def spend_principal_days(conn: AsyncConnection, spent: dict[int, int], day: date) -> None:
    """Add runs to the locked counts of a UTC day."""
    if spent:
        await conn.execute(_SPEND_DAYS, {"day": day, "ids": list(spent), "runs": list(spent.values())})
