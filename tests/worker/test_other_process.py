"""A worker process that is killed, or stopped, in the middle of a run."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentsched.worker.sweep import Sweep
from agentsched.worker.waker import ProcessWaker
from tests.worker.actors import Answering, said
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def doomed(scene: Scene, database_url: str) -> AsyncIterator[Process]:
    """A worker process in the middle of a run."""
    await scene.fire(mode="append")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.worker.doomed", database_url, stdout=PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while b"begun" not in (line := await process.stdout.readline()):
            assert line, "the worker ended before it began"
    yield process
    if process.returncode is None:
        process.kill()
        await process.communicate()


async def test_a_run_whose_worker_is_killed_starts_again_elsewhere_once_the_lease_has_ended(
    scene: Scene, doomed: Process, executor_for: MakeExecutor, waker: ProcessWaker
) -> None:
    doomed.kill()
    await doomed.communicate()
    executor = executor_for(Answering(lambda _: said("done")), name="w2")
    sweep = Sweep(scene.db, scene.settings, waker)
    await scene.clock.step(seconds=29)
    await sweep.run_once()
    assert await executor.run_once() == 0
    await scene.clock.step(seconds=1)
    await sweep.run_once()
    assert await executor.run_once() == 1
    await executor.wait_idle()

    [run], [task] = await scene.runs(), await scene.tasks()
    assert (run.status, run.attempt, run.restarts) == ("completed", 1, 1)
    assert (task.worker, task.fence, task.restarts) == ("w2", 2, 1)
    assert [entry.content for entry in await scene.transcript()] == ["x", "done"]


async def test_a_process_that_stops_hands_back_and_ends_whatever_its_runner_does(scene: Scene, doomed: Process) -> None:
    doomed.terminate()
    async with asyncio.timeout(20):
        await doomed.communicate()
    assert doomed.returncode == 0
    [run], [task] = await scene.runs(), await scene.tasks()
    assert (run.status, run.restarts) == ("pending", 0)
    assert (task.status, task.fence, task.worker) == ("pending", 1, None)
