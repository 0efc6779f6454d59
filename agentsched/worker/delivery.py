"""Bring the end of an attempt to the service, for as long as the task is this worker's (DESIGN §5, §9)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from agentsched.core.attempt import End
from agentsched.service import finish
from agentsched.service.claim import Claimed
from agentsched.service.finish import StaleFence
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database, sqlstate
from agentsched.worker.heartbeat import Heartbeat
from agentsched.worker.supervise import backoff

log = structlog.get_logger()

T = TypeVar("T")

NOT_STORABLE = ("22", "23", "54")
"""SQLSTATE classes that mean what is reported, not the database: data, integrity, limits."""


class LeaseGone(Exception):  # noqa: N818 — says what has happened
    """The database was away until the lease ended; the task is the reaper's now."""


async def while_leased(heartbeat: Heartbeat, do: Callable[[], Awaitable[T]]) -> T:
    """Do something with the database, again and again while it is away. Raises LeaseGone once the lease has ended.

    StaleFence and what would fail again are raised at once.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        try:
            return await do()
        except Exception as error:
            if isinstance(error, StaleFence) or fails_again(error):
                raise
            failures += 1
            pause = backoff(failures, first=0.1, most=2)
            log.warning("database.away", error=repr(error), failures=failures)
            if loop.time() + pause >= heartbeat.lease_until:
                raise LeaseGone from error
        await asyncio.sleep(pause)


async def report(db: Database, settings: Settings, heartbeat: Heartbeat, claimed: Claimed, ending: Report) -> None:
    """Report the end of an attempt. Raises StaleFence or LeaseGone when nothing was written.

    A turn that the database refuses to store ends as failed.
    """

    async def send() -> None:
        await finish.report(db, settings, task_id=claimed.id, fence=claimed.fence, report=ending)

    try:
        await while_leased(heartbeat, send)
    except Exception as error:
        if not fails_again(error) or ending.end is not End.COMPLETED:
            raise
        log.warning("report.not_storable", task_id=claimed.id, error=repr(error))
        refused = f"The turn could not be stored: {type(error).__name__}."
        await report(
            db,
            settings,
            heartbeat,
            claimed,
            Report(End.FAILED, error_code="runner_error", error=refused, retryable=True),
        )


async def release(db: Database, settings: Settings, heartbeat: Heartbeat, claimed: Claimed) -> None:
    """Hand the task back. Raises StaleFence or LeaseGone when nothing was written."""
    await while_leased(heartbeat, lambda: finish.release(db, settings, task_id=claimed.id, fence=claimed.fence))


def fails_again(error: Exception) -> bool:
    """Whether the same would fail in the same way on a healthy database."""
    state = sqlstate(error)
    if state is not None:
        return state.startswith(NOT_STORABLE)
    return isinstance(error, TypeError | ValueError | RecursionError)
