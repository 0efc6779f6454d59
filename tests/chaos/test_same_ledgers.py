"""One, two and four worker processes give the same ledgers (issue 3)."""

import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from agentsched.core.words import Misfire
from agentsched.service import hooks, lifecycle
from agentsched.service.caller import Caller
from agentsched.service.hooks import Delivery
from agentsched.service.requests import SchedulePatch
from agentsched.service.update import update
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.chaos import processes, timed
from tests.chaos.timed import turn_of
from tests.clock import at
from tests.waiting import until

pytestmark = pytest.mark.anyio

MIDNIGHT = at("2026-05-01T00:00:00Z")
LONGEST_STEP = timedelta(minutes=1)
"""A worker that lives has a lease for longer than the clock may go on at once, the outage aside."""

TICK_SECOND = 10
"""From this second of a minute on every sweep does the minute's tick, if nobody has."""

LEDGER = """
SELECT s.name, to_char(r.fire_at, 'HH24:MI') AS fire, r.trigger, r.status, r.reason, r.attempt, r.restarts,
       r.missed_count
FROM runs r JOIN schedules s ON s.id = r.schedule_id ORDER BY s.name, r.fire_at, r.trigger, r.status, r.attempt
"""
SCHEDULES = """
SELECT name, status, pause_reason, version, next_fire_at, accounted_until, runs_admitted, consecutive_failures
FROM schedules ORDER BY name
"""
DUE = "SELECT count(*) FROM schedules WHERE status = 'active' AND next_fire_at <= clock_now()"
STATES = "SELECT status, count(*) FROM runs GROUP BY status ORDER BY status"
LAST_TICK = "SELECT max(minute) FROM ticks"
BUSY = "SELECT DISTINCT worker FROM tasks WHERE status = 'running'"
LIVE = """
SELECT s.name, r.fire_at, r.attempt, r.status, r.retry_at, t.cancel_deadline_at, t.lease_expires_at, t.worker,
       r.cancel_requested_at IS NOT NULL AS asked, c.active_task_id IS NULL AS idle
FROM runs r JOIN schedules s ON s.id = r.schedule_id
LEFT JOIN tasks t ON t.run_id = r.id AND t.status IN ('pending', 'running')
LEFT JOIN conversations c ON c.id = t.conversation_id
WHERE r.status IN ('pending', 'running', 'retry_wait')
"""


class World:
    """A database with schedules of one person, a frozen clock, and worker processes."""

    def __init__(self, url: str, lease_seconds: int) -> None:
        self.url = url
        self.db = Database(url, pool_size=2)
        self.settings = Settings(database_url=url, minimum_interval_minutes=1, schedules_per_conversation=50)
        self.now = MIDNIGHT
        self.workers: dict[str, ForkServerProcess] = {}
        self._numbers = itertools.count(1)
        self._lease_seconds = lease_seconds
        self.ada: Caller
        self.conversation_id = 0
        self.ids: dict[str, int] = {}
        self.hook = ""

    async def begin(self, schedules: dict[str, dict[str, object]]) -> None:
        await self._set_clock(MIDNIGHT + timedelta(seconds=30))
        self.ada = await people.somebody(self.db)
        self.conversation_id = await people.conversation(self.db, self.settings, self.ada)
        for name, fields in schedules.items():
            given = {"cron": "* * * * *", **fields} if not {"at", "webhook"} & fields.keys() else fields
            if "webhook" in given:
                row, self.hook = await people.webhook(
                    self.db, self.settings, self.ada, self.conversation_id, name=name, **given
                )
            else:
                row = await people.schedule(self.db, self.settings, self.ada, self.conversation_id, name=name, **given)
            self.ids[name] = row.id

    def employ(self, workers: int) -> None:
        for _ in range(workers):
            name = f"w{next(self._numbers)}"
            self.workers[name] = processes.start(timed.work, self.url, name, self._lease_seconds)

    async def kill_the_busy(self) -> int:
        """SIGKILL for every worker that has a task; how many."""
        busy = [self.workers.pop(worker) for [worker] in await self.rows(BUSY)]
        for worker in busy:
            worker.kill()
        assert set(await processes.ended(busy)) == {-signal.SIGKILL}
        return len(busy)

    async def at(self, minute: int, second: int) -> None:
        """Go on to this time, and wait until everything has happened that can happen by then."""
        await self._set_clock(MIDNIGHT + timedelta(minutes=minute, seconds=second))
        await self.settle()

    async def settle(self) -> None:
        left: list[str] = []

        async def settled() -> bool:
            assert all(worker.is_alive() for worker in self.workers.values()), "a worker has ended"
            left[:] = await self._left_to_do()
            return not left

        try:
            await until(settled, within_seconds=120)
        except TimeoutError:
            raise AssertionError(f"at {self.now:%H:%M:%S} nobody did what was to be done: {left}") from None

    async def _left_to_do(self) -> list[str]:
        if self.now.second == TICK_SECOND:
            [[due]], [[ticked]] = await self.rows(DUE), await self.rows(LAST_TICK)
            if due or ticked != self.now.replace(second=0):
                return [f"{due} due, last tick {ticked}"]
        return [f"{run.name} {run.fire_at:%H:%M} {run.status}" for run in await self.rows(LIVE) if self._moves(run)]

    def _moves(self, run: Any) -> bool:
        match run.status:
            case "pending":
                return bool(run.idle)
            case "retry_wait":
                return bool(run.retry_at <= self.now)
            case _:
                turn = turn_of(run.name, run.fire_at, run.attempt)
                stops = run.asked and (not turn.stubborn or run.cancel_deadline_at <= self.now)
                left = run.lease_expires_at - self.now
                beats = run.worker in self.workers and left <= LONGEST_STEP
                return bool(stops or beats or left <= timedelta(0) or turn.is_over(run.fire_at, self.now))

    async def _set_clock(self, now: datetime) -> None:
        self.now = now
        async with self.db.begin() as conn:
            await conn.execute(text("UPDATE clock SET frozen_at = :now"), {"now": now})
            await conn.execute(
                text("SELECT pg_notify(:channel, :now)"), {"channel": timed.CHANNEL, "now": now.isoformat()}
            )

    async def rows(self, statement: str) -> Sequence[Any]:
        async with self.db.begin() as conn:
            return (await conn.execute(text(statement))).all()

    async def close(self) -> None:
        for worker in self.workers.values():
            worker.kill()
        await processes.ended(list(self.workers.values()))
        await self.db.close()


MakeWorld = Callable[..., Any]


@pytest.fixture
async def world(server_url: URL, template: str) -> MakeWorld:
    """Worlds with databases of their own, which go with them."""

    @asynccontextmanager
    async def make(*, lease_seconds: int = 3600) -> AsyncIterator[World]:
        name = f"{template}_world"
        maintenance = Database(server_url.set(database="postgres"), pool_size=0)
        async with maintenance.autocommit() as conn:
            await conn.execute(text(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))
            await conn.execute(text(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
        world = World(server_url.set(database=name).render_as_string(hide_password=False), lease_seconds)
        try:
            yield world
        finally:
            await world.close()
            async with maintenance.autocommit() as conn:
                await conn.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
            await maintenance.close()

    return make


RETRY = {"max_attempts": 3, "initial_delay_seconds": 60}
EVERYTHING: dict[str, dict[str, object]] = {
    "skip": {"overlap": "skip"},
    "skip two": {"overlap": "skip", "max_concurrency": 2, "mode": "fresh"},
    "queue": {"overlap": "queue"},
    "queue two": {"overlap": "queue", "max_concurrency": 2, "queue_limit": 1, "mode": "fresh"},
    "queue latest": {"overlap": "queue_latest"},
    "replace": {"overlap": "replace"},
    "replace two": {"overlap": "replace", "max_concurrency": 2},
    "cancelled": {"overlap": "queue"},
    "stubborn": {"overlap": "replace", "cancel_grace_seconds": 30},
    "allow": {"overlap": "allow"},
    "retried": {"cron": "*/2 * * * *", "retry": RETRY, "pause_after_failures": None},
    "failing": {},
    "all": {"misfire": "all"},
    "latest": {"misfire": "latest"},
    "append": {"mode": "append", "cron": "*/2 * * * *"},
    "append too": {"mode": "append", "cron": "1-59/2 * * * *", "overlap": "queue"},
    "paused": {"overlap": "queue"},
    "edited": {"overlap": "queue"},
    "once": {"at": "2026-05-01T00:02", "mode": "fresh"},
    "hook": {"webhook": True},
}


async def run_now(world: World) -> None:
    for name in ("skip", "queue", "once"):
        await people.run_now(world.db, world.ada, world.ids[name])


async def pause(world: World) -> None:
    await lifecycle.pause(world.db, world.ada, world.ids["paused"])


async def resume(world: World) -> None:
    await lifecycle.resume(world.db, world.settings, world.ada, world.ids["paused"], catch_up=Misfire.ALL)


async def edit(world: World) -> None:
    patch = SchedulePatch.model_validate({"cron": "*/2 * * * *", "overlap": "replace"})
    await update(world.db, world.settings, world.ada, world.ids["edited"], patch, version=1)


async def widen(world: World) -> None:
    patch = SchedulePatch(max_concurrency=3)
    await update(world.db, world.settings, world.ada, world.ids["queue two"], patch, version=1)


async def call(world: World) -> None:
    for key in ("one", "two", "two"):
        delivery = Delivery(b"{}", "application/json", f"{world.now:%H:%M} {key}")
        await hooks.accept(world.db, world.settings, world.hook, delivery)


async def cancel(world: World) -> None:
    await lifecycle.cancel(world.db, world.ada, world.ids["cancelled"], stop_running=True)


SCRIPT: dict[int, tuple[Callable[[World], Awaitable[None]], ...]] = {
    1: (run_now, call),
    2: (pause,),
    3: (edit, widen),
    4: (resume,),
    5: (cancel,),
    # What follows is due after an outage, longer than twice the period.
    13: (run_now, call),
}
END = 14
"""What people do, by minute."""


async def ledger(world: World, workers: int) -> list[Any]:
    """All that the script leaves behind: the runs, then the schedules."""
    await world.begin(EVERYTHING)
    world.employ(workers)
    for minute, deeds in SCRIPT.items():
        await world.at(minute, TICK_SECOND)
        for deed in deeds:
            await deed(world)
            await world.settle()
        await world.at(minute, timed.END_SECOND)
    await world.at(END, TICK_SECOND)
    return [*map(tuple, await world.rows(LEDGER)), *map(tuple, await world.rows(SCHEDULES))]


EVENTS = {
    "completed", "failed", "cancelled", "skipped", "missed", "running", "queued", "retry_wait",
    "overlap", "superseded", "queue_full", "paused", "schedule_cancelled", "misfire", "stranded", "failures",
}  # fmt: skip
"""What the script is to bring about, or else it proves nothing."""


def unlike(one: list[Any], other: list[Any]) -> list[Any]:
    """What only one of them has."""
    return sorted(set(one) ^ set(other), key=str)


@pytest.mark.timeout(600)
async def test_one_two_and_four_processes_give_the_same_ledgers(world: MakeWorld) -> None:
    found: dict[int, list[Any]] = {}
    for workers in (1, 2, 4):
        async with world() as alone:
            found[workers] = await ledger(alone, workers)
            [[took_part]] = await alone.rows("SELECT count(DISTINCT worker) FROM tasks")
        assert took_part >= min(workers, 2)

    assert unlike(found[2], found[1]) == []
    assert unlike(found[4], found[1]) == []
    assert {word for row in found[1] for word in row} >= EVENTS


LOST: dict[str, dict[str, object]] = {
    "lost": {"overlap": "queue", "misfire_grace_seconds": 600},
    "lost late": {"overlap": "queue"},
    "lost retried": {"overlap": "queue", "retry": RETRY},
}
ADOPTED = [
    ("lost", "00:01", "completed", 1, 1),
    ("lost late", "00:01", "abandoned", 1, 0),
    ("lost retried", "00:01", "completed", 2, 0),
]


@pytest.mark.parametrize("workers", [1, 2, 4])
async def test_lines_are_adopted_when_the_workers_that_hold_their_slots_are_killed(
    world: MakeWorld, workers: int
) -> None:
    """Who holds a slot is killed in the third minute; its lease ends before 04:50, and no other's does."""
    async with world(lease_seconds=90) as here:
        await here.begin(LOST)
        here.employ(workers)
        for minute in (1, 2, 3):
            await here.at(minute, TICK_SECOND)
        killed = await here.kill_the_busy()
        if killed == workers:
            here.employ(1)
        await here.at(4, TICK_SECOND)
        assert [tuple(row) for row in await here.rows(STATES)] == [("queued", 9), ("running", 3)]
        await here.at(4, timed.END_SECOND)
        await here.at(5, TICK_SECOND)
        await here.at(5, timed.END_SECOND)
        ledger = [(row.name, row.fire, row.status, row.attempt, row.restarts) for row in await here.rows(LEDGER)]
    rest = [(name, f"00:0{minute}", "completed", 1, 0) for name in LOST for minute in (2, 3, 4, 5)]
    assert ledger == sorted(ADOPTED + rest)
