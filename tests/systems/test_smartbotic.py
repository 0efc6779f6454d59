"""What smartbotic's scheduler promises, row by row (issue 3); its words for the policies stand in DESIGN §7."""

import asyncio
from datetime import timedelta

import pytest

from agentsched.runners.protocol import Assignment, Outcome, Runner
from agentsched.service import tick, update
from agentsched.service.requests import SchedulePatch
from agentsched.store.database import Database
from agentsched.worker.sweep import Sweep
from agentsched.worker.waker import ProcessWaker
from tests.clock import at
from tests.systems.story import Story, instant
from tests.worker.actors import Gated, Stubborn
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


async def test_skip_drops_what_comes_due_while_a_run_is_in_flight_and_runs_the_next(story: Story) -> None:
    await story.made(overlap="skip")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:10", "00:15")
    await story.at("00:16", "complete", run="00:05")
    await story.fires("00:20")
    assert await story.outcome() == [
        ("00:05", "completed", None),
        ("00:10", "skipped", "overlap"),
        ("00:15", "skipped", "overlap"),
        ("00:20", "pending", None),
    ]


async def test_queue_keeps_one_pending_start_which_begins_when_the_run_before_ends(story: Story) -> None:
    """smartbotic's queue remembers that a start is owed, not how often: ``queue_latest``."""
    await story.made(overlap="queue_latest")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    for time in ("00:10", "00:15", "00:20"):
        await story.fires(time)
        waiting = [row for row in await story.outcome() if row[1] == "queued"]
        assert waiting == [(time, "queued", None)]
    await story.at("00:21", "complete", run="00:05")
    assert await story.outcome() == [
        ("00:05", "completed", None),
        ("00:10", "skipped", "superseded"),
        ("00:15", "skipped", "superseded"),
        ("00:20", "pending", None),
    ]
    await story.runs("00:21:01", "00:20")
    await story.fires("00:22")
    assert [status for _, status, _ in await story.outcome()] == ["completed", "skipped", "skipped", "completed"]


async def test_allow_with_a_bound_runs_as_many_as_it_says_and_skips_the_rest(story: Story) -> None:
    """smartbotic's allow has a bound and drops at it: ``skip`` with ``max_concurrency``."""
    await story.made(overlap="skip", max_concurrency=2)
    for time in ("00:05", "00:10"):
        await story.fires(time)
        await story.at(f"{time}:01", "claim", worker="w1", expect_run=time)
    await story.fires("00:15")
    assert await story.outcome() == [
        ("00:05", "running", None),
        ("00:10", "running", None),
        ("00:15", "skipped", "overlap"),
    ]
    assert "has held one of the 2 slots since 00:05" in str((await story.row_of("00:15")).reason_text)
    await story.at("00:16", "complete", run="00:10")
    await story.fires("00:20")
    assert (await story.outcome())[-1] == ("00:20", "pending", None)


async def test_a_stale_run_is_released_after_its_deadline_in_the_tick_that_fires_the_next(story: Story) -> None:
    await story.made(overlap="skip", timeout_seconds=240)
    await story.fires("00:05")
    await story.at("00:05:30", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:09")
    assert await story.outcome() == [("00:05", "running", None)]
    await story.fires("00:10")
    assert await story.outcome() == [("00:05", "failed", None), ("00:10", "pending", None)]
    released = await story.row_of("00:05")
    assert (released.error_code, released.reason_text) == (
        "timeout",
        "failed: the attempt took longer than it may (timeout_seconds)",
    )
    await story.at("00:10:30", "complete", run="00:05", expect_refused=True)
    await story.runs("00:11", "00:10", worker="w2")


async def test_a_stale_run_whose_deadline_is_derived_is_released_after_five_periods(story: Story) -> None:
    await story.made(overlap="skip", timeout_seconds=0)
    await story.fires("00:05")
    await story.at("00:05", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:10", "00:15", "00:20", "00:25", "00:29")
    assert [status for _, status, _ in await story.outcome()] == ["running", *["skipped"] * 4]
    await story.fires("00:30")
    assert [status for _, status, _ in await story.outcome()] == ["failed", *["skipped"] * 4, "pending"]


async def test_a_stale_run_that_ignores_cancellation_is_released_and_the_next_fire_runs(
    scene: Scene, executor_for: MakeExecutor
) -> None:
    deaf, next_run = Stubborn(), Gated()
    next_run.go.set()
    turns: list[Runner] = [deaf, next_run]

    class InTurn:
        async def run(self, assignment: Assignment) -> Outcome:
            return await turns.pop(0).run(assignment)

    schedule = await scene.fire(overlap="skip", timeout_seconds=1)
    executor = executor_for(InTurn(), concurrency=1)
    await executor.run_once()
    async with asyncio.timeout(10):
        await executor.wait_idle()
    assert (deaf.cancelled.is_set(), deaf.ended.is_set()) == (True, False)

    # The executor counts real seconds, and one may be too short for a run on a busy machine.
    longer = SchedulePatch(timeout_seconds=60)
    await update.update(scene.db, scene.settings, scene.caller, schedule.id, longer, version=1)
    await scene.at("09:05:00")
    await tick.tick(scene.db, scene.settings)
    assert await executor.run_once() == 1
    await executor.wait_idle()
    first, second = await scene.runs()
    assert (first.status, first.error_code) == ("failed", "timeout")
    assert (second.status, second.result) == ("completed", "done")

    deaf.go.set()
    await deaf.ended.wait()
    assert [run.status for run in await scene.runs()] == ["failed", "completed"]


async def test_a_stale_run_of_a_worker_that_never_ends_it_is_released_by_the_others(
    scene: Scene, waker: ProcessWaker
) -> None:
    """The worker goes on with its heartbeats and knows no deadline of its own: the sweep of another one judges it."""
    await scene.fire(overlap="skip", timeout_seconds=240)
    held = scene.attempt(await scene.claim(), Stubborn())
    for time in ("09:01:00", "09:02:00", "09:03:00", "09:03:59"):
        await scene.at(time)
        assert await held.heartbeat.run_once()
    sweep = Sweep(scene.db, scene.settings, waker)
    await sweep.run_once()
    assert [run.status for run in await scene.runs()] == ["running"]
    await scene.at("09:04:00")
    await sweep.run_once()
    assert [(run.status, run.error_code) for run in await scene.runs()] == [("failed", "timeout")]
    assert not await held.heartbeat.run_once()
    held.turn.cancel()


LATE = {
    "cron, seconds late": ({"cron": "*/15 * * * *"}, "00:15:59", "00:30"),
    "cron, minutes late": ({"cron": "*/15 * * * *"}, "00:17:40", "00:30"),
    "interval, minutes late": ({"every": "15m"}, "00:17:40", "00:30"),
    "interval, after an outage": ({"every": "15m"}, "00:52:00", "01:00"),
    "cron, after an outage on a slot": ({"cron": "*/15 * * * *"}, "01:00:00", "01:15"),
}


@pytest.mark.parametrize("case", LATE)
async def test_the_next_run_is_computed_after_the_dispatch_and_a_late_one_does_not_shift_the_cadence(
    case: str, story: Story
) -> None:
    timing, dispatched, following = LATE[case]
    await story.made(**timing)
    assert (await story.schedule()).next_fire_at == at(instant("00:15"))
    await story.at(dispatched, "tick")
    row = await story.schedule()
    assert row.next_fire_at == at(instant(following))
    assert row.next_fire_at > at(instant(dispatched))
    await story.at(following, "tick")
    after = (await story.schedule()).next_fire_at
    assert after is not None
    assert after - row.next_fire_at == timedelta(minutes=15)


async def test_the_next_run_is_computed_in_the_transaction_of_the_dispatch(story: Story, db: Database) -> None:
    """A dispatch that is repeated, as by a second scheduler, finds the next run already there and does nothing."""
    await story.made()
    await story.fires("00:05", "00:05")
    await story.at("00:06", "tick")
    await story.at("00:05", "tick")
    assert await story.outcome() == [("00:05", "pending", None)]
    assert (await story.schedule()).next_fire_at == at(instant("00:10"))
