"""Move the next fire of schedules whose occurrences have moved under them."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_FIND_FUTURE = text("""
SELECT id FROM schedules
WHERE status = 'active' AND kind IN ('cron', 'interval') AND next_fire_at > (SELECT clock_now()) AND id > :after
ORDER BY id LIMIT :limit
""")

_MOVE = text("""
UPDATE schedules SET next_fire_at = :next_fire_at, updated_at = :now
WHERE id = :id AND status = 'active' AND next_fire_at = :expected
""")


async def find_future(conn: AsyncConnection, after: int, limit: int) -> list[int]:
    """Ids, greater than ``after``, of active cron and interval schedules that are not due, without locks."""
    return list((await conn.execute(_FIND_FUTURE, {"after": after, "limit": limit})).scalars())


async def move(
    conn: AsyncConnection, schedule_id: int, *, expected: datetime, next_fire_at: datetime, now: datetime
) -> None:
    """Set the next fire of a locked active schedule, if it is still at ``expected``. The version stays."""
    parameters = {"id": schedule_id, "expected": expected, "next_fire_at": next_fire_at, "now": now}
    await conn.execute(_MOVE, parameters)
