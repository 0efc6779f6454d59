"""Find schedules by their numbers in a conversation, as people in its chat do."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.store import schedules
from agentsched.store.schedules import ScheduleRow

_READ = text("SELECT id FROM schedules WHERE conversation_id = :conversation_id AND number = :number")

_NEWEST = text("""
SELECT id FROM schedules WHERE conversation_id = :conversation_id AND status = ANY(CAST(:statuses AS text[]))
ORDER BY number DESC LIMIT :limit
""")


async def read(conn: AsyncConnection, conversation_id: int, number: int) -> ScheduleRow | None:
    """The schedule of a conversation that has this number; None if there is none."""
    found = (await conn.execute(_READ, {"conversation_id": conversation_id, "number": number})).scalar()
    return None if found is None else await schedules.read(conn, found)


async def newest(
    conn: AsyncConnection, conversation_id: int, statuses: Sequence[str], *, limit: int
) -> list[ScheduleRow]:
    """The newest schedules of a conversation with these statuses, in the order of their numbers."""
    parameters = {"conversation_id": conversation_id, "statuses": statuses, "limit": limit}
    ids = sorted((await conn.execute(_NEWEST, parameters)).scalars())
    return [row for row in [await schedules.read(conn, each) for each in ids] if row is not None]
