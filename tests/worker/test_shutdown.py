"""A worker that shuts down: it finishes what it can, and hands back the rest (DESIGN §9)."""

import asyncio
from typing import Any

import pytest

from agentsched.service.cancel_run import cancel_run
from tests.worker.actors import Gated, Stubborn
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("make", [Gated, Stubborn])
async def test_what_cannot_finish_is_handed_back_and_costs_nothing(
    make: type[Gated] | type[Stubborn], scene: Scene, executor_for: MakeExecutor, background: Any
) -> None:
    runner = make()
    await scene.fire()
    executor = executor_for(runner, shutdown_seconds=1)
    running = background(executor.run())
    await runner.begun.wait()
    executor.stop()
    async with asyncio.timeout(10):
        await running

    assert runner.cancelled.is_set()
    [run], [task] = await scene.runs(), await scene.tasks()
    assert (run.status, run.attempt, run.restarts) == ("pending", 1, 0)
    assert (task.status, task.attempt, task.restarts, task.worker) == ("pending", 1, 0, None)

    runner.go.set()
    again = Gated()
    again.go.set()
    other = executor_for(again, name="w2")
    await other.run_once()
    await other.wait_idle()
    [run], [task] = await scene.runs(), await scene.tasks()
    assert (run.status, run.attempt, run.restarts, run.result) == ("completed", 1, 0, "done")
    assert (task.worker, task.fence) == ("w2", 2)


async def test_what_ends_in_time_is_finished_and_nothing_new_is_begun(
    scene: Scene, executor_for: MakeExecutor, background: Any
) -> None:
    runner = Gated()
    await scene.say("one")
    await scene.say("two")
    executor = executor_for(runner, shutdown_seconds=60)
    running = background(executor.run())
    await runner.begun.wait()
    executor.stop()
    runner.go.set()
    async with asyncio.timeout(10):
        await running
    assert [task.status for task in await scene.tasks()] == ["completed", "pending"]


async def test_a_run_that_was_asked_to_stop_is_cancelled_in_place_of_handed_back(
    scene: Scene, executor_for: MakeExecutor, background: Any
) -> None:
    runner = Gated()
    await scene.fire()
    executor = executor_for(runner, shutdown_seconds=1)
    running = background(executor.run())
    await runner.begun.wait()
    [run] = await scene.runs()
    await cancel_run(scene.db, scene.settings, scene.caller, run.id)
    executor.stop()
    async with asyncio.timeout(10):
        await running
    [run] = await scene.runs()
    assert run.status == "cancelled"
