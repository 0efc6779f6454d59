"""One attempt: its lease, its deadline, the word to stop, and what becomes of late and stale results."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentsched.service import tick
from agentsched.service.cancel_run import cancel_run
from agentsched.store.database import Database
from tests.worker.actors import Answering, Gated, Stubborn, said
from tests.worker.conftest import MakeExecutor
from tests.worker.outage import Watched, outage
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


async def test_heartbeats_keep_a_run_that_takes_longer_than_a_lease(scene: Scene, background: Any) -> None:
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner)
    running = background(attempt.run())
    await runner.begun.wait()
    for _ in range(4):
        await scene.clock.step(seconds=25)
        assert await attempt.heartbeat.run_once()
        await tick.sweep(scene.db, scene.settings)
    runner.go.set()
    await running
    [run] = await scene.runs()
    assert (run.status, run.restarts) == ("completed", 0)


async def test_heartbeats_come_by_themselves(scene: Scene, background: Any) -> None:
    settings = scene.settings.model_copy(update={"heartbeat_seconds": 1})
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner, settings=settings)
    running = background(attempt.run())
    await runner.begun.wait()
    await cancel_run_of(scene)
    async with asyncio.timeout(10):
        await runner.cancelled.wait()
        await running
    assert [run.status for run in await scene.runs()] == ["cancelled"]


@pytest.fixture
async def beats(db: Database) -> AsyncIterator[Database]:
    apart = db.apart()
    yield apart
    await apart.close()


async def test_a_busy_pool_starves_no_heartbeat(
    scene: Scene, background: Any, database_url: str, beats: Database
) -> None:
    small = Database(database_url, pool_size=1)
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner, db=small, beats=beats)
    running = background(attempt.run())
    await runner.begun.wait()
    async with small.begin(), small.begin(), asyncio.timeout(10):
        assert await attempt.heartbeat.run_once()
    runner.go.set()
    await running
    await small.close()


async def test_a_runner_that_ignores_the_watchdog_loses_its_slot_and_its_result(
    scene: Scene, executor_for: MakeExecutor
) -> None:
    runner = Stubborn()
    await scene.fire(timeout_seconds=1)
    executor = executor_for(runner, concurrency=1)
    await executor.run_once()
    async with asyncio.timeout(10):
        await executor.wait_idle()
    [run] = await scene.runs()
    assert (run.status, run.error_code) == ("failed", "timeout")
    assert (executor.running, runner.cancelled.is_set(), runner.ended.is_set()) == (0, True, False)
    before = await scene.transcript(run.conversation_id)
    assert [entry.role for entry in before] == ["user", "error"]

    runner.go.set()
    await runner.ended.wait()
    await executor.wait_idle()
    assert await scene.transcript(run.conversation_id) == before
    assert (await scene.runs())[0].status == "failed"


async def test_a_timeout_is_retried(scene: Scene) -> None:
    await scene.fire(timeout_seconds=1, retry={"max_attempts": 2})
    async with asyncio.timeout(10):
        await scene.attempt(await scene.claim(), Gated()).run()
    [run] = await scene.runs()
    assert (run.status, run.error_code) == ("retry_wait", "timeout")


async def test_a_run_that_is_cancelled_is_stopped_at_the_next_heartbeat(scene: Scene, background: Any) -> None:
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner)
    running = background(attempt.run())
    await runner.begun.wait()
    await cancel_run_of(scene)
    assert await attempt.heartbeat.run_once()
    await running
    assert runner.cancelled.is_set()
    [run] = await scene.runs()
    assert (run.status, run.error_code) == ("cancelled", None)


async def test_a_run_that_completes_although_it_was_asked_to_stop_is_completed(scene: Scene, background: Any) -> None:
    runner = Stubborn()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner)
    running = background(attempt.run())
    await runner.begun.wait()
    await cancel_run_of(scene)
    await attempt.heartbeat.run_once()
    await runner.cancelled.wait()
    runner.go.set()
    await running
    [run] = await scene.runs()
    assert run.status == "completed"


async def test_who_has_lost_the_task_hears_it_from_the_heartbeat_and_writes_nothing(
    scene: Scene, background: Any
) -> None:
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner)
    running = background(attempt.run())
    await runner.begun.wait()
    await lose_it(scene)

    assert not await attempt.heartbeat.run_once()
    await running
    await asyncio.wait([attempt.turn])
    assert runner.cancelled.is_set()
    [task] = await scene.tasks()
    assert (task.status, task.fence, task.worker) == ("running", 2, "w2")


async def test_a_result_that_comes_after_the_task_was_lost_is_dropped(scene: Scene, background: Any) -> None:
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner)
    running = background(attempt.run())
    await runner.begun.wait()
    await lose_it(scene)

    runner.go.set()
    await running
    [task] = await scene.tasks()
    assert (task.status, task.fence, task.worker, task.result) == ("running", 2, "w2", None)
    assert await scene.transcript(task.conversation_id) == []


async def test_a_result_waits_for_a_database_that_is_away(
    scene: Scene, background: Any, watched_db: Watched, database_url: str
) -> None:
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(), runner, db=watched_db)
    running = background(attempt.run())
    await runner.begun.wait()
    async with outage(database_url), asyncio.timeout(10):
        runner.go.set()
        await watched_db.refused.wait()
    async with asyncio.timeout(10):
        await running
    [run] = await scene.runs()
    assert (run.status, run.result) == ("completed", "done")


async def test_a_result_is_given_up_when_the_lease_has_ended(
    scene: Scene, background: Any, watched_db: Watched, database_url: str
) -> None:
    settings = scene.settings.model_copy(update={"lease_seconds": 1})
    runner = Gated()
    await scene.fire()
    attempt = scene.attempt(await scene.claim(settings), runner, db=watched_db, settings=settings)
    running = background(attempt.run())
    await runner.begun.wait()
    async with outage(database_url), asyncio.timeout(10):
        runner.go.set()
        await running
    [task] = await scene.tasks()
    assert task.status == "running"


async def test_a_task_ends_once_however_often_it_is_reported(scene: Scene) -> None:
    await scene.say("hello")
    claimed = await scene.claim()
    attempts = [scene.attempt(claimed, Answering(lambda _: said("done"))) for _ in range(5)]
    await asyncio.gather(*(attempt.run() for attempt in attempts))
    assert [entry.content for entry in await scene.transcript()] == ["hello", "done"]


async def cancel_run_of(scene: Scene) -> None:
    [run] = await scene.runs()
    assert run.status == "running"
    await cancel_run(scene.db, scene.settings, scene.caller, run.id)


async def lose_it(scene: Scene) -> None:
    """The lease ends, the reaper takes the task back, and another worker claims it."""
    await scene.clock.step(seconds=31)
    await tick.sweep(scene.db, scene.settings)
    await scene.claim(worker="w2")
