"""The fire on a real database: what it writes, together or not at all, exactly once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.service import fire, lifecycle, tick
from agentsched.service.schedules import get
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock, at
from tests.waiting import waiting_for_a_lock

pytestmark = pytest.mark.anyio


async def rows(db: Database, statement: str, **parameters: object) -> list[Any]:
    async with db.begin() as conn:
        return list((await conn.execute(text(statement), parameters)).all())


@pytest.mark.parametrize("mode", ["fork", "append", "fresh"])
async def test_a_fire_writes_run_task_target_and_next_fire(
    mode: str, db: Database, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db, timezone="Europe/Berlin")
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner, mode=mode, name="digest")
    await clock.freeze("2026-05-01T00:05:00Z")

    counts = await fire.fire_due(db, settings)

    assert (counts.due, counts.fired, counts.skipped, counts.missed) == (1, 1, 0, 0)
    [run] = await rows(db, "SELECT * FROM runs")
    assert (run.status, run.trigger, run.attempt, run.counted) == ("pending", "cron", 1, True)
    assert run.occurrence_key == "slot:2026-05-01T00:05:00Z"
    [task] = await rows(db, "SELECT * FROM tasks")
    assert (task.status, task.run_id, task.conversation_id) == ("pending", run.id, run.conversation_id)
    assert (task.scheduled_run_id, task.harness) == (run.id, people.HARNESS)
    made = await rows(db, "SELECT * FROM conversations WHERE id <> :owner", owner=owner)
    if mode == "append":
        assert made == []
        assert run.conversation_id == owner
    else:
        [target] = made
        assert target.id == run.conversation_id
        assert target.parent_id == (owner if mode == "fork" else None)
        assert (target.title, target.run_id) == ("digest · 2026-05-01 02:05", run.id)
    after = await get(db, ada, schedule.id)
    assert after.next_fire_at == at("2026-05-01T00:10:00Z")
    assert after.accounted_until == after.last_fire_at == at("2026-05-01T00:05:00Z")


async def test_fork_and_append_use_the_agent_of_the_moment_and_fresh_the_snapshot(
    db: Database, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owner = await people.conversation(db, settings, ada, harness="before")
    for mode in ("fork", "append", "fresh"):
        await people.schedule(db, settings, ada, owner, mode=mode)
    async with db.begin() as conn:
        await conn.execute(
            text(
                "WITH a AS (INSERT INTO agents (principal_id, digest, harness, tools, settings)"
                " VALUES (:p, 'x', 'after', '[]', '{}') RETURNING id)"
                " UPDATE conversations SET agent_id = (SELECT id FROM a) WHERE id = :id"
            ),
            {"p": ada.principal_id, "id": owner},
        )
    await clock.freeze("2026-05-01T00:05:00Z")

    await fire.fire_due(db, settings)

    served = await rows(db, "SELECT harness FROM tasks ORDER BY run_id")
    assert [row.harness for row in served] == ["after", "after", "before"]


@pytest.mark.parametrize("entries", [10, 100_000])
async def test_a_fork_writes_the_same_rows_however_long_its_parent_is(
    entries: int, db: Database, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owner = await people.conversation(db, settings, ada)
    await people.schedule(db, settings, ada, owner)
    async with db.begin() as conn:
        await conn.execute(
            text(
                "INSERT INTO entries (conversation_id, seq, role, content, created_at)"
                " SELECT :id, n, 'user', 'x', now() FROM generate_series(1, :n) n"
            ),
            {"id": owner, "n": entries},
        )
        await conn.execute(text("UPDATE conversations SET last_seq = :n"), {"n": entries})
    await clock.freeze("2026-05-01T00:05:00Z")
    before = await written(db)

    await fire.fire_due(db, settings)

    assert {table: count - before[table] for table, count in (await written(db)).items() if count != before[table]} == {
        "conversations": 1,
        "runs": 1,
        "tasks": 1,
        "principal_days": 1,
    }
    [fork] = await rows(db, "SELECT * FROM conversations WHERE parent_id = :id", id=owner)
    assert (fork.parent_seq, fork.last_seq) == (entries, entries)


async def written(db: Database) -> dict[str, int]:
    """How many rows each table holds."""
    tables = [row[0] for row in await rows(db, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    return {table: (await rows(db, f"SELECT count(*) FROM {table}"))[0][0] for table in tables}


async def test_a_row_that_cannot_be_decided_is_paused_and_stops_nobody(
    db: Database, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owner = await people.conversation(db, settings, ada)
    poisoned = await people.schedule(db, settings, ada, owner)
    healthy = await people.schedule(db, settings, ada, owner)
    async with db.begin() as conn:
        await conn.execute(text("UPDATE schedules SET cron = 'nonsense' WHERE id = :id"), {"id": poisoned.id})
    await clock.freeze("2026-05-01T00:05:00Z")

    await tick.tick(db, settings)

    assert (await get(db, ada, healthy.id)).next_fire_at == at("2026-05-01T00:10:00Z")
    await assert_poisoned(db, poisoned.id)


async def test_a_row_that_the_database_refuses_is_paused_and_stops_nobody(
    db: Database, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owner = await people.conversation(db, settings, ada)
    poisoned = await people.schedule(db, settings, ada, owner)
    healthy = await people.schedule(db, settings, ada, owner)
    async with db.begin() as conn:  # the slot is in the ledger already, as after a restored backup
        await conn.execute(
            text(
                "INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status,"
                " reason, created_at, finished_at) VALUES (:p, :s, 1, 'cron', 'live', '2026-05-01T00:05:00Z',"
                " 'slot:2026-05-01T00:05:00Z', 'skipped', 'overlap', now(), now())"
            ),
            {"p": ada.principal_id, "s": poisoned.id},
        )
    await clock.freeze("2026-05-01T00:05:00Z")

    report = await tick.tick(db, settings)

    assert report.fired == 1
    assert (await get(db, ada, healthy.id)).next_fire_at == at("2026-05-01T00:10:00Z")
    paused = await get(db, ada, poisoned.id)
    assert (paused.status, paused.pause_reason, paused.next_fire_at) == ("paused", "error", None)
    assert len(await rows(db, "SELECT 1 FROM notes WHERE schedule_id = :id", id=poisoned.id)) == 1


async def assert_poisoned(db: Database, schedule_id: int) -> None:
    [run] = await rows(db, "SELECT * FROM runs WHERE schedule_id = :id", id=schedule_id)
    assert (run.status, run.error_code, run.conversation_id) == ("failed", "fire_error", None)
    assert await rows(db, "SELECT 1 FROM tasks WHERE run_id = :id", id=run.id) == []
    [schedule] = await rows(db, "SELECT * FROM schedules WHERE id = :id", id=schedule_id)
    assert (schedule.status, schedule.pause_reason) == ("paused", "error")
    [note] = await rows(db, "SELECT * FROM notes WHERE schedule_id = :id", id=schedule_id)
    assert "could not be fired" in note.text


async def test_an_error_that_is_no_rows_fault_pauses_nobody(db: Database, settings: Settings, clock: Clock) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    schedule = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:00Z")
    async with db.begin() as conn:
        await conn.execute(
            text(
                "CREATE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"
            )
        )
        await conn.execute(
            text("CREATE TRIGGER full_disk BEFORE INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION disk_full()")
        )
    try:
        with pytest.raises(Exception, match="no space left"):
            await tick.tick(db, settings)
    finally:
        async with db.begin() as conn:
            await conn.execute(text("DROP TRIGGER full_disk ON tasks"))
            await conn.execute(text("DROP FUNCTION disk_full()"))
    untouched = await get(db, ada, schedule.id)
    assert (untouched.status, untouched.next_fire_at) == ("active", at("2026-05-01T00:05:00Z"))

    assert (await tick.tick(db, settings)).fired == 1


async def test_a_locked_schedule_is_fired_by_the_same_tick_once_it_is_free(
    db: Database, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    schedule = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:00Z")
    async with db.begin() as holder:
        await holder.execute(text("SELECT FROM schedules WHERE id = :id FOR UPDATE"), {"id": schedule.id})
        firing = asyncio.ensure_future(fire.fire_due(db, settings))
        await waiting_for_a_lock(db)
    assert (await firing).fired == 1


async def test_a_schedule_that_stays_locked_is_left_for_the_next_tick(
    db: Database, settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire, "LOCK_TIMEOUT_MS", 1)
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owner = await people.conversation(db, settings, ada)
    locked = await people.schedule(db, settings, ada, owner)
    await people.schedule(db, settings, ada, owner)
    await clock.freeze("2026-05-01T00:05:00Z")
    async with db.begin() as holder:
        await holder.execute(text("SELECT FROM schedules WHERE id = :id FOR UPDATE"), {"id": locked.id})
        assert (await fire.fire_due(db, settings)).fired == 1
    assert (await fire.fire_due(db, settings)).fired == 1


async def test_a_clock_that_steps_back_repeats_nothing(db: Database, settings: Settings, clock: Clock) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    schedule = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada), overlap="allow")
    await clock.freeze("2026-05-01T00:10:00Z")
    await tick.tick(db, settings)
    await clock.freeze("2026-05-01T00:05:00Z")
    await lifecycle.pause(db, ada, schedule.id)
    await lifecycle.resume(db, settings, ada, schedule.id)
    for _ in range(4):
        await clock.step(minutes=5)
        await tick.tick(db, settings)

    slots = await rows(
        db, "SELECT fire_at, count(*) FROM runs WHERE reason IS DISTINCT FROM 'misfire' GROUP BY 1 ORDER BY 1"
    )
    assert all(count == 1 for _, count in slots)
    first = at("2026-05-01T00:10:00Z")
    assert [slot for slot, _ in slots if slot >= first] == [first + timedelta(minutes=5 * n) for n in range(4)]


async def test_fire_batches_are_bounded_and_none_is_left(db: Database, settings: Settings, clock: Clock) -> None:
    small = settings.model_copy(update={"fire_batch": 3, "schedules_per_conversation": 50})
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owner = await people.conversation(db, small, ada)
    for _ in range(10):
        await people.schedule(db, small, ada, owner)
    await clock.freeze("2026-05-01T00:05:00Z")

    counts = await fire.fire_due(db, small)

    assert counts.fired == 10
    assert len(await rows(db, "SELECT DISTINCT xmin FROM runs")) == 4
