"""Wait for what other sessions and processes do, without sleeping for a guessed time."""

import asyncio
from collections.abc import Awaitable, Callable

from sqlalchemy import text

from agentsched.store.database import Database

PAUSE_SECONDS = 0.05
"""Between two looks at what others do; they need the processor more."""

_WAITERS = text("""
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
""")


async def waiting_for_a_lock(db: Database, sessions: int = 1, *, within_seconds: float = 30) -> None:
    """Return when this many other sessions wait for a lock. Raises TimeoutError if they do not."""
    async with asyncio.timeout(within_seconds), db.autocommit() as conn:
        while (await conn.execute(_WAITERS)).scalar_one() < sessions:  # noqa: ASYNC110 — PostgreSQL signals no such thing
            await asyncio.sleep(0)


async def until(holds: Callable[[], Awaitable[bool]], *, within_seconds: float = 30) -> None:
    """Return when something holds that other processes bring about. Raises TimeoutError if it does not."""
    async with asyncio.timeout(within_seconds):
        while not await holds():  # noqa: ASYNC110 — other processes signal nothing here
            await asyncio.sleep(PAUSE_SECONDS)
