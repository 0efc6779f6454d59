"""The tick under a real arq, on the Redis inside and on a real one."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from arq.connections import ArqRedis

from agentsched.settings import Settings
from agentsched.store import clock
from agentsched.worker.redis import connect_redis
from agentsched.worker.supervise import supervise
from agentsched.worker.sweep import Sweep
from agentsched.worker.ticker import TICK_QUEUE, Ticker, WakeJobs
from agentsched.worker.waker import WAKE_QUEUE, ProcessWaker
from tests.clock import at
from tests.worker.actors import Answering, said
from tests.worker.conftest import MakeExecutor
from tests.worker.redis_server import RedisServer
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio

EVERY_SECOND = range(60)


@pytest.fixture
async def embedded(settings: Settings) -> AsyncIterator[ArqRedis]:
    redis = connect_redis(settings)
    yield redis
    await redis.aclose(close_connection_pool=True)


@pytest.fixture
async def real(settings: Settings, redis_server: RedisServer) -> AsyncIterator[ArqRedis]:
    redis = connect_redis(redis_server.settings(settings))
    yield redis
    await redis.aclose(close_connection_pool=True)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.needs_redis)])
def redis(request: pytest.FixtureRequest) -> ArqRedis:
    redis: ArqRedis = request.getfixturevalue(request.param)
    return redis


class Fires:
    """Waits for the tick that fires the scene's schedule at each of its minutes."""

    def __init__(self, scene: Scene, waker: ProcessWaker) -> None:
        self._scene = scene
        self._woken = waker.subscribe()

    async def at(self, time: str, *, count: int) -> None:
        self._woken.clear()
        await self._scene.at(time)
        async with asyncio.timeout(20):
            await self._woken.wait()
        assert len(await self._scene.runs()) == count


async def test_arq_ticks(scene: Scene, waker: ProcessWaker, redis: ArqRedis, background: Any) -> None:
    await scene.schedule(overlap="allow")
    fires = Fires(scene, waker)
    ticking = background(Ticker(scene.db, scene.settings, redis, waker, seconds=EVERY_SECOND).run_once())
    await fires.at("09:00:00", count=1)
    await fires.at("09:05:00", count=2)
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    keys = [key.decode() for key in await redis.keys("*")]
    assert not [key for key in keys if key.startswith("arq:result")]


async def test_the_tick_is_for_second_0_of_every_minute_on_a_queue_of_its_own(
    scene: Scene, waker: ProcessWaker, embedded: ArqRedis
) -> None:
    worker = Ticker(scene.db, scene.settings, embedded, waker).arq_worker()
    [job] = worker.cron_jobs
    job.calculate_next(datetime(2026, 5, 1, 8, 59, 3, tzinfo=UTC))
    for minute in ("09:00", "09:01", "09:02"):
        assert job.next_run is not None
        assert job.next_run.replace(microsecond=0) == at(f"2026-05-01T{minute}:00Z")
        job.calculate_next(job.next_run)
    assert (worker.queue_name, worker.timezone, job.job_id) == (TICK_QUEUE, UTC, None)
    assert WakeJobs(embedded, waker).arq_worker().queue_name == WAKE_QUEUE


async def test_jobs_are_json(embedded: ArqRedis) -> None:
    job = await embedded.enqueue_job("wake", _queue_name="elsewhere")
    assert job is not None
    assert json.loads(await embedded.get(f"arq:job:{job.job_id}"))["f"] == "wake"


async def test_a_host_whose_clock_is_ahead_waits_for_the_minute_of_the_database(
    scene: Scene, waker: ProcessWaker, embedded: ArqRedis
) -> None:
    await scene.schedule()
    await scene.clock.shift(None)
    async with scene.db.begin() as conn:
        now = await clock.now(conn)
    await scene.clock.shift(at("2026-05-01T09:00:00Z") - timedelta(milliseconds=500) - now)
    async with asyncio.timeout(20):
        await Ticker(scene.db, scene.settings, embedded, waker).tick()
    [run] = await scene.runs()
    assert run.fire_at == at("2026-05-01T09:00:00Z")


@pytest.mark.needs_redis
async def test_a_flush_between_tick_and_execution_loses_nothing(
    scene: Scene, waker: ProcessWaker, real: ArqRedis, background: Any, executor_for: MakeExecutor
) -> None:
    await scene.schedule(overlap="allow")
    fires = Fires(scene, waker)
    background(Ticker(scene.db, scene.settings, real, waker, seconds=EVERY_SECOND).run_once())
    await fires.at("09:00:00", count=1)
    await real.flushall()
    executor = executor_for(Answering(lambda _: said("done")))
    assert await executor.run_once() == 1
    await executor.wait_idle()
    assert [run.status for run in await scene.runs()] == ["completed"]
    await fires.at("09:05:00", count=2)


@pytest.mark.needs_redis
async def test_without_redis_the_sweep_fires_and_the_ticker_comes_back_when_redis_does(
    scene: Scene, waker: ProcessWaker, real: ArqRedis, background: Any, redis_server: RedisServer
) -> None:
    await scene.schedule(overlap="allow")
    fires = Fires(scene, waker)
    ticker = Ticker(scene.db, scene.settings, real, waker, seconds=EVERY_SECOND)
    background(supervise("tick", ticker.run_once, pause=0.1, most=0.5))
    await fires.at("09:00:00", count=1)

    await redis_server.stop()
    sweep = Sweep(scene.db, scene.settings, waker)
    await scene.at("09:05:09")
    await sweep.run_once()
    assert len(await scene.runs()) == 1
    await scene.at("09:05:10")
    await sweep.run_once()
    assert [run.fire_at for run in await scene.runs()] == [at("2026-05-01T09:00:00Z"), at("2026-05-01T09:05:00Z")]
    # At most 10 s until the sweep does the tick, 6 s until it comes (5 with jitter): less than 20.
    assert scene.settings.sweep_seconds * 1.2 + 10 < 20

    await redis_server.start()
    await fires.at("09:10:00", count=3)


@pytest.mark.needs_redis
async def test_a_dropped_connection_ends_no_tick(
    scene: Scene, waker: ProcessWaker, real: ArqRedis, background: Any, redis_server: RedisServer
) -> None:
    await scene.schedule(overlap="allow")
    fires = Fires(scene, waker)
    ticker = Ticker(scene.db, scene.settings, real, waker, seconds=EVERY_SECOND)
    background(supervise("tick", ticker.run_once, pause=0.1, most=0.5))
    await fires.at("09:00:00", count=1)
    other = connect_redis(redis_server.settings(scene.settings))
    assert await other.client_kill_filter(_type="normal", skipme=True) >= 1
    await other.aclose(close_connection_pool=True)
    await fires.at("09:05:00", count=2)


@pytest.mark.needs_redis
async def test_a_wake_up_reaches_another_process_over_redis(
    scene: Scene, waker: ProcessWaker, real: ArqRedis, background: Any
) -> None:
    here = [ProcessWaker(scene.db, real) for _ in range(3)]
    for one in here:
        one.wake()
    for one in here:
        await one.close()
    assert await real.zcard(WAKE_QUEUE) == 1

    woken = waker.subscribe()
    background(WakeJobs(real, waker).run_once())
    async with asyncio.timeout(10):
        await woken.wait()


@pytest.mark.needs_redis
async def test_a_wake_up_that_redis_does_not_take_is_counted_and_postgresql_takes_it(
    scene: Scene, real: ArqRedis, redis_server: RedisServer
) -> None:
    await redis_server.stop()
    one = ProcessWaker(scene.db, real)
    one.wake()
    await one.close()
    assert one.failures == 1


@pytest.mark.needs_redis
async def test_whenever_it_is_cancelled_it_ends(scene: Scene, waker: ProcessWaker, real: ArqRedis) -> None:
    async def cancelled_after(steps: int) -> bool:
        ticking = asyncio.create_task(Ticker(scene.db, scene.settings, real, waker).run_once())
        for _ in range(steps):
            await asyncio.sleep(0)
        ticking.cancel()
        await asyncio.wait([ticking])
        return ticking.cancelled()

    async with asyncio.timeout(20):
        assert all(await asyncio.gather(*(cancelled_after(steps) for steps in range(0, 200, 4))))
