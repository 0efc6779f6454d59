"""A model that repeats a call which was refused is stopped (DESIGN §10)."""

from datetime import timedelta

from agentsched.store import clock, refused_calls
from agentsched.store.database import Database

REMEMBERED = timedelta(hours=1)
"""A model in a loop repeats itself sooner, and later the same call may have become possible."""


async def count(db: Database, conversation_id: int, digest: bytes) -> int:
    """Count a refused call, ``digest`` of tool and arguments; how often it has been refused lately, with this time."""
    async with db.begin() as conn:
        now = await clock.now(conn)
        return await refused_calls.count(conn, conversation_id, digest, fresh_after=now - REMEMBERED, now=now)
