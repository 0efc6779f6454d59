"""A real arq worker, with its real cron, on the Redis inside."""

import asyncio
import json
import logging
from typing import Any

import anyio
import pytest
from arq import cron
from arq.connections import ArqRedis
from arq.worker import Worker, func
from fakeredis import FakeServer

from agentsched.embedded.redis import embedded_redis_pool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def dumps(job: dict[str, Any]) -> bytes:
    return json.dumps(job).encode()


def json_pool(server: FakeServer | None = None) -> ArqRedis:
    return embedded_redis_pool(server=server, job_serializer=dumps, job_deserializer=json.loads)


# arq's Worker.close() calls what redis-py has deprecated.
@pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")
async def test_a_worker_runs_its_cron_every_second_beside_its_jobs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="arq")
    seen: list[int] = []
    ticks: list[int] = []
    done = anyio.Event()

    async def job(ctx: dict[Any, Any], number: int) -> None:
        seen.append(number)
        done_when_complete()

    async def tick(ctx: dict[Any, Any]) -> None:
        ticks.append(1)
        done_when_complete()

    def done_when_complete() -> None:
        if len(seen) == 100 and len(ticks) == 2:
            done.set()

    server = FakeServer()
    client = json_pool(server)
    worker = Worker(
        functions=[func(job, name="job")],
        cron_jobs=[cron(tick, second=set(range(60)), max_tries=1)],
        redis_pool=json_pool(server),
        job_serializer=dumps,
        job_deserializer=json.loads,
        handle_signals=False,
        max_jobs=50,
        poll_delay=0.05,
    )
    for number in range(100):
        await client.enqueue_job("job", number)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.async_run)
        with anyio.fail_after(10):
            await done.wait()
        group.cancel_scope.cancel()
    # close() cancels jobs that are in flight, and then raises their cancellation.
    await asyncio.gather(*worker.tasks.values())
    await worker.close()
    await client.aclose()

    assert sorted(seen) == list(range(100))
    assert worker.jobs_failed == 0
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert any("db_keys=" in record.message for record in caplog.records)


async def test_jobs_are_stored_by_the_given_serializer() -> None:
    pool = json_pool()
    job = await pool.enqueue_job("wake", {"run": 7})
    assert job is not None
    stored = await pool.get(f"arq:job:{job.job_id}")
    assert json.loads(stored)["a"] == [{"run": 7}]
    await pool.aclose()


async def test_pools_share_a_server_only_when_it_is_given() -> None:
    server = FakeServer()
    one, two, stranger = json_pool(server), json_pool(server), json_pool()
    await one.enqueue_job("wake")
    assert len(await two.queued_jobs()) == 1
    assert await stranger.queued_jobs() == []
    for pool in (one, two, stranger):
        await pool.aclose()
