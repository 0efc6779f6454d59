"""Wait for what other sessions and processes do, without sleeping for a guessed time."""

import asyncio

from sqlalchemy import text

from agentsched.store.database import Database

_WAITERS = text("""
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
""")


async def waiting_for_a_lock(db: Database, sessions: int = 1, *, within_seconds: float = 30) -> None:
    """Return when this many other sessions wait for a lock. Raises TimeoutError if they do not."""
    async with asyncio.timeout(within_seconds), db.autocommit() as conn:
        while (await conn.execute(_WAITERS)).scalar_one() < sessions:  # noqa: ASYNC110 — PostgreSQL signals no such thing
            await asyncio.sleep(0)
