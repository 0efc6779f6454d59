"""Who has asked for work lately."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

HEARD_EVERY_SECONDS = 10
"""A worker's row is written at most this often, because claims are many."""

PRESENT_SECONDS = 60
"""A worker that has not been heard for longer serves nobody."""

_HEAR = text(f"""
INSERT INTO workers (name, harnesses, heard_at) VALUES (:name, CAST(:harnesses AS text[]), clock_now())
ON CONFLICT (name) DO UPDATE SET harnesses = excluded.harnesses, heard_at = excluded.heard_at
WHERE workers.heard_at < excluded.heard_at - interval '{HEARD_EVERY_SECONDS} seconds'
   OR workers.heard_at > excluded.heard_at OR workers.harnesses <> excluded.harnesses
""")

_PRESENT = text(f"""
SELECT name, harnesses FROM workers
WHERE heard_at > clock_now() - interval '{PRESENT_SECONDS} seconds' ORDER BY name
""")


class Worker(NamedTuple):
    name: str
    harnesses: list[str]


async def hear(conn: AsyncConnection, name: str, harnesses: Sequence[str]) -> None:
    """Note that a worker is there, and for which harnesses."""
    await conn.execute(_HEAR, {"name": name, "harnesses": sorted(harnesses)})


async def present(conn: AsyncConnection) -> list[Worker]:
    """The workers that were heard within the last minute."""
    return [Worker(*row) for row in await conn.execute(_PRESENT)]
