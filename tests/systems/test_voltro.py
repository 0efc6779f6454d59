"""What Voltro promises, row by row (issue 3); its words for the policies stand in DESIGN §7."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from agentsched.service import backfills
from agentsched.service import runs as run_service
from agentsched.service.backfill_views import BackfillView
from agentsched.service.errors import Conflict
from agentsched.service.requests import BackfillRequest
from agentsched.settings import Settings
from tests import people
from tests.clock import at
from tests.systems.story import LedgerRow, Story, instant
from tests.systems.workers import WorkerProcess

pytestmark = pytest.mark.anyio


async def reason(story: Story, time: str) -> str | None:
    run = await story.row_of(time)
    return (await run_service.get(story.db, story.caller, run.id)).reason_text


async def test_a_skipped_row_says_who_holds_the_slot_since_when_and_when_it_was_heard(story: Story) -> None:
    await story.made(overlap="skip")
    await story.fires("00:05")
    await story.at("00:05:40", "claim", worker="w-2", expect_run="00:05")
    await story.at("00:09:57", "heartbeat", run="00:05", expect_cancel_requested=False)
    await story.at("00:09:57", "lose_worker", worker="w-2")
    await story.fires("00:10")
    holder = await story.row_of("00:05")
    assert await reason(story, "00:10") == (
        f"skipped: run {holder.id} has held the only slot since 00:05 (worker w-2, last heard 3 s ago)"
    )


async def test_a_skipped_row_says_that_nobody_has_taken_the_run_that_holds_the_slot(story: Story) -> None:
    await story.made(overlap="skip")
    await story.fires("00:05", "00:10")
    holder = await story.row_of("00:05")
    assert await reason(story, "00:10") == (
        f"skipped: run {holder.id} has held the only slot since 00:05 (no worker has taken it yet)"
    )


async def test_a_skipped_row_says_that_the_run_that_holds_the_slot_waits_for_its_retry(story: Story) -> None:
    await story.made(overlap="skip", retry={"max_attempts": 2, "initial_delay_seconds": 300})
    await story.fires("00:05")
    await story.at("00:09", "claim", worker="w1", expect_run="00:05")
    await story.at("00:09:30", "fail", run="00:05")
    await story.fires("00:10")
    assert "(waiting for its next attempt)" in str(await reason(story, "00:10"))


@pytest.fixture
def worker(database_url: str) -> Iterator[Callable[[str], WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(name: str) -> WorkerProcess:
        started.append(WorkerProcess(database_url, name))
        return started[-1]

    yield start
    for each in started:
        each.clear_away()


async def three_in_line(story: Story) -> list[int]:
    """The ids of three runs, of which the first may start."""
    await story.made(overlap="queue")
    await story.fires("00:05", "00:10", "00:15")
    assert [status for _, status, _ in await story.outcome()] == ["pending", "queued", "queued"]
    return [row.id for row in await story.ledger()]


async def test_a_line_is_durable_and_any_worker_process_goes_on_with_it(
    story: Story, worker: Callable[[str], WorkerProcess]
) -> None:
    line = await three_in_line(story)
    first = worker("w1")
    assert await first.begun() == line[0]
    second = worker("w2")
    first.begin_to_stop()
    first.complete()
    assert await second.begun() == line[1]
    second.complete()
    assert await second.begun() == line[2]
    second.complete()
    await first.stop()
    await second.stop()
    assert {status for _, status, _ in await story.outcome()} == {"completed"}
    async with story.db.begin() as conn:
        assert list((await conn.execute(text("SELECT worker FROM tasks ORDER BY id"))).scalars()) == ["w1", "w2", "w2"]


async def test_a_line_is_adopted_when_the_worker_that_held_its_slot_dies_while_others_wait(
    story: Story, worker: Callable[[str], WorkerProcess]
) -> None:
    line = await three_in_line(story)
    dying = worker("w1")
    assert await dying.begun() == line[0]
    adopting = worker("w2")
    await dying.kill()
    await story.clock.freeze(instant("00:15:31"))
    assert await adopting.begun() == line[1]
    adopting.complete()
    assert await adopting.begun() == line[2]
    adopting.complete()
    await adopting.stop()
    assert await story.outcome() == [
        ("00:05", "abandoned", None),
        ("00:10", "completed", None),
        ("00:15", "completed", None),
    ]


async def test_a_run_that_lost_its_worker_within_the_grace_starts_again_before_those_that_wait(story: Story) -> None:
    await story.made(overlap="queue", misfire_grace_seconds=600)
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:10")
    await story.at("00:10:01", "lose_worker", worker="w1")
    await story.at("00:10:31", "tick")
    assert await story.outcome() == [("00:05", "pending", None), ("00:10", "queued", None)]
    await story.runs("00:10:32", "00:05", worker="w2")
    await story.runs("00:10:33", "00:10", worker="w2")


KEPT, STRANDED = ("00:10", "queued", None), ("00:10", "missed", "stranded")

BOUNDS = {
    "just under twice the period": (None, "00:19", KEPT),
    "at twice the period": (None, "00:20", KEPT),
    "over twice the period": (None, "00:21", STRANDED),
    "just under the window": ("1200", "00:29", KEPT),
    "at the window": ("1200", "00:30", KEPT),
    "over the window": ("1200", "00:31", STRANDED),
    "over a window under twice the period": ("60", "00:12", STRANDED),
}


@pytest.mark.parametrize("case", BOUNDS)
async def test_a_line_is_adopted_after_an_outage_of_at_most_twice_the_period_or_the_window(
    case: str, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, back, expected = BOUNDS[case]
    if window is not None:
        monkeypatch.setenv("AGENTSCHED_QUEUE_ADOPTION_WINDOW_SECONDS", window)
        story.settings = Settings(database_url=story.settings.database_url)
    await story.made(overlap="queue")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:10", back)
    assert (await story.outcome())[1] == expected


async def test_the_bound_is_that_of_each_runs_own_period(story: Story) -> None:
    """Twice 30, 5 and 25 minutes, and an outage of 20."""
    await story.made(overlap="queue", cron="0,5,30 * * * *")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.fires("00:30", "01:00", "01:05", "01:25")
    assert await story.outcome() == [
        ("00:05", "running", None),
        ("00:30", "queued", None),
        ("01:00", "missed", "stranded"),
        ("01:05", "queued", None),
    ]


async def test_run_now_runs_beside_the_run_that_holds_the_slot(story: Story) -> None:
    await story.made(overlap="skip")
    await story.fires("00:05")
    await story.at("00:05:01", "claim", worker="w1", expect_run="00:05")
    await story.at("00:07", "run_now", label="now")
    await story.runs("00:07:01", "now", worker="w2")
    assert (await story.row_of("00:05")).status == "running"
    assert (await story.schedule()).next_fire_at == at(instant("00:10"))


async def test_run_now_runs_while_the_schedule_is_paused_and_leaves_it_so(story: Story) -> None:
    await story.made()
    await story.at("00:01", "pause")
    await story.at("00:07", "run_now", label="now")
    await story.runs("00:07:01", "now")
    row = await story.schedule()
    assert (row.status, row.next_fire_at) == ("paused", None)


async def test_run_now_runs_a_completed_schedule_and_leaves_it_so(story: Story) -> None:
    await story.made(at="2026-05-01T00:05")
    await story.fires("00:05")
    await story.runs("00:05:01", "00:05")
    assert (await story.schedule()).status == "completed"
    await story.at("00:07", "run_now", label="now")
    await story.runs("00:07:01", "now")
    assert (await story.schedule()).status == "completed"


async def test_run_now_runs_no_cancelled_schedule(story: Story) -> None:
    await story.made()
    await story.at("00:01", "cancel")
    with pytest.raises(Conflict, match="cancelled"):
        await people.run_now(story.db, story.caller, story.schedule_id)
    assert await story.outcome() == []


BOOT: dict[str, list[LedgerRow]] = {
    "skip": [("01:00", "missed", "misfire"), ("05:00", "completed", None)],
    "latest": [("01:00", "missed", "misfire"), ("04:00", "completed", None), ("05:00", "completed", None)],
    "all": [
        ("01:00", "missed", "misfire"),
        ("02:00", "completed", None),
        ("03:00", "completed", None),
        ("04:00", "completed", None),
        ("05:00", "completed", None),
    ],
}


@pytest.mark.parametrize("misfire", BOOT)
async def test_boot_backfill_in_three_forms(misfire: str, story: Story) -> None:
    """Voltro's backfill at a start is what ``misfire`` says at the first tick, which a worker's sweep does.

    Of ``all`` the newest are kept: here three instead of a thousand.
    """
    story.settings = story.settings.model_copy(update={"misfire_all_keep": 3})
    await story.made(cron="0 * * * *", misfire=misfire)
    await story.sweeps("04:30:10")
    boot = [time for time, status, _ in BOOT[misfire][:-1] if status == "completed"]
    for minute, run in enumerate(boot, start=31):
        await story.runs(f"04:{minute}", run)
    await story.sweeps("05:00:10")
    await story.runs("05:00:11", "05:00")
    assert await story.outcome() == BOOT[misfire]


def asked(start: str, end: str, **more: object) -> BackfillRequest:
    return BackfillRequest.model_validate({"from": start, "to": end, **more})


async def backfill(story: Story, request: BackfillRequest) -> BackfillView:
    made, _ = await backfills.make(story.db, story.settings, story.caller, story.schedule_id, request)
    return made


async def test_a_range_of_26_slots_asks_for_confirmation_and_does_nothing_before(story: Story) -> None:
    await story.made("12:30:00", cron="0 * * * *")
    end = "2026-05-01T02:00:00Z"
    just_enough, too_many = "2026-04-30T01:00:00Z", "2026-04-30T00:00:00Z"
    counted = await backfills.preview(story.db, story.settings, story.caller, story.schedule_id, asked(too_many, end))
    assert (counted.count, counted.needs_confirm, counted.over_limit) == (26, True, False)
    with pytest.raises(Conflict) as refused:
        await backfill(story, asked(too_many, end))
    assert (refused.value.code, refused.value.extra["count"]) == ("confirmation_required", 26)
    assert await story.ledger() == []

    confirmed = await backfill(story, asked(too_many, end, confirm=True))
    assert (confirmed.count, confirmed.progress) == (26, {"queued": 25, "pending": 1})
    assert (await backfill(story, asked(just_enough, end, reprocess="all"))).count == 25


async def test_a_range_of_1001_slots_is_refused_whole_and_runs_with_a_limit(story: Story) -> None:
    await story.made("12:30:00", cron="0 * * * *")
    start, end = "2026-03-19T15:00:00Z", "2026-04-30T08:00:00Z"
    with pytest.raises(Conflict, match="Send `limit: 1001`") as refused:
        await backfill(story, asked(start, end, confirm=True))
    assert refused.value.extra["count"] == 1001
    assert await story.ledger() == []

    made = await backfill(story, asked(start, end, confirm=True, limit=1001))
    assert (made.count, made.progress) == (1001, {"queued": 1000, "pending": 1})
    assert (await story.schedule()).next_fire_at == at(instant("13:00"))


async def test_a_failing_slot_in_the_middle_of_a_range_stops_no_other(story: Story) -> None:
    await story.made("12:30:00", cron="0 * * * *", pause_after_failures=1)
    made = await backfill(story, asked("2026-05-01T08:00:00Z", "2026-05-01T11:00:00Z"))
    await story.runs("12:31", "09:00")
    await story.at("12:32", "claim", worker="w1", expect_run="10:00")
    assert [status for _, status, _ in await story.outcome()] == ["completed", "running", "queued"]
    await story.at("12:32:30", "fail", run="10:00")
    await story.runs("12:33", "11:00")
    assert [status for _, status, _ in await story.outcome()] == ["completed", "failed", "completed"]
    ended = await backfills.get(story.db, story.caller, made.id)
    assert (ended.status, ended.progress) == ("completed", {"completed": 2, "failed": 1})
    row = await story.schedule()
    assert (row.status, row.consecutive_failures, row.next_fire_at) == ("active", 0, at(instant("13:00")))
