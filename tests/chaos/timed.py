"""Worker processes whose runs take their time by the one clock and end as was agreed, however quick the machine is."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import structlog
from sqlalchemy import text

from agentsched.runners.protocol import Assignment, Outcome, RunnerError
from agentsched.settings import Settings
from agentsched.store import clock
from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, run_worker
from agentsched.worker.sweep import Sweep
from tests import people
from tests.worker.actors import said

CHANNEL = "test_time"
"""Where the test says what time it is."""

END_SECOND = 50
"""Runs end at this second of a minute, when no fire is due that could come before or after it."""

_OCCURRENCE = text("""
SELECT s.name, r.fire_at FROM runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.id = :run_id
""")


class Turn(NamedTuple):
    """What one attempt does. It is over in this minute after ``fire_at``; None: at once."""

    minutes: int | None
    fails: bool = False
    stubborn: bool = False
    """It does not stop when it is asked to."""

    def is_over(self, fire_at: datetime, now: datetime) -> bool:
        if self.minutes is None:
            return True
        return now >= fire_at + timedelta(minutes=self.minutes) and now.second == END_SECOND


def turn_of(name: str, fire_at: datetime, attempt: int) -> Turn:
    """What was agreed for a schedule of this name."""
    match name:
        case "all" | "latest" | "once" | "hook":
            return Turn(None)
        case "failing":
            return Turn(None, fails=True)
        case "retried":
            return Turn(0, fails=attempt < 3)
        case "stubborn":
            return Turn(60, stubborn=True)
        case "lost" | "lost late" | "lost retried":
            return Turn(3 if fire_at.minute == 1 else 0)
        case "queue" | "queue two" | "cancelled" if fire_at.minute == 4:
            return Turn(4)
        case _:
            return Turn(1 + fire_at.minute % 2)


class Hours:
    """What time it is, as the test has said last."""

    def __init__(self) -> None:
        self._now: datetime | None = None
        self._moved = asyncio.Event()
        self.news = asyncio.Event()

    def hear(self, now: datetime) -> None:
        self._now = now
        self.news.set()
        self._moved.set()
        self._moved = asyncio.Event()

    async def until(self, over: Callable[[datetime], bool]) -> None:
        while self._now is None or not over(self._now):
            await self._moved.wait()


class Timed:
    """A runner that does what was agreed."""

    def __init__(self, db: Database, hours: Hours) -> None:
        self._db = db
        self._hours = hours

    async def run(self, assignment: Assignment) -> Outcome:
        # A query that is cancelled half-way costs its connection.
        name, fire_at = await asyncio.shield(self._occurrence(assignment.run_id))
        turn = turn_of(name, fire_at, assignment.attempt)
        waiting = partial(self._hours.until, partial(turn.is_over, fire_at))
        if turn.stubborn:
            await _in_spite_of_cancellation(waiting)
        else:
            await waiting()
        if turn.fails:
            raise RunnerError("agreed", "It was to fail.", retryable=True)
        return said("done")

    async def _occurrence(self, run_id: int | None) -> tuple[str, datetime]:
        async with self._db.begin() as conn:
            row = (await conn.execute(_OCCURRENCE, {"run_id": run_id})).one()
        return row.name, row.fire_at


async def _in_spite_of_cancellation(waiting: Callable[[], Awaitable[None]]) -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await waiting()
            return


async def sweep_at_once(sweep: Sweep, hours: Hours) -> None:
    """A second is long for somebody who waits for sweeps; and like this all processes sweep together."""
    while True:
        await hours.news.wait()
        hours.news.clear()
        await sweep.run_once()


async def work(url: str, name: str, lease_seconds: int) -> None:
    """What a worker process does, until it is killed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    db = Database(url)
    hours = Hours()
    waker = ProcessWaker(db)
    settings = Settings(
        database_url=url,
        concurrency=100,
        lease_seconds=lease_seconds,
        heartbeat_seconds=lease_seconds // 90,
        sweep_seconds=1,
    )
    async with db.apart(pool_size=0).autocommit() as ears, asyncio.TaskGroup() as group:
        driver: Any = (await ears.get_raw_connection()).driver_connection
        await driver.add_listener(CHANNEL, lambda *said: hours.hear(datetime.fromisoformat(said[-1])))
        hours.hear(await clock.now(ears))
        group.create_task(sweep_at_once(Sweep(db, settings, waker), hours))
        await run_worker(
            settings,
            db,
            runners={people.HARNESS: lambda: Timed(db, hours)},
            redis=None,
            waker=waker,
            stop=asyncio.Event(),
            name=name,
        )
