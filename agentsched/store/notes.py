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
