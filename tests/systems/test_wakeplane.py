"""What Wakeplane promises, row by row (issue 3); its words for the policies stand in DESIGN §7."""

from datetime import timedelta

import pytest

from agentsched.runners.protocol import Assignment, Outcome
from agentsched.service import requeue, status, tick
from agentsched.service import runs as run_service
from agentsched.service.errors import Conflict
from agentsched.service.views import RunView
from agentsched.worker.sweep import Sweep
from agentsched.worker.waker import ProcessWaker
from tests.clock import at
from tests.systems.story import LedgerRow, Story, instant
from tests.worker.actors import Answering, Gated, Stubborn, said
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio

RETRY = {"max_attempts": 3, "initial_delay_seconds": 30, "max_delay_seconds": 900}


async def test_forbid_never_runs_two_and_runs_every_slot_in_order(story: Story) -> None:
    """Wakeplane's forbid waits: ``queue``."""
    await story.made(overlap="queue")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:10", "00:15")
    assert await story.outcome() == [("00:05", "running", None), ("00:10", "queued", None), ("00:15", "queued", None)]
    await story.at("00:16", "complete", run="00:05")
    assert await story.outcome() == [
        ("00:05", "completed", None),
        ("00:10", "pending", None),
        ("00:15", "queued", None),
    ]
    await story.runs("00:17", "00:10")
    await story.runs("00:18", "00:15")
    assert {status for _, status, _ in await story.outcome()} == {"completed"}


async def test_allow_starts_every_slot_beside_those_that_run(story: Story) -> None:
    await story.made(overlap="allow")
    for time in ("00:05", "00:10", "00:15"):
        await story.fires(time)
        await story.at(f"{time}:01", "claim", worker="w1", expect_run=time)
    assert [status for _, status, _ in await story.outcome()] == ["running"] * 3


async def test_queue_latest_runs_the_newest_of_those_that_waited(story: Story) -> None:
    await story.made(overlap="queue_latest")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:10", "00:15")
    await story.at("00:16", "complete", run="00:05")
    assert await story.outcome() == [
        ("00:05", "completed", None),
        ("00:10", "skipped", "superseded"),
        ("00:15", "pending", None),
    ]
    passed = await story.row_of("00:10")
    assert passed.reason_text == "skipped: the newer fire of 00:15 took its place in the line"


async def test_replace_with_a_runner_that_stops(scene: Scene, executor_for: MakeExecutor) -> None:
    await scene.fire(overlap="replace")
    first, second = Gated(), Gated()
    old = scene.attempt(await scene.claim(), first)
    await first.begun.wait()
    await scene.at("09:05:00")
    await old.heartbeat.run_once()
    await tick.tick(scene.db, scene.settings)
    assert [run.status for run in await scene.runs()] == ["running", "queued"]

    await old.heartbeat.run_once()
    await old.run()
    assert first.cancelled.is_set()
    assert [run.status for run in await scene.runs()] == ["cancelled", "pending"]

    second.go.set()
    executor = executor_for(second, name="w2")
    await executor.run_once()
    await executor.wait_idle()
    stopped, newest = await scene.runs()
    assert (stopped.status, stopped.reason_text) == ("cancelled", "cancelled: it was asked to stop, and stopped")
    assert (newest.status, newest.result) == ("completed", "done")


async def test_replace_with_a_runner_that_does_not_stop_is_fenced_off_after_the_grace(
    scene: Scene, executor_for: MakeExecutor, waker: ProcessWaker
) -> None:
    await scene.fire(overlap="replace", cancel_grace_seconds=30)
    deaf, newest = Stubborn(), Gated()
    old = scene.attempt(await scene.claim(), deaf)
    await deaf.begun.wait()
    sweep = Sweep(scene.db, scene.settings, waker)
    await scene.at("09:05:00")
    await old.heartbeat.run_once()
    await tick.tick(scene.db, scene.settings)
    await old.heartbeat.run_once()
    await deaf.cancelled.wait()
    await scene.at("09:05:29")
    await old.heartbeat.run_once()
    await sweep.run_once()
    assert [run.status for run in await scene.runs()] == ["running", "queued"]

    await scene.at("09:05:30")
    await sweep.run_once()
    assert [run.status for run in await scene.runs()] == ["cancelled", "pending"]
    newest.go.set()
    executor = executor_for(newest, name="w2")
    await executor.run_once()
    await executor.wait_idle()

    before = await scene.runs(), await scene.tasks()
    deaf.go.set()
    await old.run()
    assert (await scene.runs(), await scene.tasks()) == before
    fenced, ran = before[0]
    assert fenced.reason_text == (
        "cancelled: it was asked to stop and did not within cancel_grace_seconds, so it was fenced off"
    )
    assert ran.status == "completed"
    assert await scene.transcript(fenced.conversation_id) == []


MISFIRES: dict[str, list[LedgerRow]] = {
    "skip": [("01:00", "missed", "misfire")],
    "latest": [("01:00", "missed", "misfire"), ("03:00", "pending", None)],
    "all": [("01:00", "pending", None), ("02:00", "queued", None), ("03:00", "queued", None)],
}


@pytest.mark.parametrize("misfire", MISFIRES)
async def test_misfire_in_three_forms(misfire: str, story: Story) -> None:
    await story.made(cron="0 * * * *", overlap="skip", misfire=misfire)
    await story.fires("03:30")
    assert await story.outcome() == MISFIRES[misfire]
    missed = [row.missed_count for row in await story.ledger() if row.status == "missed"]
    assert missed == {"skip": [3], "latest": [2], "all": []}[misfire]
    assert (await story.schedule()).next_fire_at == at(instant("04:00"))


async def test_a_timeout_ends_the_attempt_is_retried_and_its_late_result_is_refused(story: Story) -> None:
    await story.made(cron="0 * * * *", timeout_seconds=60, retry={**RETRY, "max_attempts": 2})
    await story.fires("01:00")
    await story.at("01:00:00", "claim", worker="w1", expect_run="01:00")
    await story.at("01:00:59", "tick")
    assert (await story.row_of("01:00")).status == "running"
    await story.at("01:01", "tick")
    run = await story.row_of("01:00")
    assert (run.status, run.error_code, run.retry_at) == ("retry_wait", "timeout", at(instant("01:01:30")))
    await story.at("01:01:10", "complete", run="01:00", expect_refused=True)
    await story.at("01:01:30", "tick")
    await story.at("01:01:30", "claim", worker="w2", expect_run="01:00")
    await story.at("01:02:30", "tick")
    run = await story.row_of("01:00")
    assert (run.status, run.error_code, run.attempt) == ("failed", "timeout", 2)
    assert (await story.schedule()).consecutive_failures == 1


async def test_retries_come_after_30_60_120_and_so_on_up_to_900_seconds(story: Story) -> None:
    await story.made(cron="0 1 * * *", retry={**RETRY, "max_attempts": 8})
    await story.fires("01:00")
    now = at(instant("01:00:07"))
    for attempt, delay in enumerate((30, 60, 120, 240, 480, 900, 900), start=1):
        await fail(story, f"{now:%H:%M:%S}", "01:00")
        run = await story.row_of("01:00")
        retry_at = now + timedelta(seconds=delay)
        assert (run.status, run.attempt, run.retry_at) == ("retry_wait", attempt, retry_at)
        if attempt in (1, 7):
            await story.sweeps(f"{retry_at - timedelta(seconds=1):%H:%M:%S}")
            assert await story.outcome() == [("01:00", "retry_wait", None)]
        await story.sweeps(f"{retry_at:%H:%M:%S}")
        now = retry_at
    await fail(story, f"{now:%H:%M:%S}", "01:00")
    run = await story.row_of("01:00")
    assert (run.status, run.attempt, run.retry_at) == ("failed", 8, None)
    assert (await story.schedule()).consecutive_failures == 1


async def fail(story: Story, time: str, run: str) -> None:
    """A worker takes this run, which is the next one, and fails."""
    await story.at(time, "claim", worker="w1", expect_run=run)
    await story.at(time, "fail", run=run)


async def dead_letters(story: Story) -> list[RunView]:
    return await run_service.list_page(
        story.db,
        story.caller,
        schedule_id=None,
        statuses=None,
        dead_letter=True,
        ledger_order=True,
        after=None,
        limit=100,
    )


async def dead_letter(story: Story) -> RunView:
    """The run of 01:00, which has failed its two attempts."""
    await story.made(cron="0 * * * *", retry={**RETRY, "max_attempts": 2})
    await story.fires("01:00")
    await fail(story, "01:00:10", "01:00")
    assert await dead_letters(story) == []
    await story.sweeps("01:00:40")
    await fail(story, "01:00:40", "01:00")
    [dead] = await dead_letters(story)
    return dead


async def test_a_run_that_failed_its_last_attempt_is_a_dead_letter_that_people_see(story: Story) -> None:
    dead = await dead_letter(story)
    assert (dead.fire_at, dead.status, dead.attempt) == (at(instant("01:00")), "failed", 2)
    assert (dead.error_code, dead.reason_text) == ("error", "failed: it failed")
    assert (await status.read_status(story.db, story.caller)).dead_letters == 1


async def test_a_dead_letter_is_requeued_as_a_new_run_and_stays_what_it_was(story: Story) -> None:
    dead = await dead_letter(story)
    before = await story.row_of("01:00")
    new, _ = await requeue.requeue(story.db, story.settings, story.caller, dead.id)
    assert (new.trigger, new.status, new.fire_at, new.attempt) == ("requeue", "pending", dead.fire_at, 1)
    assert (new.requeue_of, new.occurrence_key) == (dead.id, f"requeue:{dead.id}:1")
    with pytest.raises(Conflict, match=f"Run {new.id} is a requeue of run {dead.id}, and it is pending"):
        await requeue.requeue(story.db, story.settings, story.caller, dead.id)
    await story.runs("01:02", "01:00")
    assert [(row.id, row.status) for row in await story.ledger()] == [(dead.id, "failed"), (new.id, "completed")]
    assert (await story.ledger())[0] == before._replace(dead_letter=False)
    assert await dead_letters(story) == []
    again, _ = await requeue.requeue(story.db, story.settings, story.caller, dead.id)
    assert again.occurrence_key == f"requeue:{dead.id}:2"


async def test_a_dead_letter_that_nobody_needs_is_discarded(story: Story) -> None:
    dead = await dead_letter(story)
    discarded = await requeue.discard(story.db, story.caller, dead.id)
    assert (discarded.status, discarded.discarded_at) == ("failed", at(instant("01:00:40")))
    assert await dead_letters(story) == []
    assert (await status.read_status(story.db, story.caller)).dead_letters == 0
    await story.sweeps("01:05")
    assert await story.outcome() == [("01:00", "failed", None)]


@pytest.mark.parametrize("ending", ["stopped", "fail", "lose_worker"])
async def test_a_cancelled_run_is_not_retried_however_it_ends(ending: str, story: Story) -> None:
    await story.made(cron="0 * * * *", retry=RETRY)
    await story.fires("01:00")
    await story.at("01:00:01", "claim", worker="w1", expect_run="01:00")
    await story.at("01:00:05", "cancel_run", run="01:00")
    await story.at("01:00:08", ending, run="01:00", worker="w1")
    for time in ("01:01", "01:02", "01:10"):
        await story.at(time, "tick")
    assert await story.outcome() == [("01:00", "cancelled", None)]
    assert await dead_letters(story) == []
    assert (await story.schedule()).consecutive_failures == 0


async def test_a_run_that_is_cancelled_while_it_waits_for_its_retry_is_not_retried(story: Story) -> None:
    await story.made(cron="0 * * * *", retry=RETRY)
    await story.fires("01:00")
    await fail(story, "01:00:10", "01:00")
    await story.at("01:00:20", "cancel_run", run="01:00")
    await story.at("01:01", "tick")
    assert await story.outcome() == [("01:00", "cancelled", None)]


AFTER_TWO_HOURS: dict[str, list[LedgerRow]] = {
    "skip": [
        ("09:00", "abandoned", None),
        ("10:00", "missed", "stranded"),
        ("11:00", "missed", "misfire"),
    ],
    "latest": [
        ("09:00", "pending", None),
        ("10:00", "queued", None),
        ("11:00", "missed", "misfire"),
        ("12:00", "queued", None),
    ],
    "all": [
        ("09:00", "pending", None),
        ("10:00", "queued", None),
        ("11:00", "queued", None),
        ("12:00", "queued", None),
    ],
}
"""An hourly schedule; service and worker went down at 10:05, with 09:00 running and 10:00 in line."""


async def down_from_10_05(story: Story, **fields: object) -> None:
    await story.made("08:30:00", cron="0 * * * *", overlap="queue", **fields)
    await story.fires("09:00")
    await story.at("09:00:01", "claim", worker="w1", expect_run="09:00")
    await story.fires("10:00", "10:05")
    await story.at("10:05:30", "lose_worker", worker="w1")


@pytest.mark.parametrize("misfire", AFTER_TWO_HOURS)
async def test_two_hours_of_outage_with_a_run_in_flight_and_a_line(misfire: str, story: Story) -> None:
    await down_from_10_05(story, misfire=misfire)
    await story.fires("12:06")
    assert await story.outcome() == AFTER_TWO_HOURS[misfire]
    for row in await story.ledger():
        if row.status == "missed" and row.reason == "misfire":
            assert row.missed_count == {"skip": 2, "latest": 1}[misfire]
        assert row.status in ("pending", "queued") or row.reason_text is not None
    runs = [time for time, state, _ in AFTER_TWO_HOURS[misfire] if state in ("pending", "queued")]
    for minute, run in enumerate(runs, start=7):
        await story.runs(f"12:{minute:02}", run, worker="w2")
    await story.fires("13:00")
    await story.runs("13:00:01", "13:00", worker="w2")
    completed = [time for time, state, _ in await story.outcome() if state == "completed"]
    assert completed == [*runs, "13:00"]
    schedule = await story.schedule()
    assert (schedule.status, schedule.consecutive_failures) == ("active", 0)
    assert schedule.next_fire_at == at(instant("14:00"))


async def test_what_two_hours_of_outage_cost_is_told_in_sentences(story: Story) -> None:
    await down_from_10_05(story, misfire="skip")
    await story.fires("12:06")
    assert [row.reason_text for row in await story.ledger()] == [
        "abandoned: its worker w1 was last heard too long ago and counts as lost; it is later than the grace of 120 s, "
        "and `misfire: skip` runs none that late",
        "missed: it was still in line when the service was down from 10:05 to 12:06, longer than twice its period",
        "missed: 2 slots from 11:00 to 12:00 were found at 12:06, later than the grace of 120 s, and `misfire: skip`"
        " runs none that late",
    ]


async def test_after_exactly_two_hours_of_outage_an_hourly_line_goes_on(story: Story) -> None:
    """Twice the period is the bound, and only what is longer strands a line."""
    await down_from_10_05(story, misfire="skip")
    await story.fires("12:05")
    assert await story.outcome() == [
        ("09:00", "abandoned", None),
        ("10:00", "pending", None),
        ("11:00", "missed", "misfire"),
    ]


async def test_after_two_hours_of_outage_the_newest_slot_runs_is_retried_and_given_up_and_the_cadence_goes_on(
    story: Story,
) -> None:
    await story.made("08:30:00", cron="0 * * * *", overlap="queue", misfire="latest", retry=RETRY)
    await story.fires("09:00")
    await story.runs("09:00:01", "09:00")
    await story.fires("12:06")
    for failed, retried in (("12:06:10", "12:06:40"), ("12:06:40", "12:07:40")):
        await fail(story, failed, "12:00")
        await story.sweeps(retried)
    await fail(story, "12:07:40", "12:00")
    await story.fires("13:00")
    assert await story.outcome() == [
        ("09:00", "completed", None),
        ("10:00", "missed", "misfire"),
        ("12:00", "failed", None),
        ("13:00", "pending", None),
    ]
    assert (await story.row_of("12:00")).attempt == 3
    assert (await story.schedule()).consecutive_failures == 1


@pytest.mark.parametrize("misfire", AFTER_TWO_HOURS)
async def test_two_hours_of_outage_of_real_workers(
    misfire: str, scene: Scene, executor_for: MakeExecutor, waker: ProcessWaker
) -> None:
    """One worker goes down with a run in its hands; two hours later another one comes up, sweeps, and works."""
    ran: list[int | None] = []

    def note(assignment: Assignment) -> Outcome:
        ran.append(assignment.run_id)
        return said("done")

    dying = Gated()
    before = executor_for(dying, name="before", lease_seconds=4000)
    await scene.fire(cron="0 * * * *", overlap="queue", misfire=misfire, timeout_seconds=86400)
    await before.run_once()
    await dying.begun.wait()
    for time in ("10:00:00", "10:05:00"):
        await scene.at(time)
        await tick.tick(scene.db, scene.settings)
    await before.close()

    sweep = Sweep(scene.db, scene.settings, waker)
    after = executor_for(Answering(note), name="after")
    for time in ("12:06:10", "13:00:10"):
        await scene.at(time)
        await sweep.run_once()
        while await after.run_once():
            await after.wait_idle()
    runs = {f"{run.fire_at:%H:%M}": run for run in await scene.runs()}
    goes_on = [time for time, state, _ in AFTER_TWO_HOURS[misfire] if state in ("pending", "queued")] + ["13:00"]
    assert {time: (run.status, run.reason) for time, run in runs.items()} == {
        **{time: (state, reason) for time, state, reason in AFTER_TWO_HOURS[misfire]},
        **dict.fromkeys(goes_on, ("completed", None)),
    }
    assert ran == [runs[time].id for time in goes_on]
    assert {task.worker for task in await scene.tasks() if task.status == "completed"} == {"after"}
