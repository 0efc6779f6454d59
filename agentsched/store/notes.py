"""Notes for a conversation's people: plain inserts, so that the tick locks no conversation."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.words import NoteKind


class Note(NamedTuple):
    conversation_id: int
    kind: NoteKind
    text: str
    schedule_id: int | None
    run_id: int | None


class NoteRow(NamedTuple):
    """A note as the inbox shows it."""

    id: int
    kind: str
    text: str
    schedule_id: int | None
    run_id: int | None
    created_at: datetime


INBOX = 50
"""The inbox is the newest 50 notes of a conversation (DESIGN §2)."""

_NEWEST = text(f"""
SELECT id, kind, text, schedule_id, run_id, created_at FROM notes
WHERE conversation_id = :conversation_id ORDER BY id DESC LIMIT {INBOX}
""")

_INSERT = text("""
INSERT INTO notes (conversation_id, kind, text, schedule_id, run_id, created_at)
SELECT i.*, :now
FROM unnest(CAST(:conversation_ids AS bigint[]), CAST(:kinds AS text[]), CAST(:texts AS text[]),
            CAST(:schedule_ids AS bigint[]), CAST(:run_ids AS bigint[])) AS i
""")


async def insert_notes(conn: AsyncConnection, notes: Sequence[Note], now: datetime) -> None:
    """Put notes into the inboxes of their conversations."""
    if notes:
        await conn.execute(
            _INSERT,
            {
                "now": now,
                "conversation_ids": [note.conversation_id for note in notes],
                "kinds": [note.kind.value for note in notes],
                "texts": [note.text for note in notes],
                "schedule_ids": [note.schedule_id for note in notes],
                "run_ids": [note.run_id for note in notes],
            },
        )


async def newest(conn: AsyncConnection, conversation_id: int) -> list[NoteRow]:
    """The inbox, newest first."""
    return [NoteRow(*row) for row in await conn.execute(_NEWEST, {"conversation_id": conversation_id})]
