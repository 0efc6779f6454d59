"""Read, insert and change schedules. Whoever changes one holds its lock."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.timing import Kind, Timing


class ScheduleRow(NamedTuple):
    """A schedule with the version in force."""

    id: int
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
    ends_at: datetime | None
    max_runs: int | None
    status: str
    pause_reason: str | None
    pause_note: str | None
    paused_at: datetime | None
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    accounted_until: datetime | None
    runs_admitted: int
    consecutive_failures: int
    day: date | None
    day_runs: int
    day_tokens: int
    version: int
    created_at: datetime
    updated_at: datetime
    prompt: str
    mode: str
    agent_id: int
    overlap: str
    max_concurrency: int | None
    queue_limit: int | None
    cancel_grace_seconds: int | None
    misfire: str
    misfire_grace_seconds: int
    start_deadline_seconds: int
    timeout_seconds: int
    retry_max_attempts: int
    retry_initial_delay_seconds: int
    retry_max_delay_seconds: int
    pause_after_failures: int | None
    notify: str
    daily_run_limit: int | None
    daily_token_limit: int | None
    max_history_entries: int | None
    harness: str
    model: str | None
    instructions: str | None
    tools: list[str]
    settings: dict[str, Any]

    @property
    def timing(self) -> Timing:
        return Timing(Kind(self.kind), self.cron, self.every_minutes, self.anchor_at, self.at, self.timezone)

    @property
    def title(self) -> str:
        """What the schedule is called where it has no name."""
        return self.name or f"Schedule {self.number}"


class Definition(NamedTuple):
    """What a version holds: prompt, agent snapshot and policies."""

    prompt: str
    mode: str
    agent_id: int
    overlap: str
    max_concurrency: int | None
    queue_limit: int | None
    cancel_grace_seconds: int | None
    misfire: str
    misfire_grace_seconds: int
    start_deadline_seconds: int
    timeout_seconds: int
    retry_max_attempts: int
    retry_initial_delay_seconds: int
    retry_max_delay_seconds: int
    pause_after_failures: int | None
    notify: str
    daily_run_limit: int | None
    daily_token_limit: int | None
    max_history_entries: int | None


_VERSIONED = Definition._fields
_OF_AGENT = ("harness", "model", "instructions", "tools", "settings")
_OWN = tuple(name for name in ScheduleRow._fields if name not in (*_VERSIONED, *_OF_AGENT))
_COLUMNS = [
    *(f"s.{name}" for name in _OWN),
    *(f"v.{name}" for name in _VERSIONED),
    *(f"a.{name}" for name in _OF_AGENT),
]
_SELECT = (
    f"SELECT {', '.join(_COLUMNS)}\n"
    "FROM schedules s JOIN schedule_versions v ON v.schedule_id = s.id AND v.version = s.version\n"
    "JOIN agents a ON a.id = v.agent_id\n"
)

_READ = text(_SELECT + "WHERE s.id = :id").columns(tools=JSONB, settings=JSONB)

_LIST = text(
    _SELECT
    + """
WHERE s.principal_id = :principal_id AND s.status = ANY(CAST(:statuses AS text[])) AND s.id > :after
  AND (CAST(:conversation_id AS bigint) IS NULL OR s.conversation_id = :conversation_id OR s.id = :also)
ORDER BY s.id LIMIT :limit
"""
).columns(tools=JSONB, settings=JSONB)

_LIVE_BY_NAME = text(
    _SELECT + "WHERE s.conversation_id = :conversation_id AND s.name = :name AND s.status IN ('active', 'paused')"
).columns(tools=JSONB, settings=JSONB)

_LOCK = text("SELECT FROM schedules WHERE id = :id FOR NO KEY UPDATE")

_LOCK_UNFINISHED = text("""
SELECT id FROM schedules s WHERE conversation_id = :conversation_id AND (
    status IN ('active', 'paused') OR EXISTS (SELECT FROM runs WHERE schedule_id = s.id AND status = 'queued')
)
ORDER BY id FOR NO KEY UPDATE
""")

_COUNT_LIVE = text("""
SELECT count(*) FILTER (WHERE conversation_id = :conversation_id), count(*)
FROM schedules WHERE principal_id = :principal_id AND status IN ('active', 'paused')
""")

_INSERT = text("""
INSERT INTO schedules (principal_id, conversation_id, number, name, kind, cron, every_minutes, anchor_at, at, timezone,
                       ends_at, max_runs, status, next_fire_at, created_at, updated_at)
VALUES (:principal_id, :conversation_id, :number, :name, :kind, :cron, :every_minutes, :anchor_at, :at, :timezone,
        :ends_at, :max_runs, 'active', :next_fire_at, :now, :now)
RETURNING id
""")

_INSERT_VERSION = text(
    f"INSERT INTO schedule_versions (schedule_id, version, created_at, {', '.join(_VERSIONED)})\n"
    f"VALUES (:schedule_id, :version, :now, {', '.join(f':{name}' for name in _VERSIONED)})"
)

_RETIME = text("""
UPDATE schedules
SET name = :name, kind = :kind, cron = :cron, every_minutes = :every_minutes, anchor_at = :anchor_at, at = :at,
    timezone = :timezone, ends_at = :ends_at, max_runs = :max_runs, next_fire_at = :next_fire_at,
    status = :status, accounted_until = greatest(accounted_until, :accounted_until), version = :new_version,
    updated_at = :now
WHERE id = :id AND version = :version AND status IN ('active', 'paused')
""")

_PAUSE = text("""
UPDATE schedules
SET status = 'paused', pause_reason = :reason, pause_note = :note, paused_at = :now, next_fire_at = NULL,
    accounted_until = greatest(accounted_until, :accounted_until), updated_at = :now
WHERE id = :id AND status = 'active'
""")

_RESUME = text("""
UPDATE schedules
SET status = CASE WHEN :completed THEN 'completed' ELSE 'active' END, pause_reason = NULL, pause_note = NULL,
    paused_at = NULL, consecutive_failures = 0, next_fire_at = :next_fire_at,
    accounted_until = greatest(accounted_until, :accounted_until), updated_at = :now
WHERE id = :id AND status = 'paused'
""")

_ACCOUNT = text("UPDATE schedules SET accounted_until = greatest(accounted_until, :until) WHERE id = :id")

_END = text("""
UPDATE schedules
SET status = :status, pause_reason = NULL, pause_note = NULL, paused_at = NULL, next_fire_at = NULL,
    accounted_until = greatest(accounted_until, :accounted_until), updated_at = :now
WHERE id = :id AND status IN ('active', 'paused')
""")

_SET_FAILURES = text("UPDATE schedules SET consecutive_failures = :failures, updated_at = :now WHERE id = :id")

_SPEND = text("""
UPDATE schedules SET runs_admitted = runs_admitted + :admitted, day = :day,
       day_runs = CASE WHEN day = :day THEN day_runs ELSE 0 END + :runs,
       day_tokens = CASE WHEN day = :day THEN day_tokens ELSE 0 END,
       day_noted = day_noted AND day = :day
WHERE id = :id
""")

_SPEND_TOKENS = text("""
UPDATE schedules SET day = :day,
       day_runs = CASE WHEN day = :day THEN day_runs ELSE 0 END,
       day_tokens = CASE WHEN day = :day THEN day_tokens ELSE 0 END + :tokens,
       day_noted = day_noted AND day = :day
WHERE id = :id
""")

_NOTE_BUDGET = text("""
UPDATE schedules SET day_noted = true, day = :day,
       day_runs = CASE WHEN day = :day THEN day_runs ELSE 0 END,
       day_tokens = CASE WHEN day = :day THEN day_tokens ELSE 0 END
WHERE id = :id
""")


async def read(conn: AsyncConnection, schedule_id: int) -> ScheduleRow | None:
    """Read a schedule with the version in force; None if there is none."""
    row = (await conn.execute(_READ, {"id": schedule_id})).first()
    return None if row is None else ScheduleRow(*row)


async def lock(conn: AsyncConnection, schedule_id: int) -> ScheduleRow | None:
    """Lock a schedule, then read it; None if there is none."""
    await conn.execute(_LOCK, {"id": schedule_id})
    return await read(conn, schedule_id)


async def find_live_by_name(conn: AsyncConnection, conversation_id: int, name: str) -> ScheduleRow | None:
    """A conversation's live schedule of this name; None if there is none."""
    row = (await conn.execute(_LIVE_BY_NAME, {"conversation_id": conversation_id, "name": name})).first()
    return None if row is None else ScheduleRow(*row)


async def lock_unfinished(conn: AsyncConnection, conversation_id: int) -> list[int]:
    """Lock a conversation's schedules that live or have runs in line, in id order; their ids."""
    return list((await conn.execute(_LOCK_UNFINISHED, {"conversation_id": conversation_id})).scalars())


async def list_page(
    conn: AsyncConnection,
    principal_id: int,
    *,
    conversation_id: int | None,
    statuses: Sequence[str],
    after: int,
    limit: int,
    also: int | None = None,
) -> list[ScheduleRow]:
    """A principal's schedules with one of these statuses, oldest first, ids greater than ``after``.

    Of a conversation, if one is given, and beside them the schedule ``also``.
    """
    rows = await conn.execute(
        _LIST,
        {
            "principal_id": principal_id,
            "conversation_id": conversation_id,
            "also": also,
            "statuses": statuses,
            "after": after,
            "limit": limit,
        },
    )
    return [ScheduleRow(*row) for row in rows]


async def count_live(conn: AsyncConnection, principal_id: int, conversation_id: int) -> tuple[int, int]:
    """How many live schedules the conversation owns, and how many the principal."""
    row = (await conn.execute(_COUNT_LIVE, {"principal_id": principal_id, "conversation_id": conversation_id})).one()
    return row[0], row[1]


class Placement(NamedTuple):
    """Where a new schedule goes, and what is its own beside timing and definition."""

    principal_id: int
    conversation_id: int
    number: int
    name: str | None
    ends_at: datetime | None
    max_runs: int | None
    next_fire_at: datetime | None


async def insert(
    conn: AsyncConnection, placement: Placement, timing: Timing, definition: Definition, now: datetime
) -> int:
    """Insert an active schedule with its first version; its id."""
    parameters = {**placement._asdict(), **_timing_columns(timing), "now": now}
    schedule_id: int = (await conn.execute(_INSERT, parameters)).scalar_one()
    await insert_version(conn, schedule_id, 1, definition, now)
    return schedule_id


async def insert_version(
    conn: AsyncConnection, schedule_id: int, version: int, definition: Definition, now: datetime
) -> None:
    """Insert an immutable version."""
    await conn.execute(
        _INSERT_VERSION, {"schedule_id": schedule_id, "version": version, "now": now, **definition._asdict()}
    )


class Retiming(NamedTuple):
    """What an update leaves in the schedule's own row."""

    name: str | None
    ends_at: datetime | None
    max_runs: int | None
    next_fire_at: datetime | None
    status: str
    accounted_until: datetime | None


async def update(
    conn: AsyncConnection, schedule_id: int, version: int, retiming: Retiming, timing: Timing, now: datetime
) -> None:
    """Move a live schedule to its next version, if it is still at ``version``. The version row is in already."""
    parameters: dict[str, Any] = {
        "id": schedule_id,
        "version": version,
        "new_version": version + 1,
        "now": now,
    }
    await conn.execute(_RETIME, {**parameters, **retiming._asdict(), **_timing_columns(timing)})


async def pause(
    conn: AsyncConnection,
    schedule_id: int,
    *,
    reason: str,
    note: str | None,
    accounted_until: datetime | None,
    now: datetime,
) -> None:
    """active → paused."""
    parameters = {
        "id": schedule_id,
        "reason": reason,
        "note": note,
        "accounted_until": accounted_until,
        "now": now,
    }
    await conn.execute(_PAUSE, parameters)


async def resume(
    conn: AsyncConnection,
    schedule_id: int,
    *,
    next_fire_at: datetime | None,
    completed: bool,
    accounted_until: datetime | None,
    now: datetime,
) -> None:
    """paused → active, or completed where nothing is left to fire. Clears the failure count."""
    await conn.execute(
        _RESUME,
        {
            "id": schedule_id,
            "next_fire_at": next_fire_at,
            "completed": completed,
            "accounted_until": accounted_until,
            "now": now,
        },
    )


async def account(conn: AsyncConnection, schedule_id: int, until: datetime) -> None:
    """Note that all slots up to this instant are accounted for."""
    await conn.execute(_ACCOUNT, {"id": schedule_id, "until": until})


async def end(
    conn: AsyncConnection, schedule_id: int, status: str, *, accounted_until: datetime | None, now: datetime
) -> None:
    """active or paused → cancelled or completed."""
    parameters = {"id": schedule_id, "status": status, "accounted_until": accounted_until, "now": now}
    await conn.execute(_END, parameters)


async def set_failures(conn: AsyncConnection, schedule_id: int, failures: int, now: datetime) -> None:
    """Set the count of consecutive failures of a locked schedule."""
    await conn.execute(_SET_FAILURES, {"id": schedule_id, "failures": failures, "now": now})


async def spend(conn: AsyncConnection, schedule_id: int, *, admitted: int, day: date, runs: int = 1) -> None:
    """Count ``runs`` against the schedule's day, and ``admitted`` of them against its ``max_runs``."""
    await conn.execute(_SPEND, {"id": schedule_id, "admitted": admitted, "day": day, "runs": runs})


async def spend_tokens(conn: AsyncConnection, schedule_id: int, tokens: int, day: date) -> None:
    """Count tokens against the schedule's day."""
    await conn.execute(_SPEND_TOKENS, {"id": schedule_id, "tokens": tokens, "day": day})


async def note_budget(conn: AsyncConnection, schedule_id: int, day: date) -> None:
    """Note that the owner has been told that the budget of this day is spent."""
    await conn.execute(_NOTE_BUDGET, {"id": schedule_id, "day": day})


def _timing_columns(timing: Timing) -> dict[str, Any]:
    return {
        "kind": timing.kind.value,
        "cron": timing.cron,
        "every_minutes": timing.every_minutes,
        "anchor_at": timing.anchor_at,
        "at": timing.at,
        "timezone": timing.timezone,
    }
