"""The history of a schedule: who changed what, and when."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection


class ChangeRow(NamedTuple):
    """One change. ``version`` is the one that it left, ``changes`` what was asked for."""

    id: int
    schedule_id: int
    version: int
    action: str
    actor: str
    changes: dict[str, Any]
    created_at: datetime


_RECORD = text("""
INSERT INTO schedule_changes (schedule_id, version, action, actor, changes, created_at)
VALUES (:schedule_id, :version, :action, :actor, CAST(:changes AS jsonb), :now)
""")

_LIST = text("""
SELECT id, schedule_id, version, action, actor, changes, created_at FROM schedule_changes
WHERE schedule_id = :schedule_id AND id > :after ORDER BY id LIMIT :limit
""").columns(changes=JSONB)


async def record(
    conn: AsyncConnection,
    schedule_id: int,
    version: int,
    *,
    action: str,
    actor: str,
    changes: str,
    now: datetime,
) -> None:
    """Add to the schedule's history; ``changes`` is JSON."""
    parameters = {
        "schedule_id": schedule_id,
        "version": version,
        "action": action,
        "actor": actor,
        "changes": changes,
        "now": now,
    }
    await conn.execute(_RECORD, parameters)


async def list_page(conn: AsyncConnection, schedule_id: int, *, after: int, limit: int) -> list[ChangeRow]:
    """Changes of a schedule, oldest first, ids greater than ``after``."""
    parameters = {"schedule_id": schedule_id, "after": after, "limit": limit}
    return [ChangeRow(*row) for row in await conn.execute(_LIST, parameters)]
