"""Say that a worker is alive, and hear whether it may go on (DESIGN §9)."""

import asyncio
from collections.abc import Callable

import structlog

from agentsched.service import finish
from agentsched.service.claim import Claimed
from agentsched.service.finish import StaleFence
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.waiting import set_within

log = structlog.get_logger()

AGAIN_SECONDS = 1.0
"""After a heartbeat that did not get through."""


class Heartbeat:
    """The lease of one claimed task. ``db`` are connections that the executor's other work cannot use up.

    ``claimed_at`` is when the claim was asked for, by the event loop's clock, as ``lease_until`` is.
    """

    def __init__(
        self,
        db: Database,
        settings: Settings,
        claimed: Claimed,
        *,
        claimed_at: float,
        on_stop: Callable[[], None],
        on_stale: Callable[[], None],
    ) -> None:
        self._db = db
        self._settings = settings
        self._claimed = claimed
        self._on_stop = on_stop
        self._on_stale = on_stale
        self._due = asyncio.Event()
        self.lease_until = claimed_at + settings.lease_seconds

    def beat_now(self) -> None:
        """Do not wait for the next beat's time: there may be something to hear."""
        self._due.set()

    async def run(self) -> None:
        """Beat until the task is somebody else's, or until cancelled. A database that is away is tried again soon."""
        pause = float(self._settings.heartbeat_seconds)
        while True:
            await set_within(self._due, pause)
            self._due.clear()
            try:
                async with asyncio.timeout(self._settings.heartbeat_seconds):
                    if not await self.run_once():
                        return
                pause = float(self._settings.heartbeat_seconds)
            except Exception as error:
                log.warning("heartbeat.failed", task_id=self._claimed.id, error=repr(error))
                pause = min(AGAIN_SECONDS, pause)

    async def run_once(self) -> bool:
        """One heartbeat; False when the task is somebody else's. Raises the database's error when it is away."""
        asked_at = asyncio.get_running_loop().time()
        try:
            beat = await finish.heartbeat(self._db, self._settings, task_id=self._claimed.id, fence=self._claimed.fence)
        except StaleFence:
            self._on_stale()
            return False
        self.lease_until = asked_at + self._settings.lease_seconds
        if beat.cancel_requested:
            self._on_stop()
        return True
