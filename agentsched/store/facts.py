"""What the service remembers between starts."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_READ = text("SELECT value FROM service_facts WHERE name = :name")

_WRITE = text("""
INSERT INTO service_facts (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
""")


async def read(conn: AsyncConnection, name: str) -> str | None:
    """The value of a fact; None if it was never written."""
    return (await conn.execute(_READ, {"name": name})).scalar_one_or_none()


async def write(conn: AsyncConnection, name: str, value: str) -> None:
    """Write a fact, over an older value."""
    await conn.execute(_WRITE, {"name": name, "value": value})
