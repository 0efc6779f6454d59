"""The connection to PostgreSQL: one engine a process, one transaction a ``begin``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

CONNECT_SECONDS = 10

SESSION = (
    "SET enable_seqscan = off",
    "SET jit = off",
    "SET idle_in_transaction_session_timeout = '300s'",
)
"""Every statement here goes by an index. On a young database the planner would choose sequential scans, and the
plans that sessions keep, those of foreign key checks among them, would stay with them while the tables grow.
A process that is frozen or cut off in the middle of a transaction loses its locks in the end."""


LOCK_NOT_AVAILABLE = "55P03"
"""The SQLSTATE of a wait for a lock that took too long."""


class Database:
    """A pool of connections to one database.

    ``url`` is any ``postgresql://`` URL; the driver is asyncpg whatever it names. ``pool_size`` 0 keeps no connections.
    """

    def __init__(self, url: str | URL, *, pool_size: int = 10) -> None:
        self.url = make_url(url).set(drivername="postgresql+asyncpg")
        arguments = {
            "timeout": CONNECT_SECONDS,
            "server_settings": {"timezone": "UTC", "application_name": "agentsched"},
        }
        if pool_size == 0:
            self.engine: AsyncEngine = create_async_engine(
                self.url, poolclass=NullPool, hide_parameters=True, connect_args=arguments
            )
        else:
            self.engine = create_async_engine(
                self.url,
                pool_size=pool_size,
                max_overflow=pool_size,
                pool_pre_ping=True,
                hide_parameters=True,
                connect_args=arguments,
            )
        event.listen(self.engine.sync_engine, "connect", _set_planner)

    def apart(self, *, pool_size: int = 1) -> "Database":
        """The same database over connections of their own, which a busy pool cannot keep from anybody."""
        return Database(self.url, pool_size=pool_size)

    @asynccontextmanager
    async def begin(self, *, lock_timeout_ms: int | None = None) -> AsyncIterator[AsyncConnection]:
        """A transaction: committed at the end, rolled back on any exception.

        ``lock_timeout_ms`` bounds each wait for a lock (SQLSTATE 55P03 afterwards).
        """
        async with self.engine.begin() as conn:
            if lock_timeout_ms is not None:
                await conn.execute(text("SELECT set_config('lock_timeout', :ms, true)"), {"ms": f"{lock_timeout_ms}ms"})
            yield conn

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which every statement is its own transaction."""
        async with self.engine.connect() as conn:
            yield await conn.execution_options(isolation_level="AUTOCOMMIT")

    async def close(self) -> None:
        await self.engine.dispose()


def _set_planner(connection: DBAPIConnection, _: object) -> None:
    cursor = connection.cursor()
    for setting in SESSION:
        cursor.execute(setting)
    cursor.close()
    connection.commit()


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of a database error, None for any other error."""
    original = getattr(error, "orig", error)
    state = getattr(original, "sqlstate", None) or getattr(original.__cause__, "sqlstate", None)
    return state if isinstance(state, str) else None
