"""Put a schedule aside that cannot be fired, so that it stops nobody else."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_RECORD = text("""
INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, error_code, error,
                  created_at, finished_at)
SELECT principal_id, id, version, kind, 'live', next_fire_at,
       'slot:' || to_char(next_fire_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       'failed', 'fire_error', :error, :now, :now
FROM schedules WHERE id = :id AND status = 'active'
ON CONFLICT (schedule_id, occurrence_key) DO NOTHING
""")

_PAUSE = text("""
WITH paused AS (
    UPDATE schedules
    SET status = 'paused', pause_reason = 'error', pause_note = :error, paused_at = :now,
        accounted_until = greatest(accounted_until, next_fire_at), next_fire_at = NULL, updated_at = :now
    WHERE id = :id AND status = 'active'
    RETURNING id, conversation_id, number, name
)
INSERT INTO notes (conversation_id, kind, text, schedule_id, created_at)
SELECT conversation_id, 'schedule_paused',
       coalesce(name, 'Schedule ' || number) || ' was paused because it could not be fired: ' || :error, id, :now
FROM paused
""")


async def pause_unfirable(conn: AsyncConnection, schedule_id: int, error: str, now: datetime) -> None:
    """Record the due slot of a locked schedule as ``failed(fire_error)`` without a task, pause it, and leave a note."""
    parameters = {"id": schedule_id, "error": error, "now": now}
    await conn.execute(_RECORD, parameters)
    await conn.execute(_PAUSE, parameters)
