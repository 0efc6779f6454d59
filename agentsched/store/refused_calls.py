"""How often the same call of a tool was refused in a conversation."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_COUNT = text("""
INSERT INTO refused_calls AS r (conversation_id, digest, count, last_at) VALUES (:conversation_id, :digest, 1, :now)
ON CONFLICT (conversation_id, digest) DO UPDATE
SET count = CASE WHEN r.last_at < :fresh_after THEN 1 ELSE r.count + 1 END, last_at = excluded.last_at
RETURNING count
""")


async def count(
    conn: AsyncConnection, conversation_id: int, digest: bytes, *, fresh_after: datetime, now: datetime
) -> int:
    """Count a refusal; how often this call has been refused, anew if the last time was before ``fresh_after``."""
    parameters = {"conversation_id": conversation_id, "digest": digest, "fresh_after": fresh_after, "now": now}
    counted: int = (await conn.execute(_COUNT, parameters)).scalar_one()
    return counted
