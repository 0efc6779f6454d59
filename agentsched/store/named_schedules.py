"""Find schedules by what they are called."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.store import schedules
from agentsched.store.schedules import ScheduleRow

_FIND = text("""
SELECT id FROM schedules
WHERE principal_id = :principal_id AND (conversation_id = :conversation_id OR id = :also)
  AND lower(name) = lower(:name)
ORDER BY status NOT IN ('active', 'paused'), id DESC LIMIT :limit
""")


async def find(
    conn: AsyncConnection, principal_id: int, conversation_id: int, name: str, *, also: int | None, limit: int
) -> list[ScheduleRow]:
    """The schedules of a conversation, and the schedule ``also``, that have this name in any case and any status.

    Live ones come first, and of each kind the newest.
    """
    parameters = {
        "principal_id": principal_id,
        "conversation_id": conversation_id,
        "name": name,
        "also": also,
        "limit": limit,
    }
    ids = (await conn.execute(_FIND, parameters)).scalars()
    return [row for row in [await schedules.read(conn, schedule_id) for schedule_id in list(ids)] if row is not None]
