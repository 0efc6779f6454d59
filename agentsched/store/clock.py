"""The one clock: the database's (DESIGN §3)."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_NOW = text("SELECT clock_now()")


async def now(conn: AsyncConnection) -> datetime:
    """The time by the one clock, aware UTC. A transaction takes it once, after its locks."""
    instant: datetime = (await conn.execute(_NOW)).scalar_one()
    return instant
