"""One row, one lock or one zone stops nobody else; and what a claim, a pause, a patch and a delete leave alone."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from agentsched.core.words import Scope
from agentsched.service import claim, conversations, finish, keys, lifecycle, schedules, tick, tzdata, update
from agentsched.service.authenticate import authenticate
from agentsched.service.caller import Caller
from agentsched.service.errors import NotFound
from agentsched.service.requests import AgentSpec, NewConversation, SchedulePatch
from agentsched.settings import Settings
from agentsched.store import facts, status
from agentsched.store.database import Database, sqlstate
from tests import people
from tests.clock import Clock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
async def ada(db: Database, clock: Clock) -> Caller:
    await clock.freeze("2026-05-01T00:00:30Z")
    return await people.somebody(db)


async def take(db: Database, settings: Settings, n: int = 1) -> list[claim.Claimed]:
    return await claim.claim(db, settings, worker="w1", harnesses=[people.HARNESS], max_tasks=n)


async def sql(db: Database, statement: str, **parameters: object) -> list[Any]:
    async with db.begin() as conn:
        result = await conn.execute(text(statement), parameters)
        return [tuple(row) for row in result] if result.returns_rows else []


async def statuses(db: Database, schedule_id: int) -> list[str]:
    return [
        row[0] for row in await sql(db, "SELECT status FROM runs WHERE schedule_id = :id ORDER BY id", id=schedule_id)
    ]


async def test_one_frozen_transaction_does_not_stop_the_tick_for_everybody(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    """A worker that is SIGSTOPped (or whose host is gone) in the middle of its finish holds the locks of its task."""
    await people.say(db, settings, ada, await people.conversation(db, settings, ada), "hi")
    [task] = await take(db, settings)
    other = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:10Z")
    async with db.begin() as frozen:
        await frozen.execute(
            text("SELECT FROM conversations WHERE id = :id FOR NO KEY UPDATE"), {"id": task.conversation_id}
        )
        try:
            async with asyncio.timeout(15):
                await tick.tick(db, settings)
        except TimeoutError:
            pass
    assert await statuses(db, other.id) == ["pending"]


async def test_one_frozen_transaction_does_not_stop_the_claims_of_other_principals(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    bob = await people.somebody(db, "bob")
    await people.say(db, settings, ada, await people.conversation(db, settings, ada), "hi")
    await people.say(db, settings, bob, await people.conversation(db, settings, bob), "hi")
    async with db.begin() as frozen:  # a create or a claim, frozen before its COMMIT
        await frozen.execute(text("SELECT FROM principals WHERE id = :id FOR NO KEY UPDATE"), {"id": ada.principal_id})
        async with asyncio.timeout(8):
            assert await take(db, settings, 2)


@pytest.mark.parametrize("what", ["lost", "waiting"])
async def test_one_poisoned_schedule_does_not_stop_reaping_firing_and_recording(
    what: str, db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    """A zone that this process' tzdata does not know: a package downgraded, or older than that of another process."""
    owner = await people.conversation(db, settings, ada)
    bad = await people.schedule(db, settings, ada, owner, overlap="queue", misfire="latest")
    good = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    await take(db, settings, 2)
    await sql(db, "UPDATE tasks SET lease_expires_at = '2026-05-01T00:14Z', restarts = 2")
    await clock.freeze("2026-05-01T00:10:00Z")
    await tick.tick(db, settings)
    assert await statuses(db, bad.id) == ["running", "queued"]
    await sql(
        db,
        "UPDATE schedules SET timezone = 'Mars/Olympus', next_fire_at = '2026-06-01T00:00Z' WHERE id = :id",
        id=bad.id,
    )
    if what == "waiting":
        await sql(db, "UPDATE tasks SET lease_expires_at = '2026-05-02T00:14Z'")
        await sql(db, "UPDATE schedule_versions SET max_concurrency = 2")
    await clock.freeze("2026-05-01T00:15:00Z")
    await tick.tick(db, settings)
    recorded = await sql(db, "SELECT count(*) FROM ticks WHERE minute = '2026-05-01T00:15Z'")
    fired = await sql(
        db, "SELECT count(*) FROM runs WHERE schedule_id = :id AND fire_at = '2026-05-01T00:15Z'", id=good.id
    )
    assert (recorded, fired) == ([(1,)], [(1,)])


async def test_one_poisoned_schedule_does_not_stop_all_claims(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    bad = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    await sql(db, "UPDATE schedules SET timezone = 'Mars/Olympus' WHERE id = :id", id=bad.id)
    assert await take(db, settings, 2)


async def test_a_pause_for_an_error_skips_the_timed_line_like_every_pause(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    bad = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada), overlap="queue")
    for minute in ("05", "10"):
        await clock.freeze(f"2026-05-01T00:{minute}:00Z")
        await tick.tick(db, settings)
    await sql(db, "UPDATE schedules SET timezone = 'Mars/Olympus' WHERE id = :id", id=bad.id)
    await clock.freeze("2026-05-01T00:15:00Z")
    await tick.tick(db, settings)
    assert await statuses(db, bad.id) == ["pending", "skipped", "failed"]


async def test_one_unknown_zone_does_not_keep_workers_from_starting(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    bad = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await sql(db, "UPDATE schedules SET timezone = 'Mars/Olympus' WHERE id = :id", id=bad.id)
    async with db.begin() as conn:
        await facts.write(conn, tzdata.FACT, "2020a")
    await tzdata.recompute_after_tzdata_change(db)


async def test_a_run_past_its_start_deadline_is_not_claimed(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    """DESIGN §8: a 07:00 briefing is never delivered at 11:00. The executor may claim before the reaper comes."""
    await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    await clock.freeze("2026-05-01T04:05:00Z")
    assert await take(db, settings) == []


async def test_finding_an_agent_takes_no_lock_that_fires_wait_for(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    """Only FOR NO KEY UPDATE (DESIGN §5): ON CONFLICT DO UPDATE of a column of a unique key locks FOR UPDATE."""
    owner = await people.conversation(db, settings, ada)
    row = await people.schedule(db, settings, ada, owner)
    await clock.freeze("2026-05-01T00:05:00Z")
    async with db.begin() as creating:
        # what conversations.create and schedules.create do before they commit
        await conversations.agent_id(creating, ada.principal_id, AgentSpec(harness=people.HARNESS))
        try:
            async with asyncio.timeout(3):
                await tick.tick(db, settings)
        except TimeoutError:
            pass
        assert await statuses(db, row.id) == ["pending"]


async def test_two_updates_with_agents_do_not_deadlock(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    a, b = AgentSpec(harness="a"), AgentSpec(harness="b")
    mine = (await conversations.create(db, settings, ada, NewConversation(agent=b)))[0].id
    yours = (await conversations.create(db, settings, ada, NewConversation(agent=a)))[0].id
    first = await people.schedule(db, settings, ada, mine, overlap="queue")
    second = await people.schedule(db, settings, ada, yours, overlap="queue")
    for minute in ("05", "10"):
        await clock.freeze(f"2026-05-01T00:{minute}:00Z")
        await tick.tick(db, settings)
    deadlocks = 0
    for attempt in range(30):
        patch_a = SchedulePatch.model_validate({"agent": {"harness": "a"}, "max_concurrency": 2 + attempt})
        patch_b = SchedulePatch.model_validate({"agent": {"harness": "b"}, "max_concurrency": 2 + attempt})
        done = await asyncio.gather(
            update.update(db, settings, ada, first.id, patch_a, version=first.version),
            update.update(db, settings, ada, second.id, patch_b, version=second.version),
            return_exceptions=True,
        )
        deadlocks += sum(isinstance(d, DBAPIError) and sqlstate(d) == "40P01" for d in done)
        # put a queued run back
        await sql(db, "DELETE FROM tasks WHERE run_id IN (SELECT max(id) FROM runs GROUP BY schedule_id)")
        await sql(
            db,
            "UPDATE runs SET status = 'queued', conversation_id = NULL, attempt = 0"
            " WHERE id IN (SELECT max(id) FROM runs GROUP BY schedule_id)",
        )
        await sql(db, "UPDATE schedule_versions SET max_concurrency = 1")
        first = await schedules.get(db, ada, first.id)
        second = await schedules.get(db, ada, second.id)
    assert deadlocks == 0


async def test_a_deleted_conversation_gets_no_more_runs(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    done = await people.schedule(db, settings, ada, owner, at="2026-05-01T00:05", mode="append")
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    await conversations.delete(db, ada, owner)
    with pytest.raises(NotFound):
        await lifecycle.run_now(db, settings, ada, done.id)


async def test_the_key_of_a_deleted_conversation_is_revoked(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    _, key = await keys.create_key(db, ada.principal_id, scope=Scope.USER, label="x", conversation_id=owner)
    await conversations.delete(db, ada, owner)
    assert await authenticate(db, key) is None


@pytest.mark.parametrize("statement", ["_SCHEDULES", "_RUNS", "_TASKS", "_PENDING"])
async def test_the_status_scans_no_table(
    statement: str, db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    await sql(db, "INSERT INTO principals (name, created_at) SELECT 'p' || i, now() FROM generate_series(1, 50) i")
    owner = await people.conversation(db, settings, ada)
    row = await people.schedule(db, settings, ada, owner)
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    async with db.begin() as conn:
        await conn.execute(
            text(
                "INSERT INTO schedules (principal_id, conversation_id, number, kind, timezone, status, created_at,"
                " updated_at) SELECT 2 + i % 40, :c, 1000 + i, 'webhook', 'UTC', 'cancelled', now(), now()"
                " FROM generate_series(1, 5000) i"
            ),
            {"c": owner},
        )
        await conn.execute(
            text(
                "INSERT INTO schedule_versions SELECT (jsonb_populate_record(v, jsonb_build_object('schedule_id',"
                " s.id))).* FROM schedule_versions v, schedules s WHERE v.schedule_id = :s AND s.id > :s"
            ),
            {"s": row.id},
        )
    # history: 40,000 completed runs and tasks of ada
    await sql(
        db,
        "INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status,"
        " conversation_id, attempt, created_at, started_at, finished_at)"
        " SELECT :p, :s, 1, 'cron', 'live', '2026-01-01T00:00Z', 'x:' || i, 'completed', :c, 1, now(), now(), now()"
        " FROM generate_series(1, 40000) i",
        p=ada.principal_id,
        s=row.id,
        c=owner,
    )
    await sql(
        db,
        "INSERT INTO tasks (principal_id, kind, conversation_id, run_id, scheduled_run_id, agent_id, harness, priority,"
        " due_at, status, attempt, fence, timeout_seconds, claimable_at, created_at, finished_at)"
        " SELECT principal_id, 'run', conversation_id, id, id, 1, 'test', 1, fire_at, 'completed', 1, 1, 60, now(),"
        " now(), now() FROM runs WHERE status = 'completed'",
    )
    async with db.autocommit() as conn:
        await conn.execute(text("ANALYZE"))
    async with db.begin() as conn:
        rows = await conn.execute(
            text("EXPLAIN (ANALYZE, TIMING OFF) " + getattr(status, statement).text), {"principal_id": ada.principal_id}
        )
        plan = "\n".join(r[0] for r in rows)
    assert "40001" not in plan
    assert "40000" not in plan
    assert "Seq Scan on" not in plan.replace("Seq Scan on clock", "")


async def test_a_run_that_was_started_and_handed_back_is_not_called_not_started(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    row = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada))
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    [task] = await take(db, settings)
    await finish.release(db, settings, task_id=task.id, fence=task.fence)
    await clock.freeze("2026-05-01T00:25:00Z")
    await tick.tick(db, settings)
    got = await sql(
        db,
        "SELECT status, reason, started_at IS NOT NULL FROM runs WHERE schedule_id = :id ORDER BY id LIMIT 1",
        id=row.id,
    )
    assert got == [("abandoned", None, True)]


async def test_next_runs_end_with_max_runs(db: Database, settings: Settings, clock: Clock, ada: Caller) -> None:
    row = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada), max_runs=1)
    shown = await schedules.preview_saved(db, ada, row.id, 5)
    assert len(shown.next_runs) == 1


async def test_a_patch_of_one_field_keeps_the_others(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    retry = {"max_attempts": 3, "initial_delay_seconds": 60, "max_delay_seconds": 600}
    row = await people.schedule(
        db, settings, ada, await people.conversation(db, settings, ada), retry=retry, overlap="allow", max_concurrency=3
    )
    patch = SchedulePatch.model_validate({"retry": {"max_attempts": 5}, "overlap": "allow"})
    row = await update.update(db, settings, ada, row.id, patch, version=row.version)
    assert (row.retry_initial_delay_seconds, row.retry_max_delay_seconds, row.max_concurrency) == (60, 600, 3)
