"""Hear the other processes' wake-ups over LISTEN; where that does not work, the sweep finds the work a little later."""

import asyncio

import structlog
from sqlalchemy import text

from agentsched.store.database import Database
from agentsched.worker.waker import CHANNEL, ProcessWaker

log = structlog.get_logger()

CHECK_SECONDS = 30.0
"""How often a quiet connection is asked whether it is still one."""

ANSWER_SECONDS = 10.0


class Listener:
    """LISTENs on a connection of its own and wakes this process."""

    def __init__(self, db: Database, waker: ProcessWaker) -> None:
        self._db = db.apart(pool_size=0)
        self._waker = waker
        self.listening = asyncio.Event()
        """Set while wake-ups can be heard."""

    async def run_once(self) -> None:
        """Listen until the connection ends. Raises the database's error when it cannot be made or has gone."""
        gone = asyncio.Event()
        async with self._db.autocommit() as conn:
            driver = (await conn.get_raw_connection()).driver_connection
            if driver is None:
                raise ConnectionError("the connection to PostgreSQL has been closed")
            driver.add_termination_listener(lambda _: gone.set())
            await driver.add_listener(CHANNEL, lambda *_: self._waker.wake_local())
            self.listening.set()
            try:
                # What was said before the connection was made has not been heard.
                self._waker.wake_local()
                while not await _set_within(gone, CHECK_SECONDS):
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await conn.execute(text("SELECT 1"))
            finally:
                self.listening.clear()
        raise ConnectionError("the connection that listens for wake-ups has gone")

    async def close(self) -> None:
        await self._db.close()


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
