"""Transcripts: entries by conversation and sequence number; a fork shares its parent's by reference."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection


class EntryRow(NamedTuple):
    """An entry as a transcript shows it. ``schedule_id`` and ``fire_at`` mark a scheduled prompt."""

    seq: int
    role: str
    content: str
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    task_id: int | None
    run_id: int | None
    schedule_id: int | None
    fire_at: datetime | None
    created_at: datetime


class NewEntry(NamedTuple):
    """An entry to be appended. ``tool_calls`` is JSON."""

    role: str
    content: str
    tool_calls: str | None = None
    tool_call_id: str | None = None
    schedule_id: int | None = None
    fire_at: datetime | None = None


_LINEAGE = """
WITH RECURSIVE lineage AS (
    SELECT id, parent_id, parent_seq, last_seq AS upto FROM conversations WHERE id = :conversation_id
    UNION ALL
    SELECT p.id, p.parent_id, p.parent_seq, l.parent_seq FROM lineage l JOIN conversations p ON p.id = l.parent_id
)
SELECT e.seq, e.role, e.content, e.tool_calls, e.tool_call_id, e.task_id, e.run_id, e.schedule_id, e.fire_at,
       e.created_at
FROM lineage l JOIN entries e ON e.conversation_id = l.id AND e.seq <= l.upto
"""

_READ = text(_LINEAGE + "WHERE e.seq > :after ORDER BY e.seq LIMIT :limit").columns(tool_calls=JSONB)

_READ_LAST = text(_LINEAGE + "WHERE e.seq <= :upto ORDER BY e.seq DESC LIMIT :limit").columns(tool_calls=JSONB)

_TAKE_SEQ = text("""
UPDATE conversations SET last_seq = last_seq + :count WHERE id = :conversation_id RETURNING last_seq - :count
""")

_APPEND = text("""
INSERT INTO entries (conversation_id, seq, role, content, tool_calls, tool_call_id, schedule_id, fire_at, task_id,
                     run_id, created_at)
SELECT :conversation_id, :last_seq + i.position, i.role, i.content, CAST(i.tool_calls AS jsonb), i.tool_call_id,
       i.schedule_id, i.fire_at, :task_id, :run_id, :now
FROM unnest(CAST(:roles AS text[]), CAST(:contents AS text[]), CAST(:tool_calls AS text[]),
            CAST(:tool_call_ids AS text[]),
            CAST(:schedule_ids AS bigint[]), CAST(:fire_ats AS timestamptz[])) WITH ORDINALITY
     AS i(role, content, tool_calls, tool_call_id, schedule_id, fire_at, position)
""")


async def read_page(conn: AsyncConnection, conversation_id: int, *, after: int, limit: int) -> list[EntryRow]:
    """Entries of the conversation and, before its fork, of its ancestors: sequence numbers greater than ``after``."""
    parameters = {"conversation_id": conversation_id, "after": after, "limit": limit}
    return [EntryRow(*row) for row in await conn.execute(_READ, parameters)]


async def read_last(conn: AsyncConnection, conversation_id: int, *, upto: int, limit: int) -> list[EntryRow]:
    """The last ``limit`` entries up to a sequence number, in order."""
    parameters = {"conversation_id": conversation_id, "upto": upto, "limit": limit}
    rows = [EntryRow(*row) for row in await conn.execute(_READ_LAST, parameters)]
    return rows[::-1]


async def append(
    conn: AsyncConnection,
    conversation_id: int,
    entries: Sequence[NewEntry],
    *,
    task_id: int,
    run_id: int | None,
    now: datetime,
) -> None:
    """Append a finished turn to a locked conversation."""
    if not entries:
        return
    last_seq = (await conn.execute(_TAKE_SEQ, {"conversation_id": conversation_id, "count": len(entries)})).scalar_one()
    await conn.execute(
        _APPEND,
        {
            "conversation_id": conversation_id,
            "last_seq": last_seq,
            "task_id": task_id,
            "run_id": run_id,
            "now": now,
            "roles": [entry.role for entry in entries],
            "contents": [entry.content for entry in entries],
            "tool_calls": [entry.tool_calls for entry in entries],
            "tool_call_ids": [entry.tool_call_id for entry in entries],
            "schedule_ids": [entry.schedule_id for entry in entries],
            "fire_ats": [entry.fire_at for entry in entries],
        },
    )
