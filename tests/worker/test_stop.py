"""A run that is asked to stop stops at once, not at the next heartbeat: here there is none for 25 seconds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.service import lifecycle, tick
from agentsched.service.cancel_run import cancel_run
from agentsched.store.database import Database
from agentsched.store.runs import STOP_CHANNEL
from agentsched.worker.executor import Executor
from agentsched.worker.listener import Listener
from agentsched.worker.supervise import supervise
from agentsched.worker.waker import ProcessWaker
from tests import people
from tests.chaos import processes
from tests.worker import stoppable
from tests.worker.actors import Gated
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio

RARE = {"heartbeat_seconds": 25, "lease_seconds": 3600, "sweep_seconds": 3600}
AT_ONCE = 10
"""Seconds, on a busy machine; less than those to the next heartbeat."""


@pytest.fixture
def executor(executor_for: MakeExecutor) -> tuple[Executor, Gated]:
    """An executor that has as good as no heartbeats, and its runner, which ends only when it is stopped."""
    runner = Gated()
    return executor_for(runner, **RARE), runner


@pytest.fixture
async def listen(db: Database, waker: ProcessWaker, background: Any) -> AsyncIterator[Callable[[Executor], Listener]]:
    """Let an executor hear what is said to the process."""
    made: list[Listener] = []

    def start(executor: Executor) -> Listener:
        listener = Listener(db, waker, executor.hear_stop)
        made.append(listener)
        background(supervise("listen", listener.run_once, pause=0.05, most=0.5))
        return listener

    yield start
    for listener in made:
        await listener.close()


async def statuses(scene: Scene) -> list[str]:
    return [run.status for run in await scene.runs()]


async def cancel_last_run(scene: Scene) -> None:
    run = (await scene.runs())[-1]
    await cancel_run(scene.db, scene.settings, scene.caller, run.id)


async def test_a_run_that_is_cancelled_stops_at_once(
    scene: Scene, executor: tuple[Executor, Gated], listen: Callable[[Executor], Listener]
) -> None:
    worker, runner = executor
    await scene.fire()
    async with asyncio.timeout(AT_ONCE):
        await listen(worker).listening.wait()
        await worker.run_once()
        await runner.begun.wait()
        await cancel_last_run(scene)
        await worker.wait_idle()
    assert runner.cancelled.is_set()
    assert await statuses(scene) == ["cancelled"]


async def test_a_run_stops_at_once_when_its_schedule_is_cancelled(
    scene: Scene, executor: tuple[Executor, Gated], listen: Callable[[Executor], Listener]
) -> None:
    worker, runner = executor
    schedule = await scene.fire()
    async with asyncio.timeout(AT_ONCE):
        await listen(worker).listening.wait()
        await worker.run_once()
        await runner.begun.wait()
        await lifecycle.cancel(scene.db, scene.caller, schedule.id, stop_running=True)
        await worker.wait_idle()
    assert await statuses(scene) == ["cancelled"]


async def test_a_run_that_is_replaced_stops_at_once_and_the_newest_starts(
    scene: Scene, executor: tuple[Executor, Gated], listen: Callable[[Executor], Listener], background: Any
) -> None:
    worker, runner = executor
    await scene.fire(overlap="replace")
    async with asyncio.timeout(AT_ONCE):
        await listen(worker).listening.wait()
        background(worker.run())
        await runner.begun.wait()
        runner.begun.clear()
        await scene.at("09:05:00")
        await tick.tick(scene.db, scene.settings)
        await runner.begun.wait()
    assert await statuses(scene) == ["cancelled", "running"]


async def test_a_run_in_another_process_stops_at_once(scene: Scene, database_url: str) -> None:
    await scene.fire()
    ours, theirs = processes.context.Pipe(duplex=False)
    process = processes.start(stoppable.work, database_url, RARE["heartbeat_seconds"], RARE["lease_seconds"], theirs)
    theirs.close()

    async def said(within_seconds: float) -> str:
        assert await asyncio.to_thread(ours.poll, within_seconds), "nothing was heard from the worker"
        word: str = ours.recv()
        return word

    try:
        assert await said(60) == "begun"
        await cancel_last_run(scene)
        assert await said(AT_ONCE) == "stopped"
        process.terminate()
        assert await processes.ended([process]) == [0]
    finally:
        process.kill()
        ours.close()
    assert await statuses(scene) == ["cancelled"]


async def test_a_listener_whose_connection_was_cut_hears_the_request_over_the_next_one(
    scene: Scene, executor: tuple[Executor, Gated], listen: Callable[[Executor], Listener]
) -> None:
    worker, runner = executor
    await scene.fire()
    async with asyncio.timeout(AT_ONCE):
        await listen(worker).listening.wait()
        await worker.run_once()
        await runner.begun.wait()
        [before] = await scene.tasks()
        await scene.clock.step(seconds=1)
        await scene.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        # It asks for all of them once when it is back, and here that answer is no.
        await _heard_after(scene, before.heartbeat_at)
        await cancel_last_run(scene)
        await worker.wait_idle()
    assert await statuses(scene) == ["cancelled"]


async def test_a_request_that_nobody_heard_is_found_when_the_listener_is_back(
    scene: Scene, executor: tuple[Executor, Gated], listen: Callable[[Executor], Listener]
) -> None:
    worker, runner = executor
    await scene.fire()
    async with asyncio.timeout(AT_ONCE):
        await worker.run_once()
        await runner.begun.wait()
        await cancel_last_run(scene)
        listen(worker)
        await worker.wait_idle()
    assert await statuses(scene) == ["cancelled"]


class Held(Database):
    """Answers a commit only when it is let go."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.committed, self.go = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def begin(self, *, lock_timeout_ms: int | None = None) -> AsyncIterator[AsyncConnection]:
        async with super().begin(lock_timeout_ms=lock_timeout_ms) as conn:
            yield conn
        self.committed.set()
        await self.go.wait()


async def test_a_request_that_comes_before_the_answer_to_the_claim_is_heard(
    scene: Scene, executor_for: MakeExecutor, database_url: str, background: Any
) -> None:
    held = Held(database_url)
    worker = executor_for(Gated(), db=held, **RARE)
    await scene.fire()
    async with asyncio.timeout(AT_ONCE):
        claiming = background(worker.run_once())
        await held.committed.wait()
        await cancel_last_run(scene)
        [task] = await scene.tasks()
        worker.hear_stop(task.id)
        held.go.set()
        await claiming
        await worker.wait_idle()
    assert await statuses(scene) == ["cancelled"]
    await held.close()


async def test_the_word_alone_stops_nothing(
    scene: Scene, executor: tuple[Executor, Gated], listen: Callable[[Executor], Listener], background: Any
) -> None:
    """The heartbeat's answer decides, so that an old, a foreign or a false one does no harm."""
    worker, runner = executor
    await scene.fire()
    async with asyncio.timeout(AT_ONCE):
        await listen(worker).listening.wait()
        await worker.run_once()
        await runner.begun.wait()
        [before] = await scene.tasks()
        await scene.clock.step(seconds=1)
        for said in (f"{before.id}", f"{before.id + 1}"):
            await scene.rows("SELECT pg_notify(:channel, :said)", channel=STOP_CHANNEL, said=said)
        await _heard_after(scene, before.heartbeat_at)
        runner.go.set()
        await worker.wait_idle()
    assert not runner.cancelled.is_set()
    assert await statuses(scene) == ["completed"]


async def _heard_after(scene: Scene, instant: Any) -> None:
    """Until the only task's heartbeat has come in."""
    while [task.heartbeat_at > instant for task in await scene.tasks()] != [True]:
        pass


async def test_a_fire_that_asks_nobody_to_stop_notifies_nobody(scene: Scene, db: Database) -> None:
    heard: list[str] = []
    ears = db.apart(pool_size=0)
    async with ears.autocommit() as conn:
        driver: Any = (await conn.get_raw_connection()).driver_connection
        end = asyncio.Event()
        await driver.add_listener(STOP_CHANNEL, lambda *said: heard.append(said[-1]))
        await driver.add_listener("marker", lambda *_: end.set())
        await scene.fire(overlap="replace")
        await people.run_now(db, scene.caller, (await scene.schedule()).id)
        await scene.rows("SELECT pg_notify('marker', '')")
        async with asyncio.timeout(AT_ONCE):
            await end.wait()
        await driver.reset()
    assert heard == []
