"""Real worker processes that say which run they have begun, and complete it when they are told to."""

import asyncio
import signal
from multiprocessing.connection import Connection

from agentsched.runners.protocol import Assignment, Outcome
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, run_worker
from tests import people
from tests.chaos import processes
from tests.worker.actors import said


class WorkerProcess:
    """A worker with a slot for one task, as its test holds it."""

    def __init__(self, database_url: str, name: str) -> None:
        self._pipe, theirs = processes.context.Pipe()
        self._process = processes.start(work, database_url, name, theirs)
        theirs.close()

    async def begun(self) -> int:
        """The id of the next run that it begins."""
        assert await asyncio.to_thread(self._pipe.poll, 60), "the worker began nothing"
        run_id: int = self._pipe.recv()
        return run_id

    def complete(self) -> None:
        """Let it complete the run that it has begun."""
        self._pipe.send("go")

    async def stop(self) -> None:
        """It finishes what it has begun, and takes nothing more."""
        self._process.terminate()
        assert await processes.ended([self._process]) == [0]

    def begin_to_stop(self) -> None:
        """What it has begun goes on."""
        self._process.terminate()

    async def kill(self) -> None:
        self._process.kill()
        assert await processes.ended([self._process]) == [-signal.SIGKILL]

    def clear_away(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


class Told:
    """The runner at the other end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._told = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), self._hear)

    def _hear(self) -> None:
        self._pipe.recv()
        self._told.set()

    async def run(self, assignment: Assignment) -> Outcome:
        self._pipe.send(assignment.run_id)
        await self._told.wait()
        self._told.clear()
        return said("done")


async def work(database_url: str, name: str, pipe: Connection) -> None:
    """What the process does, until SIGTERM."""
    db = Database(database_url)
    waker = ProcessWaker(db)
    runner = Told(pipe)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await run_worker(
        Settings(database_url=database_url, concurrency=1, sweep_seconds=1),
        db,
        runners={people.HARNESS: lambda: runner},
        redis=None,
        waker=waker,
        stop=stop,
        name=name,
    )
    await waker.close()
    await db.close()
