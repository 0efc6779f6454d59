"""Transitions of runs, each guarded by the state it expects: zero rows mean that somebody else was first."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import CursorResult, text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.reasons import reason_text
from agentsched.core.words import Reason
from agentsched.store import backfills

STOP_CHANNEL = "agentsched_stop"
"""Where the id of every task that is asked to stop is notified, so that its worker need not wait for its heartbeat."""

_LOCK_FLIGHTS = text("""
SELECT FROM runs
WHERE schedule_id = ANY(CAST(:schedule_ids AS bigint[])) AND status IN ('pending', 'running', 'retry_wait')
ORDER BY id FOR NO KEY UPDATE
""")

_LOCK = text("SELECT FROM runs WHERE id = :id FOR NO KEY UPDATE")

_SKIP_QUEUED = text("""
UPDATE runs SET status = 'skipped', reason = :reason, reason_text = :text, finished_at = :now
WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'queued'
""")

_SKIP_LINE = text("""
UPDATE runs SET status = 'skipped', reason = :reason, reason_text = :text, finished_at = :now
WHERE schedule_id = :schedule_id AND status = 'queued' AND (NOT :timed_only OR trigger IN ('cron', 'interval', 'once'))
""")

_CANCEL_UNSTARTED = text("""
WITH cancelled AS (
    UPDATE runs SET status = 'cancelled', retry_at = NULL, cancel_requested_at = coalesce(cancel_requested_at, :now),
                    reason_text = 'cancelled: it was stopped while no worker had it', finished_at = :now
    WHERE id = ANY(CAST(:ids AS bigint[])) AND status IN ('pending', 'retry_wait')
    RETURNING id, backfill_id
), stopped AS (
    UPDATE tasks SET status = 'cancelled', finished_at = :now
    WHERE run_id IN (SELECT id FROM cancelled) AND status = 'pending'
)
SELECT DISTINCT backfill_id FROM cancelled WHERE backfill_id IS NOT NULL
""")

_CANCEL_QUEUED = text("""
UPDATE runs SET status = 'cancelled', cancel_requested_at = :now, finished_at = :now,
                reason_text = 'cancelled: it was stopped while it waited in line'
WHERE id = :id AND status = 'queued'
RETURNING backfill_id
""")

_ASK_TO_STOP = text(f"""
WITH asked AS (
    UPDATE runs SET cancel_requested_at = :now
    WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'running' AND cancel_requested_at IS NULL
    RETURNING id, schedule_id, version
), told AS (
    UPDATE tasks t
    SET cancel_requested_at = :now,
        cancel_deadline_at = CAST(:now AS timestamptz) + make_interval(secs => v.cancel_grace_seconds)
    FROM asked a JOIN schedule_versions v ON v.schedule_id = a.schedule_id AND v.version = a.version
    WHERE t.run_id = a.id AND t.status = 'running'
    RETURNING t.id
)
SELECT pg_notify('{STOP_CHANNEL}', CAST(id AS text)) FROM told
""")

_START_QUEUED = text("""
UPDATE runs r SET status = 'pending', conversation_id = i.conversation_id, attempt = 1
FROM unnest(CAST(:ids AS bigint[]), CAST(:conversation_ids AS bigint[])) AS i(id, conversation_id)
WHERE r.id = i.id AND r.status = 'queued'
""")

_CLAIMED = text("""
UPDATE runs SET status = 'running', started_at = coalesce(started_at, :now)
WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'pending'
""")

_RETURN_TO_PENDING = text("""
UPDATE runs SET status = 'pending', restarts = restarts + :restarts WHERE id = :id AND status = 'running'
""")

_AWAIT_RETRY = text("""
UPDATE runs SET status = 'retry_wait', retry_at = :retry_at, error_code = :error_code, error = :error
WHERE id = :id AND status = 'running'
""")

_RETRY = text("""
UPDATE runs SET status = 'pending', attempt = attempt + 1, retry_at = NULL WHERE id = :id AND status = 'retry_wait'
""")

_FINISH = text("""
UPDATE runs SET status = :status, retry_at = NULL, error_code = :error_code, error = :error, reason_text = :reason_text,
                result = :result, usage = CAST(:usage AS jsonb), finished_at = :now
WHERE id = :id AND status IN ('pending', 'running', 'retry_wait')
RETURNING backfill_id
""")

_MISS = text("""
UPDATE runs SET status = 'missed', reason = 'not_started', reason_text = :text, missed_count = 1,
                missed_until = fire_at, finished_at = :now
WHERE id = :id AND status = 'pending'
""")

_STRAND = text("""
UPDATE runs SET status = 'missed', reason = 'stranded', reason_text = :text, missed_count = 1,
                missed_until = fire_at, finished_at = :now
WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'queued'
""")


async def lock(conn: AsyncConnection, run_id: int) -> None:
    """Lock one run."""
    await conn.execute(_LOCK, {"id": run_id})


async def lock_flights(conn: AsyncConnection, schedule_ids: Sequence[int]) -> None:
    """Lock what schedules have in flight, so that no claim comes between the decision to replace and its writing."""
    if schedule_ids:
        await conn.execute(_LOCK_FLIGHTS, {"schedule_ids": schedule_ids})


async def skip_queued(
    conn: AsyncConnection, ids: Sequence[int], reason: Reason, now: datetime, *, text: str | None = None
) -> None:
    """queued → skipped; ``text`` says more than the reason's general sentence."""
    await conn.execute(_SKIP_QUEUED, {"ids": ids, "reason": reason, "text": text or reason_text(reason), "now": now})


async def skip_line(
    conn: AsyncConnection, schedule_id: int, reason: Reason, now: datetime, *, timed_only: bool
) -> None:
    """queued → skipped, for all of a schedule's line or its timed runs only."""
    await conn.execute(
        _SKIP_LINE,
        {
            "schedule_id": schedule_id,
            "reason": reason,
            "text": reason_text(reason),
            "timed_only": timed_only,
            "now": now,
        },
    )


async def cancel_unstarted(conn: AsyncConnection, ids: Sequence[int], now: datetime) -> None:
    """pending or retry_wait → cancelled, with the pending task."""
    await _complete_backfills(conn, await conn.execute(_CANCEL_UNSTARTED, {"ids": ids, "now": now}), now)


async def cancel_queued(conn: AsyncConnection, run_id: int, now: datetime) -> None:
    """queued → cancelled."""
    await _complete_backfills(conn, await conn.execute(_CANCEL_QUEUED, {"id": run_id, "now": now}), now)


async def ask_to_stop(conn: AsyncConnection, ids: Sequence[int], now: datetime) -> None:
    """Ask the workers of running runs to stop; after the grace of the schedule they are fenced off."""
    await conn.execute(_ASK_TO_STOP, {"ids": ids, "now": now})


async def start_queued(conn: AsyncConnection, targets: dict[int, int]) -> None:
    """queued → pending, for run ids with their target conversations. Raises RuntimeError if one was not queued."""
    started = await conn.execute(_START_QUEUED, {"ids": list(targets), "conversation_ids": list(targets.values())})
    if started.rowcount != len(targets):
        raise RuntimeError(f"started {started.rowcount} of {len(targets)} queued runs: a lock did not hold")


async def mark_claimed(conn: AsyncConnection, ids: Sequence[int], now: datetime) -> None:
    """pending → running."""
    await conn.execute(_CLAIMED, {"ids": ids, "now": now})


async def return_to_pending(conn: AsyncConnection, run_id: int, *, lost: bool) -> None:
    """running → pending; only a loss counts as a restart."""
    await conn.execute(_RETURN_TO_PENDING, {"id": run_id, "restarts": int(lost)})


async def await_retry(conn: AsyncConnection, run_id: int, *, retry_at: datetime, error_code: str, error: str) -> None:
    """running → retry_wait; the run keeps its slot and its place."""
    await conn.execute(_AWAIT_RETRY, {"id": run_id, "retry_at": retry_at, "error_code": error_code, "error": error})


async def retry(conn: AsyncConnection, run_id: int) -> None:
    """retry_wait → pending with the next attempt."""
    await conn.execute(_RETRY, {"id": run_id})


class Ending(NamedTuple):
    """How a run in flight ends. ``usage`` is JSON."""

    status: str
    error_code: str | None = None
    error: str | None = None
    reason_text: str | None = None
    result: str | None = None
    usage: str | None = None


async def finish(conn: AsyncConnection, run_id: int, ending: Ending, now: datetime) -> None:
    """pending, running or retry_wait → completed, failed, cancelled or abandoned."""
    await _complete_backfills(conn, await conn.execute(_FINISH, {"id": run_id, "now": now, **ending._asdict()}), now)


async def _complete_backfills(conn: AsyncConnection, ended: CursorResult[Any], now: datetime) -> None:
    """A backfill ends with its last run. ``ended`` are the backfills of runs that have just ended, null for none."""
    await backfills.complete_ended(conn, [row[0] for row in ended if row[0] is not None], now)


async def miss_unstarted(conn: AsyncConnection, run_id: int, *, text: str, now: datetime) -> None:
    """pending → missed(not_started); ``text`` is the reason in words."""
    await conn.execute(_MISS, {"id": run_id, "text": text, "now": now})


async def strand(conn: AsyncConnection, ids: Sequence[int], *, text: str, now: datetime) -> None:
    """queued → missed(stranded); ``text`` is the reason in words."""
    await conn.execute(_STRAND, {"ids": ids, "text": text, "now": now})
