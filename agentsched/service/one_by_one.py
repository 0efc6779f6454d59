"""Do something to rows one at a time, each in a transaction of its own, so that none of them stops the others."""

from collections.abc import Awaitable, Callable

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.settings import Settings
from agentsched.store.availability import is_away
from agentsched.store.database import Database

log = structlog.get_logger()

LOCK_TIMEOUT_MS = 2000
"""A row that is locked for longer is left to the next pass (DESIGN §6)."""


async def alone(
    db: Database, settings: Settings, do: Callable[[AsyncConnection, Settings, int], Awaitable[int]], row_id: int
) -> int:
    """How many rows ``do`` has moved; 0 where it failed, which is logged and tried again in the next pass.

    Raises the database's error when it is away.
    """
    try:
        async with db.begin(lock_timeout_ms=LOCK_TIMEOUT_MS) as conn:
            return await do(conn, settings, row_id)
    except Exception as error:
        if is_away(error):
            raise
        log.warning("row.left", doing=do.__name__, id=row_id, error=repr(error))
        return 0
