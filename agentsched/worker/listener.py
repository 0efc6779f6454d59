"""Hear wake-ups and requests to stop over LISTEN; where that does not work, sweep and heartbeat find them later."""

import asyncio
from collections.abc import Callable

import structlog
from sqlalchemy import text

from agentsched.store.database import Database
from agentsched.store.runs import STOP_CHANNEL
from agentsched.worker.waiting import set_within
from agentsched.worker.waker import CHANNEL, ProcessWaker

log = structlog.get_logger()

CHECK_SECONDS = 30.0
"""How often a quiet connection is asked whether it is still one."""

ANSWER_SECONDS = 10.0


class Listener:
    """LISTENs on a connection of its own and wakes this process.

    ``on_stop`` gets the id of each task that was asked to stop, whoever runs it; None means that some may have been.
    """

    def __init__(self, db: Database, waker: ProcessWaker, on_stop: Callable[[int | None], None]) -> None:
        self._db = db.apart(pool_size=0)
        self._waker = waker
        self._on_stop = on_stop
        self.listening = asyncio.Event()
        """Set while wake-ups and requests to stop can be heard."""

    async def run_once(self) -> None:
        """Listen until the connection ends. Raises the database's error when it cannot be made or has gone."""
        gone = asyncio.Event()
        async with self._db.autocommit() as conn:
            driver = (await conn.get_raw_connection()).driver_connection
            if driver is None:
                raise ConnectionError("the connection to PostgreSQL has been closed")
            driver.add_termination_listener(lambda _: gone.set())
            await driver.add_listener(CHANNEL, lambda *_: self._waker.wake_local())
            await driver.add_listener(STOP_CHANNEL, lambda *said: self._on_stop(int(said[-1])))
            self.listening.set()
            try:
                # What was said before the connection was made has not been heard.
                self._waker.wake_local()
                self._on_stop(None)
                while not await set_within(gone, CHECK_SECONDS):
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await conn.execute(text("SELECT 1"))
            finally:
                self.listening.clear()
        raise ConnectionError("the connection that listens for wake-ups has gone")

    async def close(self) -> None:
        await self._db.close()
