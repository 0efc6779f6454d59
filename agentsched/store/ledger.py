"""Read runs: for transitions with the policies of the version that they fired with, for people as they are shown."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.store.dead_letters import DEAD_LETTER


class RunFacts(NamedTuple):
    """A run with its version's prompt and policies, as the end of an attempt needs it."""

    id: int
    schedule_id: int
    version: int
    trigger: str
    fire_at: datetime
    status: str
    attempt: int
    restarts: int
    cancel_requested_at: datetime | None
    retry_at: datetime | None
    conversation_id: int | None
    prompt: str
    misfire: str
    misfire_grace_seconds: int
    start_deadline_seconds: int
    timeout_seconds: int
    retry_max_attempts: int
    retry_initial_delay_seconds: int
    retry_max_delay_seconds: int
    overdue: bool


class RunRow(NamedTuple):
    """A run as people see it. ``usage`` is a JSON value."""

    id: int
    schedule_id: int
    version: int
    conversation_id: int | None
    trigger: str
    fire_at: datetime
    occurrence_key: str
    status: str
    reason: str | None
    reason_text: str | None
    attempt: int
    restarts: int
    missed_count: int | None
    missed_until: datetime | None
    retry_at: datetime | None
    error_code: str | None
    error: str | None
    cancel_requested_at: datetime | None
    result: str | None
    usage: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    discarded_at: datetime | None
    requeue_of: int | None
    dead_letter: bool
    harness: str | None


_FACTS = text("""
SELECT r.id, r.schedule_id, r.version, r.trigger, r.fire_at, r.status, r.attempt, r.restarts, r.cancel_requested_at,
       r.retry_at, r.conversation_id, v.prompt, v.misfire, v.misfire_grace_seconds, v.start_deadline_seconds,
       v.timeout_seconds, v.retry_max_attempts, v.retry_initial_delay_seconds, v.retry_max_delay_seconds,
       r.overdue
FROM runs r JOIN schedule_versions v ON v.schedule_id = r.schedule_id AND v.version = r.version
WHERE r.id = :id
""")

_SELECT = f"""
SELECT r.id, r.schedule_id, r.version, r.conversation_id, r.trigger, r.fire_at, r.occurrence_key, r.status, r.reason,
       r.reason_text, r.attempt, r.restarts, r.missed_count, r.missed_until, r.retry_at, r.error_code, r.error,
       r.cancel_requested_at, r.result, r.usage, r.created_at, r.started_at, r.finished_at, r.discarded_at,
       r.requeue_of, {DEAD_LETTER},
       (SELECT harness FROM tasks WHERE run_id = r.id AND status = 'pending')
FROM runs r
WHERE r.principal_id = :principal_id
"""

_IN_FLIGHT = text("""
SELECT id FROM runs WHERE schedule_id = :schedule_id AND status IN ('pending', 'running', 'retry_wait') ORDER BY id
""")

_FILTER = """
  AND (CAST(:schedule_id AS bigint) IS NULL OR r.schedule_id = :schedule_id)
  AND (CAST(:conversation_id AS bigint) IS NULL
       OR r.schedule_id IN (SELECT id FROM schedules WHERE conversation_id = :conversation_id))
  AND (CAST(:statuses AS text[]) IS NULL OR r.status = ANY(CAST(:statuses AS text[])))
"""

_READ = text(_SELECT + "AND r.id = :id").columns(usage=JSONB)

_NEWEST_FIRST = """
  AND (CAST(:id AS bigint) IS NULL OR r.id < :id)
ORDER BY r.id DESC LIMIT :limit
"""

_LEDGER_ORDER = """
  AND (CAST(:id AS bigint) IS NULL OR (r.fire_at, r.id) > (CAST(:fire_at AS timestamptz), :id))
ORDER BY r.fire_at, r.id LIMIT :limit
"""

# A statement for each answer, so that the index of the dead letters is used whatever plan is kept.
_DEAD = {None: "", True: f"  AND {DEAD_LETTER}", False: f"  AND NOT {DEAD_LETTER}"}

LISTS = {
    (ledger_order, dead): text(_SELECT + _FILTER + only + (_LEDGER_ORDER if ledger_order else _NEWEST_FIRST)).columns(
        usage=JSONB
    )
    for ledger_order in (False, True)
    for dead, only in _DEAD.items()
}
"""By (in the order of the ledger, dead letters only or all others only)."""


async def read_facts(conn: AsyncConnection, run_id: int) -> RunFacts | None:
    """Read a run for a transition; None if there is none."""
    row = (await conn.execute(_FACTS, {"id": run_id})).first()
    return None if row is None else RunFacts(*row)


async def in_flight(conn: AsyncConnection, schedule_id: int) -> list[int]:
    """Ids of the runs that a schedule has in flight."""
    return list((await conn.execute(_IN_FLIGHT, {"schedule_id": schedule_id})).scalars())


async def read(conn: AsyncConnection, principal_id: int, run_id: int) -> RunRow | None:
    """Read a principal's run; None for an absent and a foreign one alike."""
    row = (await conn.execute(_READ, {"principal_id": principal_id, "id": run_id})).first()
    return None if row is None else RunRow(*row)


async def list_page(
    conn: AsyncConnection,
    principal_id: int,
    *,
    schedule_id: int | None,
    conversation_id: int | None,
    statuses: Sequence[str] | None,
    dead_letter: bool | None = None,
    ledger_order: bool,
    after: tuple[datetime, int] | None,
    limit: int,
) -> list[RunRow]:
    """Runs of a schedule, of a conversation's schedules, or of all, from behind ``after`` on.

    ``dead_letter``: only those that are one, or only those that are none. Newest first, or in the order of the
    ledger: (fire_at, id).
    """
    rows = await conn.execute(
        LISTS[ledger_order, dead_letter],
        {
            "principal_id": principal_id,
            "schedule_id": schedule_id,
            "conversation_id": conversation_id,
            "statuses": statuses,
            "fire_at": after[0] if after else None,
            "id": after[1] if after else None,
            "limit": limit,
        },
    )
    return [RunRow(*row) for row in rows]
