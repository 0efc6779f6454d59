"""A worker process whose runs end by being asked to stop, and by nothing else; it says when they begin and are stopped.

Its heartbeats are as far apart as the test wants, and its sweep never comes.
"""

import asyncio
import signal
from multiprocessing.connection import Connection

from agentsched.runners.protocol import Assignment, Outcome
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, run_worker
from tests import people


class Waiting:
    """Waits for ever."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    async def run(self, _: Assignment) -> Outcome:
        self._pipe.send("begun")
        try:
            await asyncio.Event().wait()
        finally:
            self._pipe.send("stopped")
        raise AssertionError("an event that nobody has is not set")


async def work(database_url: str, heartbeat_seconds: int, lease_seconds: int, pipe: Connection) -> None:
    """What the process does, until SIGTERM."""
    db = Database(database_url)
    waker = ProcessWaker(db)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings(
        database_url=database_url,
        heartbeat_seconds=heartbeat_seconds,
        lease_seconds=lease_seconds,
        sweep_seconds=3600,
    )
    await run_worker(
        settings,
        db,
        runners={people.HARNESS: lambda: Waiting(pipe)},
        redis=None,
        waker=waker,
        stop=stop,
        name="elsewhere",
    )
    await waker.close()
    await db.close()
