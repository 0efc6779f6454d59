"""Fire everything that is due: batch after batch, errors of single rows isolated (DESIGN §6)."""

import asyncio

import structlog
from sqlalchemy.exc import DBAPIError

from agentsched.service.fire_batch import FireCounts, Overspent, fire_locked, record_poison
from agentsched.settings import Settings
from agentsched.store import due
from agentsched.store.database import LOCK_NOT_AVAILABLE, Database, sqlstate

log = structlog.get_logger()

LOCK_TIMEOUT_MS = 2000
ERRORS_OF_A_ROW = ("22", "23")
"""SQLSTATE classes that one row causes: data exceptions and integrity violations. All others stop the batch."""

LOCKED_A_PASS = 100


async def fire_due(db: Database, settings: Settings) -> FireCounts:
    """Fire all due schedules: in batches without waiting, then the ones that were locked, one at a time.

    ``fire_connections`` batches at once, so that one is decided while another is written. Raises the database's
    error when it is none of a single row's; what was committed before it stays.
    """
    total = FireCounts()
    passes = [_fire_batches(db, settings) for _ in range(settings.fire_connections)]
    for counts in await asyncio.gather(*passes, return_exceptions=True):
        if isinstance(counts, BaseException):
            raise counts
        total.add(counts)
    after = 0
    while locked := await _find_locked(db, after):
        for schedule_id in locked:
            total.add(await fire_one(db, settings, schedule_id))
        after = locked[-1]
    return total


async def fire_one(db: Database, settings: Settings, schedule_id: int) -> FireCounts:
    """Fire one schedule if it is due; one that is locked for longer than 2 s is left for the next tick.

    An error of the row pauses the schedule with reason ``error`` and records its slot as failed.
    """
    while True:
        try:
            async with db.begin(lock_timeout_ms=LOCK_TIMEOUT_MS) as conn:
                if not await due.lock_one_due(conn, schedule_id):
                    return FireCounts()
                return await fire_locked(conn, settings, [schedule_id])
        except Overspent:
            continue
        except DBAPIError as error:
            if sqlstate(error) == LOCK_NOT_AVAILABLE:
                log.info("fire.locked", schedule_id=schedule_id)
                return FireCounts()
            if not _is_of_a_row(error):
                raise
            reason = str(error.orig)
        async with db.begin(lock_timeout_ms=LOCK_TIMEOUT_MS) as conn:
            if not await due.lock_one_due(conn, schedule_id):
                return FireCounts()
            return await record_poison(conn, schedule_id, reason)


async def _fire_batches(db: Database, settings: Settings) -> FireCounts:
    total = FireCounts()
    while (counts := await _fire_batch(db, settings)) is not None:
        total.add(counts)
    return total


async def _find_locked(db: Database, after: int) -> list[int]:
    async with db.begin() as conn:
        return await due.find_due(conn, after, LOCKED_A_PASS)


async def _fire_batch(db: Database, settings: Settings) -> FireCounts | None:
    """One batch in one transaction; None when nothing is due that nobody else holds."""
    ids: list[int] = []
    try:
        async with db.begin() as conn:
            ids = await due.lock_due(conn, settings.fire_batch)
            if not ids:
                return None
            return await fire_locked(conn, settings, ids)
    except Overspent:
        return FireCounts()
    except DBAPIError as error:
        if not _is_of_a_row(error):
            raise
    log.warning("fire.batch_retried_by_row", schedules=len(ids))
    counts = FireCounts()
    for schedule_id in ids:
        counts.add(await fire_one(db, settings, schedule_id))
    return counts


def _is_of_a_row(error: DBAPIError) -> bool:
    return (sqlstate(error) or "").startswith(ERRORS_OF_A_ROW)
