"""After a tzdata change, the fires to come move; what is due and what has been accounted for does not."""

import asyncio
from datetime import datetime

import pytest
from sqlalchemy import text

from agentsched.core.zones import tzdata_version
from agentsched.service.schedules import get
from agentsched.service.tzdata import recompute_after_tzdata_change
from agentsched.settings import Settings
from agentsched.store import facts, schedules
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock, at
from tests.waiting import waiting_for_a_lock

pytestmark = pytest.mark.anyio


async def move_next_fire(db: Database, schedule_id: int, to: datetime) -> None:
    """As if an older tzdata had had another offset."""
    async with db.begin() as conn:
        await conn.execute(
            text("UPDATE schedules SET next_fire_at = :to WHERE id = :id"), {"id": schedule_id, "to": to}
        )


async def remember(db: Database, version: str) -> None:
    async with db.begin() as conn:
        await facts.write(conn, "tzdata_version", version)


async def test_future_fires_are_recomputed_once(db: Database, settings: Settings, clock: Clock) -> None:
    await clock.freeze("2026-05-01T05:00:00Z")
    ada = await people.somebody(db, timezone="Europe/Berlin")
    owner = await people.conversation(db, settings, ada)
    moved, due, ahead, steady, paused, ended = [
        await people.schedule(db, settings, ada, owner, cron="0 9 * * *", name=name)
        for name in ("moved", "due", "ahead", "steady", "paused", "ended")
    ]
    await move_next_fire(db, moved.id, at("2026-05-01T08:00:00Z"))
    await move_next_fire(db, due.id, at("2026-05-01T05:00:00Z"))
    async with db.begin() as conn:
        await conn.execute(
            text(
                "UPDATE schedules SET next_fire_at = '2026-05-02T08:00Z', accounted_until = '2026-05-01T07:00Z'"
                " WHERE id = :id"
            ),
            {"id": ahead.id},
        )
        await conn.execute(
            text(
                "UPDATE schedules SET next_fire_at = '2026-05-01T06:00Z', ends_at = '2026-05-01T06:30Z' WHERE id = :id"
            ),
            {"id": ended.id},
        )
        await conn.execute(
            text(
                "UPDATE schedules SET status = 'paused', pause_reason = 'user', paused_at = clock_now(),"
                " next_fire_at = NULL WHERE id = :id"
            ),
            {"id": paused.id},
        )
    await remember(db, "1970a")

    assert await recompute_after_tzdata_change(db) == 3

    after = {row.name: row for row in [await get(db, ada, s.id) for s in (moved, due, ahead, steady, paused, ended)]}
    assert after["moved"].next_fire_at == at("2026-05-01T07:00:00Z")
    assert after["due"].next_fire_at == at("2026-05-01T05:00:00Z")
    assert after["ahead"].next_fire_at == at("2026-05-02T07:00:00Z")
    assert after["steady"] == steady
    assert after["paused"].next_fire_at is None
    assert (after["ended"].status, after["ended"].next_fire_at) == ("completed", None)
    assert {row.version for row in after.values()} == {1}
    async with db.begin() as conn:
        assert await facts.read(conn, "tzdata_version") == tzdata_version()

    await move_next_fire(db, moved.id, at("2026-05-01T08:00:00Z"))
    assert await recompute_after_tzdata_change(db) == 0
    assert (await get(db, ada, moved.id)).next_fire_at == at("2026-05-01T08:00:00Z")


async def test_a_slot_that_becomes_due_meanwhile_stays(db: Database, settings: Settings, clock: Clock) -> None:
    await clock.freeze("2026-05-01T05:00:00Z")
    ada = await people.somebody(db, timezone="Europe/Berlin")
    owner = await people.conversation(db, settings, ada)
    row = await people.schedule(db, settings, ada, owner, cron="0 9 * * *")
    await move_next_fire(db, row.id, at("2026-05-01T06:00:00Z"))
    await remember(db, "1970a")
    async with db.begin() as conn:
        await schedules.lock(conn, row.id)
        recomputing = asyncio.create_task(recompute_after_tzdata_change(db))
        await waiting_for_a_lock(db)
        await clock.freeze("2026-05-01T06:00:00Z")
    assert await recomputing == 0
    assert (await get(db, ada, row.id)).next_fire_at == at("2026-05-01T06:00:00Z")
