"""Take the test's database away from everybody, and give it back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.store.database import Database


class Watched(Database):
    """Tells when a transaction could not be begun or ended."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.refused = asyncio.Event()

    @asynccontextmanager
    async def begin(self, *, lock_timeout_ms: int | None = None) -> AsyncIterator[AsyncConnection]:
        try:
            async with super().begin(lock_timeout_ms=lock_timeout_ms) as conn:
                yield conn
        except Exception:
            self.refused.set()
            raise


@asynccontextmanager
async def outage(database_url: str) -> AsyncIterator[None]:
    """PostgreSQL lets nobody into the database and throws out who is in."""
    url = make_url(database_url)
    maintenance = Database(url.set(database="postgres"), pool_size=0)
    async with maintenance.autocommit() as conn:
        await conn.execute(text(f'ALTER DATABASE "{url.database}" ALLOW_CONNECTIONS false'))
        try:
            await conn.execute(
                text("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = :name"),
                {"name": url.database},
            )
            yield
        finally:
            await conn.execute(text(f'ALTER DATABASE "{url.database}" ALLOW_CONNECTIONS true'))
            await maintenance.close()
