"""Resume with a choice about the slots that passed in the pause (DESIGN §8)."""

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.core.problems import Refused
from agentsched.core.words import Misfire
from agentsched.service import claim, finish, lifecycle, tick, update
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.requests import SchedulePatch
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from tests import people
from tests.clock import Clock, at

pytestmark = pytest.mark.anyio

PASSED = ["10:00", "11:00", "12:00"]


class Paused:
    """An hourly schedule that was paused at 09:30 and is resumed at 12:30."""

    def __init__(self, db: Database, settings: Settings, clock: Clock) -> None:
        self.db, self.settings, self.clock = db, settings, clock
        self.caller: Caller
        self.row: ScheduleRow

    async def begin(self, **fields: object) -> None:
        await self.clock.freeze("2026-05-01T09:10:00Z")
        self.caller = await people.somebody(self.db)
        owner = await people.conversation(self.db, self.settings, self.caller)
        timed = {"at", "every"} & fields.keys()
        body = fields if timed else {"cron": "0 * * * *", **fields}
        self.row = await people.schedule(self.db, self.settings, self.caller, owner, **body)
        await self.clock.freeze("2026-05-01T09:30:00Z")
        await lifecycle.pause(self.db, self.caller, self.row.id)
        await self.clock.freeze("2026-05-01T12:30:00Z")

    async def resume(self, catch_up: Misfire | None) -> ScheduleRow:
        return await lifecycle.resume(self.db, self.settings, self.caller, self.row.id, catch_up=catch_up)

    async def take(self) -> Claimed:
        [task] = await claim.claim(self.db, self.settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
        return task

    async def ledger(self) -> list[tuple[str, str, str | None]]:
        async with self.db.begin() as conn:
            rows = await conn.execute(text("SELECT fire_at, status, reason FROM runs ORDER BY fire_at, id"))
            return [(f"{row.fire_at:%H:%M}", row.status, row.reason) for row in rows]


@pytest.fixture
def paused(db: Database, settings: Settings, clock: Clock) -> Paused:
    return Paused(db, settings, clock)


async def test_without_a_choice_the_pause_is_not_replayed(paused: Paused) -> None:
    await paused.begin()
    row = await paused.resume(None)
    assert (row.status, row.next_fire_at) == ("active", at("2026-05-01T13:00:00Z"))
    assert await paused.ledger() == []


async def test_latest_runs_the_newest_slot_and_says_what_it_leaves_out(paused: Paused, db: Database) -> None:
    await paused.begin()
    row = await paused.resume(Misfire.LATEST)
    assert (row.status, row.next_fire_at) == ("active", at("2026-05-01T13:00:00Z"))
    assert await paused.ledger() == [("10:00", "missed", "misfire"), ("12:00", "pending", None)]
    async with db.begin() as conn:
        missed = (await conn.execute(text("SELECT missed_count, reason_text FROM runs WHERE status = 'missed'"))).one()
    assert missed.missed_count == 2
    assert missed.reason_text == (
        "missed: 2 slots from 10:00 to 11:00 passed while the schedule was paused, and the resume caught up with "
        "newer ones only"
    )


async def test_all_runs_every_slot_in_order_one_at_a_time(paused: Paused) -> None:
    await paused.begin(overlap="skip")
    row = await paused.resume(Misfire.ALL)
    assert row.next_fire_at == at("2026-05-01T13:00:00Z")
    assert await paused.ledger() == [("10:00", "pending", None), ("11:00", "queued", None), ("12:00", "queued", None)]
    await paused.clock.freeze("2026-05-01T12:31:00Z")
    await tick.tick(paused.db, paused.settings)
    assert len(await paused.ledger()) == 3


async def test_all_keeps_the_newest_of_very_many(paused: Paused) -> None:
    await paused.begin()
    paused.settings = paused.settings.model_copy(update={"misfire_all_keep": 2})
    await paused.resume(Misfire.ALL)
    assert await paused.ledger() == [
        ("10:00", "missed", "misfire"),
        ("11:00", "pending", None),
        ("12:00", "queued", None),
    ]


@pytest.mark.parametrize("catch_up", [Misfire.LATEST, Misfire.ALL])
async def test_a_once_that_passed_runs_and_completes(catch_up: Misfire, paused: Paused) -> None:
    await paused.begin(at="2026-05-01T10:00")
    row = await paused.resume(catch_up)
    assert (row.status, row.next_fire_at) == ("completed", None)
    assert await paused.ledger() == [("10:00", "pending", None)]


@pytest.mark.parametrize("catch_up", [Misfire.LATEST, Misfire.ALL])
async def test_with_nothing_passed_it_is_an_ordinary_resume(catch_up: Misfire, paused: Paused) -> None:
    await paused.begin(cron="0 18 * * *")
    row = await paused.resume(catch_up)
    assert (row.status, row.next_fire_at) == ("active", at("2026-05-01T18:00:00Z"))
    assert await paused.ledger() == []


async def test_an_end_in_the_pause_bounds_what_is_caught_up(paused: Paused) -> None:
    await paused.begin(ends_at="2026-05-01T11:00:00Z")
    row = await paused.resume(Misfire.ALL)
    assert (row.status, row.next_fire_at) == ("completed", None)
    assert [minute for minute, _, _ in await paused.ledger()] == ["10:00", "11:00"]


async def test_the_runs_left_bound_what_is_caught_up(paused: Paused) -> None:
    await paused.begin(max_runs=2, overlap="queue")
    row = await paused.resume(Misfire.ALL)
    assert row.status == "completed"
    assert [status for _, status, _ in await paused.ledger() if status in ("pending", "queued")] == [
        "pending",
        "queued",
    ]


async def test_an_edit_in_the_pause_is_the_earliest_that_is_caught_up(paused: Paused) -> None:
    await paused.begin()
    await paused.clock.freeze("2026-05-01T11:30:00Z")
    patch = SchedulePatch.model_validate({"cron": "15 * * * *"})
    await update.update(paused.db, paused.settings, paused.caller, paused.row.id, patch, version=1)
    await paused.clock.freeze("2026-05-01T12:30:00Z")
    row = await paused.resume(Misfire.ALL)
    assert row.next_fire_at == at("2026-05-01T13:15:00Z")
    assert await paused.ledger() == [("12:15", "pending", None)]


@pytest.mark.parametrize("overlap", ["queue_latest", "replace"])
async def test_all_contradicts_policies_that_keep_the_newest_only(overlap: str, paused: Paused) -> None:
    await paused.begin(overlap=overlap)
    with pytest.raises(Refused) as refused:
        await paused.resume(Misfire.ALL)
    [problem] = refused.value.problems
    assert (problem.code, problem.field) == ("policy_conflict", "catch_up")
    assert (await paused.resume(Misfire.LATEST)).status == "active"
    assert (await paused.ledger())[-1] == ("12:00", "pending", None)


async def test_what_is_caught_up_is_spent_of_the_day(paused: Paused, db: Database) -> None:
    await paused.begin(daily_run_limit=2)
    await paused.resume(Misfire.ALL)
    assert await paused.ledger() == [
        ("10:00", "pending", None),
        ("11:00", "queued", None),
        ("12:00", "skipped", "budget"),
    ]
    async with db.begin() as conn:
        assert (await conn.execute(text("SELECT day_runs FROM schedules"))).scalar_one() == 2
        assert (await conn.execute(text("SELECT runs FROM principal_days"))).scalar_one() == 2


async def test_what_is_caught_up_and_waits_restarts_when_its_worker_is_lost(paused: Paused) -> None:
    """As what is caught up at once does: it was late when it was asked for."""
    await paused.begin(overlap="queue")
    await people.run_now(paused.db, paused.caller, paused.row.id)
    await paused.resume(Misfire.LATEST)
    assert (await paused.ledger())[1] == ("12:00", "queued", None)
    manual = await paused.take()
    await finish.report(paused.db, paused.settings, task_id=manual.id, fence=manual.fence, report=Report(End.COMPLETED))
    await paused.take()
    await paused.clock.step(seconds=paused.settings.lease_seconds + 1)
    await tick.sweep(paused.db, paused.settings)
    assert (await paused.ledger())[1] == ("12:00", "pending", None)
