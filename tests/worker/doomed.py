"""A worker process to be killed: ``python -m tests.worker.doomed DATABASE_URL``. It says so when a run has begun."""

import asyncio
import sys

from agentsched.runners.protocol import Assignment, Outcome
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, run_worker
from tests import people


class Endless:
    async def run(self, _: Assignment) -> Outcome:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
        raise AssertionError("an event that nobody sets was set")


async def work(database_url: str) -> None:
    db = Database(database_url)
    await run_worker(
        Settings(database_url=database_url),
        db,
        runners={people.HARNESS: Endless},
        redis=None,
        waker=ProcessWaker(db),
        stop=asyncio.Event(),
        name="doomed",
    )


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
