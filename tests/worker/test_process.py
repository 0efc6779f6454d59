"""The whole worker: every duty at once, beside each other and whatever is missing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from arq.connections import ArqRedis

from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, connect_redis, run_worker, worker_name
from tests import people
from tests.worker.actors import Gated, only
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


class Worker:
    """A worker process in this one, with a pool of its own."""

    def __init__(self, scene: Scene, database_url: str, runner: Callable[[], Any], redis: ArqRedis | None) -> None:
        self.db = Database(database_url)
        self.waker = ProcessWaker(self.db)
        self.stop, self.ready = asyncio.Event(), asyncio.Event()
        self._redis = redis
        self._scene = scene
        self._runners = {people.HARNESS: runner}

    async def run(self) -> None:
        # An hour, so that nothing can come from the sweep.
        settings = self._scene.settings.model_copy(update={"sweep_seconds": 3600})
        await run_worker(
            settings,
            self.db,
            runners=self._runners,
            redis=self._redis,
            waker=self.waker,
            stop=self.stop,
            name=worker_name(),
            ready=self.ready,
        )
        await self.waker.close()
        await self.db.close()
        if self._redis is not None:
            await self._redis.aclose(close_connection_pool=True)


async def test_what_one_process_asks_for_another_does_at_once(
    scene: Scene, background: Any, database_url: str, waker: ProcessWaker
) -> None:
    runner = Gated()
    worker = Worker(scene, database_url, only(runner), connect_redis(scene.settings))
    running = background(worker.run())
    async with asyncio.timeout(20):
        await worker.ready.wait()
        await scene.say("hello")
        waker.wake()
        await runner.begun.wait()
        runner.go.set()
        worker.stop.set()
        await running
    assert [entry.content for entry in await scene.transcript()] == ["hello", "done"]


async def test_a_worker_without_redis_does_its_work(scene: Scene, background: Any, database_url: str) -> None:
    await scene.schedule()
    await scene.at("09:00:10")
    gone = connect_redis(scene.settings.model_copy(update={"redis_url": "unix:///nowhere/redis.sock"}))
    runner = Gated()
    worker = Worker(scene, database_url, only(runner), gone)
    running = background(worker.run())
    async with asyncio.timeout(20):
        await runner.begun.wait()
        runner.go.set()
        worker.stop.set()
        await running
    assert [run.status for run in await scene.runs()] == ["completed"]


async def test_a_worker_that_is_cancelled_leaves_its_task_to_the_lease(
    scene: Scene, background: Any, database_url: str
) -> None:
    runner = Gated()
    await scene.say("hello")
    worker = Worker(scene, database_url, only(runner), None)
    running = background(worker.run())
    async with asyncio.timeout(20):
        await runner.begun.wait()
        running.cancel()
        await asyncio.wait([running])
    assert runner.cancelled.is_set()
    assert [task.status for task in await scene.tasks()] == ["running"]
    await worker.waker.close()
    await worker.db.close()


def test_workers_have_names_of_their_own() -> None:
    assert len({worker_name() for _ in range(100)}) == 100
