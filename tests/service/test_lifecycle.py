"""Pause, resume, cancel, run now and update on a real database; the shared scenarios have the common paths."""

import pytest
from sqlalchemy import text

from agentsched.core.problems import Refused
from agentsched.service import conversations, lifecycle, tick, update
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, NotFound, StaleVersion
from agentsched.service.requests import SchedulePatch
from agentsched.service.schedules import get
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from tests import people
from tests.clock import Clock, at

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ada(db: Database, clock: Clock) -> Caller:
    await clock.freeze("2026-05-01T00:00:30Z")
    return await people.somebody(db)


@pytest.fixture
async def owner(db: Database, settings: Settings, ada: Caller) -> int:
    return await people.conversation(db, settings, ada)


async def ledger(db: Database, schedule_id: int) -> list[tuple[str, str, str | None]]:
    """The runs of a schedule: minute of the slot, status, reason."""
    async with db.begin() as conn:
        rows = await conn.execute(
            text("SELECT fire_at, status, reason FROM runs WHERE schedule_id = :id ORDER BY fire_at, id"),
            {"id": schedule_id},
        )
        return [(f"{row.fire_at:%H:%M}", row.status, row.reason) for row in rows]


async def patch(db: Database, settings: Settings, ada: Caller, row: ScheduleRow, **fields: object) -> ScheduleRow:
    changes = SchedulePatch.model_validate(fields)
    return await update.update(db, settings, ada, row.id, changes, version=row.version)


async def test_a_pause_accounts_for_the_slot_that_was_due(
    db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner)
    await clock.freeze("2026-05-01T00:05:20Z")
    paused = await lifecycle.pause(db, ada, row.id, note="holiday")
    assert (paused.status, paused.pause_reason, paused.pause_note) == ("paused", "user", "holiday")
    assert await ledger(db, row.id) == [("00:05", "skipped", "paused")]
    again = await lifecycle.pause(db, ada, row.id)
    assert again.pause_note == "holiday"
    await clock.freeze("2026-05-01T00:05:50Z")
    resumed = await lifecycle.resume(db, settings, ada, row.id)
    assert resumed.next_fire_at == at("2026-05-01T00:10:00Z")


async def test_a_once_whose_instant_passes_in_a_pause_is_recorded_and_completed(
    db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner, at="2026-05-01T09:00")
    await lifecycle.pause(db, ada, row.id)
    await clock.freeze("2026-05-01T10:00:00Z")
    resumed = await lifecycle.resume(db, settings, ada, row.id)
    assert (resumed.status, resumed.next_fire_at) == ("completed", None)
    assert await ledger(db, row.id) == [("09:00", "skipped", "paused")]


async def test_what_has_ended_stays_so(db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int) -> None:
    cancelled = await people.schedule(db, settings, ada, owner)
    await lifecycle.cancel(db, ada, cancelled.id)
    completed = await people.schedule(db, settings, ada, owner, at="2026-05-01T00:05")
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    for row in (cancelled, completed):
        for attempt in (
            lifecycle.pause(db, ada, row.id),
            lifecycle.resume(db, settings, ada, row.id),
            patch(db, settings, ada, row, prompt="y"),
        ):
            with pytest.raises(Conflict):
                await attempt
    with pytest.raises(Conflict):
        await people.run_now(db, ada, cancelled.id)
    assert (await people.run_now(db, ada, completed.id)).status == "pending"
    assert (await lifecycle.cancel(db, ada, cancelled.id)).status == "cancelled"


async def test_a_run_now_with_the_same_key_is_the_same_run(
    db: Database, settings: Settings, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner)
    first = await people.run_now(db, ada, row.id, key="k")
    assert (await people.run_now(db, ada, row.id, key="k")).id == first.id
    assert (await people.run_now(db, ada, row.id, key="l")).id != first.id


async def test_a_patch_needs_the_version_that_was_read(
    db: Database, settings: Settings, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner)
    changed = await patch(db, settings, ada, row, prompt="y")
    assert (changed.version, changed.prompt) == (2, "y")
    with pytest.raises(StaleVersion):
        await patch(db, settings, ada, row, prompt="z")
    assert (await get(db, ada, row.id)).prompt == "y"


async def test_a_patch_without_timing_keeps_the_imminent_slot_and_runs_keep_their_version(
    db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner)
    await clock.freeze("2026-05-01T00:05:00Z")
    changed = await patch(db, settings, ada, row, prompt="y", name="digest")
    assert changed.next_fire_at == at("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    await patch(db, settings, ada, changed, prompt="z")
    async with db.begin() as conn:
        prompts = await conn.execute(
            text("SELECT v.prompt FROM runs r JOIN schedule_versions v USING (schedule_id, version)")
        )
        assert list(prompts.scalars()) == ["y"]
        history = await conn.execute(text("SELECT version, action, actor, changes FROM schedule_changes ORDER BY id"))
        assert [(change.version, change.action, change.actor) for change in history] == [
            (1, "created", "key:0"),
            (2, "updated", "key:0"),
            (3, "updated", "key:0"),
        ]


async def test_an_edited_interval_keeps_its_anchor(
    db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner, every="10m")
    await clock.freeze("2026-05-01T00:13:00Z")
    changed = await patch(db, settings, ada, row, every="15m")
    assert changed.anchor_at == at("2026-05-01T00:00:00Z")
    assert changed.next_fire_at == at("2026-05-01T00:15:00Z")


async def test_an_end_that_leaves_nothing_completes_and_accounts_for_what_was_due(
    db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner, overlap="allow")
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    await clock.freeze("2026-05-01T00:10:20Z")
    changed = await patch(db, settings, ada, await get(db, ada, row.id), max_runs=1)
    assert (changed.status, changed.next_fire_at) == ("completed", None)
    assert await ledger(db, row.id) == [("00:05", "pending", None), ("00:10", "skipped", "superseded")]


async def test_a_patch_with_several_mistakes_names_all_and_changes_nothing(
    db: Database, settings: Settings, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner)
    await people.schedule(db, settings, ada, owner, name="taken")
    with pytest.raises(Refused) as refused:
        await patch(db, settings, ada, row, cron="* * * * *", name="taken", misfire="all", overlap="replace")
    codes = {problem.code for problem in refused.value.problems}
    assert codes == {"interval_too_short", "name_taken", "policy_conflict"}
    assert await get(db, ada, row.id) == row


async def test_deleting_a_conversation_cancels_its_schedules_and_keeps_what_forks_need(
    db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int
) -> None:
    row = await people.schedule(db, settings, ada, owner)
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    async with db.begin() as conn:
        fork = (
            await conn.execute(text("SELECT id FROM conversations WHERE parent_id = :id"), {"id": owner})
        ).scalar_one()
    await conversations.delete(db, ada, owner)
    assert (await get(db, ada, row.id)).status == "cancelled"
    with pytest.raises(NotFound):
        await conversations.get(db, ada, owner)
    assert (await conversations.get(db, ada, fork)).parent_id == owner


async def test_a_principal_without_a_zone_has_to_say_one(db: Database, settings: Settings, clock: Clock) -> None:
    nobody = await people.somebody(db, name="nobody", timezone=None)
    conversation_id = await people.conversation(db, settings, nobody)
    with pytest.raises(Refused) as refused:
        await people.schedule(db, settings, nobody, conversation_id)
    assert [problem.code for problem in refused.value.problems] == ["timezone_required"]
    row = await people.schedule(db, settings, nobody, conversation_id, timezone="Asia/Kathmandu")
    assert row.timezone == "Asia/Kathmandu"
