"""Every few minutes: delete what is no longer kept (DESIGN §11, §12)."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.settings import Settings
from agentsched.store import clock, prune
from agentsched.store.database import Database

log = structlog.get_logger()

PRUNE_SECONDS = 600

KEYS_DAYS = 7
EVENTS_DAYS = 7
WORKERS_DAYS = 1
REFUSED_CALLS_DAYS = 1


class Pruner:
    """Deletes in short transactions. Any number of processes may do it at once."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings

    async def run_once(self) -> dict[str, int]:
        """Delete all that is no longer kept; how many rows of what, tasks and provisional entries aside.

        Raises the database's error when it is away; what was committed before stays.
        """
        async with self._db.begin() as conn:
            now = await clock.now(conn)
        retained = now - timedelta(days=self._settings.run_retention_days)
        deleted = {
            "runs": await self._walk(lambda conn, after: prune.runs(conn, retained, after)),
            "backfills": await self._repeat(prune.backfills, retained),
            "deliveries": await self._repeat(prune.deliveries, now),
            "idempotency_keys": await self._repeat(prune.idempotency_keys, now - timedelta(days=KEYS_DAYS)),
            "ticks": await self._repeat(prune.ticks, retained),
            "outages": await self._repeat(prune.outages, retained),
            "refused_calls": await self._repeat(prune.refused_calls, now - timedelta(days=REFUSED_CALLS_DAYS)),
            "notes": await self._walk(prune.notes),
            "events": await self._repeat(prune.events, now - timedelta(days=EVENTS_DAYS)),
            "workers": await self._repeat(prune.workers, now - timedelta(days=WORKERS_DAYS)),
        }
        deleted = {what: count for what, count in deleted.items() if count}
        if deleted:
            log.info("pruned", **deleted)
        return deleted

    async def _repeat(self, delete: Callable[[AsyncConnection, datetime], Awaitable[int]], before: datetime) -> int:
        total = 0
        while True:
            async with self._db.begin() as conn:
                deleted = await delete(conn, before)
            total += deleted
            if deleted < prune.ROWS:
                return total

    async def _walk(self, delete: Callable[[AsyncConnection, int], Awaitable[prune.Batch]]) -> int:
        total = 0
        after: int | None = 0
        while after is not None:
            async with self._db.begin() as conn:
                after, deleted = await delete(conn, after)
            total += deleted
        return total
