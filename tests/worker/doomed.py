"""A worker process: ``python -m tests.worker.doomed DATABASE_URL``. It says so when a run has begun.

No run of it ever ends, not even by cancellation. It stops at SIGTERM.
"""

import asyncio
import signal
import sys

from agentsched.runners.protocol import Assignment, Outcome
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, run_worker
from tests import people
from tests.worker.actors import Stubborn


class Endless(Stubborn):
    async def run(self, assignment: Assignment) -> Outcome:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        return await super().run(assignment)


async def work(database_url: str) -> None:
    db = Database(database_url)
    waker = ProcessWaker(db)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_worker(
        Settings(database_url=database_url, shutdown_seconds=1),
        db,
        runners={people.HARNESS: Endless},
        redis=None,
        waker=waker,
        stop=stop,
        name="doomed",
    )
    await waker.close()
    await db.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
