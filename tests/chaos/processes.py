"""Real processes for tests that kill them, quickly started from a server that has imported everything already."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Barrier
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from agentsched.store.database import Database

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.chaos.actions", "tests.chaos.timed"])

Action = Callable[..., Coroutine[Any, Any, None]]


class Point:
    """Where a process kills itself: when it reaches its ``at``-th statement, COMMIT or the moment behind a COMMIT.

    Statements, the start of COMMIT and its end are counted through in one row, from 1; 0 is before BEGIN.
    """

    def __init__(self, engine: AsyncEngine, at: int) -> None:
        self._at = at
        self.reached = 0
        sync = engine.sync_engine
        event.listen(sync, "after_cursor_execute", self._pass)
        event.listen(sync, "commit", self._pass)
        event.listen(sync.pool, "reset", self._pass)
        if at == 0:
            die()

    def _pass(self, *_: object) -> None:
        self.reached += 1
        if self.reached == self._at:
            die()


def die() -> None:
    """As the kernel's out-of-memory killer would have it."""
    os.kill(os.getpid(), signal.SIGKILL)


def start(action: Action, *arguments: object) -> ForkServerProcess:
    """Run a coroutine function of ``tests.chaos.actions`` in a process of its own."""
    process = context.Process(target=_run, args=(action, arguments), daemon=True)
    process.start()
    return process


def barrier(parties: int) -> Barrier:
    return context.Barrier(parties)


async def ended(processes: Sequence[ForkServerProcess], *, within_seconds: float = 120) -> list[int]:
    """Wait for the ends of processes; their exit codes, negative for a signal."""
    for process in processes:
        await asyncio.to_thread(process.join, within_seconds)
        assert process.exitcode is not None, "a process did not end in time"
    return [process.exitcode for process in processes if process.exitcode is not None]


def _run(action: Action, arguments: Sequence[object]) -> None:
    asyncio.run(action(*arguments))


async def with_point(db: Database, at: int, work: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """Do ``work`` with a kill at a point; how many points there were, for a process that survived."""
    async with db.begin():
        pass  # the connection is there, with its settings made, before anything counts
    point = Point(db.engine, at)
    await work()
    return point.reached
