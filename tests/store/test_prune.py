"""What a pruning batch deletes and what it leaves, by index and without waiting (DESIGN §11, §12)."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import TextClause, text

from agentsched.core.attempt import End
from agentsched.service import hooks, requeue, tick
from agentsched.service.claim import Claimed
from agentsched.service.errors import NotFound
from agentsched.service.hooks import Delivery
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store import notes as inboxes
from agentsched.store import prune
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from tests import people
from tests.clock import Clock, at
from tests.service.backfill_scene import Scene as Backfilled
from tests.store.test_plans import indexes
from tests.waiting import waiting_for_a_lock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

FAILED = Report(End.FAILED, error_code="boom", error="the model is away", retryable=False)
DAY = timedelta(days=1)


class Scene(Backfilled):
    """One schedule, hourly from noon of 2026-05-01. ``prune_runs`` takes all that ended before a given instant."""

    async def sql(self, statement: str, **parameters: object) -> list[Any]:
        async with self.db.begin() as conn:
            done = await conn.execute(text(statement), parameters)
            return list(done) if done.returns_rows else []

    async def ids(self, table: str, column: str = "id") -> list[Any]:
        return [row[0] for row in await self.sql(f"SELECT {column} FROM {table} ORDER BY 1")]

    async def run(self, report: Report | None = None) -> int:
        """A run started by hand, ended with a report; its id."""
        row = await people.run_now(self.db, self.ada, self.id)
        task = await self.take()
        assert task.run_id == row.id
        await self.end(task, *([report] if report else []))
        return row.id

    async def requeue(self, run_id: int) -> RunRow:
        new, _ = await requeue.requeue(self.db, self.settings, self.ada, run_id)
        return new

    async def prune_runs(self, before: datetime | None = None) -> list[prune.Batch]:
        batches: list[prune.Batch] = []
        after: int | None = 0
        while after is not None:
            async with self.db.begin() as conn:
                batches.append(await prune.runs(conn, before or await self.now() + DAY, after))
            after = batches[-1].after
        return batches

    async def now(self) -> datetime:
        [(now,)] = await self.sql("SELECT clock_now()")
        return now  # type: ignore[no-any-return]


@pytest.fixture
async def scene(db: Database, settings: Settings, clock: Clock) -> Backfilled:
    return await Scene.begin(db, settings, clock)


@pytest.fixture(params=["young", "used"])
async def used(request: pytest.FixtureRequest, scene: Scene) -> Scene:
    if request.param == "used":
        await scene.sql(SKIPPED, count=2000)
        await scene.sql(NOTES, count=2000)
        async with scene.db.autocommit() as conn:
            await conn.execute(text("ANALYZE"))
    return scene


SKIPPED = """
INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, reason,
                  created_at, finished_at)
SELECT principal_id, id, version, 'cron', 'live', timestamptz '2026-01-01Z' + n * interval '1 hour', 'old:' || n,
       'skipped', 'paused', timestamptz '2026-01-01Z' + n * interval '1 hour',
       timestamptz '2026-01-01Z' + n * interval '1 hour'
FROM schedules, generate_series(1, :count) n
"""

NOTES = """
INSERT INTO notes (conversation_id, kind, text, created_at)
SELECT id, 'budget', n::text, clock_now() FROM conversations, generate_series(1, :count) n
"""

BEFORE = at("2026-04-01T00:00:00Z")


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        (prune.LOCK_ENDED_RUNS, {"after": 0, "before": BEFORE, "limit": prune.RUNS}),
        (prune.DELETE_RUNS, {"ids": [1, 2, 3], "before": BEFORE}),
        (prune.DELETE_BACKFILLS, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_DELIVERIES, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_IDEMPOTENCY_KEYS, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_TICKS, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_OUTAGES, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_EVENTS, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_WORKERS, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.DELETE_REFUSED_CALLS, {"before": BEFORE, "limit": prune.ROWS}),
        (prune.TRIM_NOTES, {"after": 0, "conversations": prune.CONVERSATIONS, "limit": prune.ROWS}),
    ],
    ids=lambda given: given.text.split()[2] if isinstance(given, TextClause) else "",
)
async def test_no_statement_scans_a_table(used: Scene, statement: TextClause, parameters: dict[str, Any]) -> None:
    found, scanned = await indexes(used.db, statement, **parameters)
    assert scanned == set()
    assert found


async def test_a_run_goes_with_its_tasks_once_it_is_old_and_its_conversation_stays(scene: Scene) -> None:
    old = await scene.run()
    await scene.sql(
        "INSERT INTO provisional_entries (task_id, fence, position, entry, created_at)"
        " SELECT id, 1, 1, '{}', created_at FROM tasks"
    )
    await scene.clock.step(days=1)
    young = await scene.run()
    before = await scene.sql("SELECT * FROM conversations ORDER BY id"), await scene.sql("SELECT * FROM entries")

    assert [batch.deleted for batch in await scene.prune_runs(await scene.now())] == [1, 0]
    assert await scene.ids("runs") == [young]
    assert await scene.ids("tasks", "run_id") == [young]
    assert await scene.ids("provisional_entries", "task_id") == []
    assert (await scene.sql("SELECT * FROM conversations ORDER BY id"), await scene.sql("SELECT * FROM entries")) == (
        before
    )
    assert old in await scene.ids("conversations", "run_id"), "it remembers what it was made for"


async def test_what_has_not_ended_stays_however_old(scene: Scene) -> None:
    await people.run_now(scene.db, scene.ada, scene.id)
    await scene.take()
    await people.run_now(scene.db, scene.ada, scene.id)
    await scene.clock.step(days=300)
    await scene.prune_runs()
    assert [row[0] for row in await scene.sql("SELECT status FROM runs ORDER BY id")] == ["running", "pending"]


async def test_a_dead_letter_stays_until_somebody_discards_it(scene: Scene) -> None:
    dead = await scene.run(FAILED)
    await scene.prune_runs()
    assert await scene.ids("runs") == [dead]
    await requeue.discard(scene.db, scene.ada, dead)
    await scene.prune_runs()
    assert await scene.ids("runs") == []


async def test_a_requeued_run_goes_before_its_requeue_and_is_no_dead_letter_in_between(scene: Scene) -> None:
    failed = await scene.run(FAILED)
    new = (await scene.requeue(failed)).id
    await scene.prune_runs()
    assert await scene.ids("runs") == [failed, new], "the requeue is in flight"
    await scene.end(await scene.take())
    await scene.prune_runs()
    assert await scene.ids("runs") == [new]
    await scene.prune_runs()
    assert await scene.ids("runs") == []


async def test_a_requeued_run_stays_while_its_requeue_is_young(scene: Scene) -> None:
    failed = await scene.run(FAILED)
    await scene.clock.step(days=1)
    new = await scene.requeue(failed)
    await scene.end(await scene.take())
    await scene.prune_runs(await scene.now())
    assert await scene.ids("runs") == [failed, new.id]


async def test_the_runs_of_a_backfill_stay_until_it_has_ended_and_it_goes_after_them(scene: Scene) -> None:
    backfill = await scene.backfill(2, 4)
    await scene.work()
    await scene.prune_runs()
    assert await scene.progress(backfill) == ("running", {"completed": 1, "pending": 1})
    await scene.work()
    async with scene.db.begin() as conn:
        assert await prune.backfills(conn, await scene.now() + DAY) == 0, "it has runs"
        assert await prune.backfills(conn, await scene.now() - DAY) == 0
    await scene.prune_runs()
    async with scene.db.begin() as conn:
        assert await prune.backfills(conn, await scene.now() - DAY) == 0, "it is young"
        assert await prune.backfills(conn, await scene.now() + DAY) == 1
    assert (await scene.ids("runs"), await scene.ids("backfills")) == ([], [])


SUBTASK = """
INSERT INTO tasks (principal_id, kind, conversation_id, parent_task_id, scheduled_run_id, agent_id, harness, prompt,
                   priority, due_at, status, attempt, timeout_seconds, claimable_at, created_at)
SELECT t.principal_id, 'subtask', c.id, t.id, t.run_id, t.agent_id, t.harness, 'x', 1, now(), 'pending', 1, 60, now(),
       now()
FROM tasks t, (SELECT min(id) AS id FROM conversations) c RETURNING id
"""


@pytest.mark.parametrize("running", [False, True])
async def test_a_run_stays_while_a_sub_task_of_it_lives(running: bool, scene: Scene) -> None:
    run_id = await scene.run()
    [(subtask,)] = await scene.sql(SUBTASK)
    task: Claimed | None = await scene.take() if running else None
    assert task is None or task.id == subtask
    await scene.prune_runs()
    assert await scene.ids("runs") == [run_id]
    await scene.end(task or await scene.take())
    await scene.prune_runs()
    assert await scene.ids("runs") == []
    assert await scene.sql("SELECT id, scheduled_run_id FROM tasks") == [(subtask, run_id)], "its lineage stays"


async def test_many_runs_go_in_batches_also_behind_many_that_stay(scene: Scene) -> None:
    await scene.sql(SKIPPED, count=1700)
    await scene.sql("UPDATE runs SET status = 'failed', reason = NULL WHERE id <= 600")
    batches = await scene.prune_runs(BEFORE)
    assert [batch.deleted for batch in batches] == [0, 400, 500, 200, 0], "those of 2026-03-12 and later are young"
    assert len(await scene.ids("runs")) == 600


async def test_what_another_holds_is_passed_over_and_judged_anew(scene: Scene) -> None:
    failed = await scene.run(FAILED)
    await requeue.discard(scene.db, scene.ada, failed)
    async with scene.db.begin() as conn:
        await requeue.lock(conn, scene.ada, failed)
        async with asyncio.timeout(20):
            assert [batch.deleted for batch in await scene.prune_runs()] == [0, 0]
    new = await scene.requeue(failed)
    await scene.prune_runs()
    assert await scene.ids("runs") == [failed, new.id]


async def test_who_waits_for_a_run_that_is_pruned_finds_none(scene: Scene) -> None:
    failed = await scene.run(FAILED)
    await requeue.discard(scene.db, scene.ada, failed)
    async with scene.db.begin() as conn:
        assert (await prune.runs(conn, await scene.now() + DAY, 0)).deleted == 1
        waiting = asyncio.create_task(scene.requeue(failed))
        await waiting_for_a_lock(scene.db)
    with pytest.raises(NotFound):
        await waiting


async def test_several_prune_at_once(scene: Scene) -> None:
    await scene.sql(SKIPPED, count=1000)
    walks = await asyncio.gather(*(scene.prune_runs() for _ in range(3)))
    assert sum(batch.deleted for walk in walks for batch in walk) == 1000
    assert await scene.ids("runs") == []


async def test_a_delivery_stays_while_a_run_may_need_what_came(scene: Scene) -> None:
    _, token = await people.webhook(scene.db, scene.settings, scene.ada, scene.owner, overlap="allow")
    for _ in range(3):
        await hooks.accept(scene.db, scene.settings, token, Delivery(b"{}", "application/json"))
    first, second, third = [await scene.take() for _ in range(3)]
    expiry = await scene.now() + timedelta(days=scene.settings.delivery_retention_days)

    async def prune_deliveries(before: datetime) -> int:
        async with scene.db.begin() as conn:
            return await prune.deliveries(conn, before)

    assert await prune_deliveries(expiry + DAY) == 0, "all are in flight"
    await scene.end(first)
    assert await prune_deliveries(expiry) == 0, "it is no older than its retention"
    assert await prune_deliveries(expiry + DAY) == 1
    await scene.end(second, FAILED)
    assert await prune_deliveries(expiry + DAY) == 0, "it can be requeued"
    assert third.run_id is not None
    await scene.end(third, FAILED)
    new = await scene.requeue(third.run_id)
    await scene.end(await scene.take())
    await scene.prune_runs()
    assert await scene.ids("runs") == [second.run_id, new.id]
    assert await prune_deliveries(expiry + DAY) == 1
    assert await scene.ids("deliveries", "run_id") == [second.run_id]


async def test_an_idempotency_key_stays_while_the_run_that_bears_it_does(scene: Scene) -> None:
    run = await people.run_now(scene.db, scene.ada, scene.id, key="once")
    await scene.end(await scene.take())
    await scene.backfill(2, 3, key="again")
    await scene.end(await scene.take())

    async def prune_keys(before: datetime) -> int:
        async with scene.db.begin() as conn:
            return await prune.idempotency_keys(conn, before)

    assert await prune_keys(await scene.now()) == 0
    assert await prune_keys(await scene.now() + DAY) == 1
    assert await scene.ids("idempotency_keys", "key") == ["once"]
    assert (await people.run_now(scene.db, scene.ada, scene.id, key="once")).id == run.id
    await scene.prune_runs()
    assert await prune_keys(await scene.now() + DAY) == 1
    assert (await people.run_now(scene.db, scene.ada, scene.id, key="once")).id > run.id


async def test_the_newest_tick_stays_because_it_tells_of_the_outage_after_it(scene: Scene) -> None:
    for _ in range(3):
        await tick.tick(scene.db, scene.settings)
        await scene.clock.step(minutes=1)
    await scene.clock.step(days=100)
    async with scene.db.begin() as conn:
        assert await prune.ticks(conn, await scene.now() - DAY) == 2
    assert [f"{minute:%H:%M}" for minute in await scene.ids("ticks", "minute")] == ["12:02"]
    await tick.tick(scene.db, scene.settings)
    assert [f"{minute:%H:%M}" for minute in await scene.ids("outages", "last_minute")] == ["12:02"]
    [until] = await scene.ids("outages", "until_minute")
    for before, deleted in ((until, 0), (until + DAY, 1)):
        async with scene.db.begin() as conn:
            assert await prune.outages(conn, before) == deleted


async def test_events_and_workers_go_when_they_are_old(scene: Scene) -> None:
    noon, evening = at("2026-05-01T12:00:00Z"), at("2026-05-01T20:00:00Z")
    for when in (noon, evening):
        await scene.sql("INSERT INTO events (principal_id, kind, data, created_at) VALUES (1, 'x', '{}', :at)", at=when)
        await scene.sql("INSERT INTO workers VALUES (:name, '{}', :at)", name=f"w{when:%H}", at=when)
    async with scene.db.begin() as conn:
        assert (await prune.events(conn, noon), await prune.workers(conn, noon)) == (0, 0)
        assert (await prune.events(conn, evening), await prune.workers(conn, evening)) == (1, 1)
    assert (await scene.ids("events", "created_at"), await scene.ids("workers", "name")) == ([evening], ["w20"])


async def test_of_each_conversation_the_newest_notes_stay(scene: Scene) -> None:
    others = [await people.conversation(scene.db, scene.settings, scene.ada) for _ in range(4)]
    counts = {scene.owner: 60, others[0]: 50, others[2]: 1100, others[3]: 1200}
    for conversation, count in counts.items():
        await scene.sql(NOTES + " WHERE id = :id", count=count, id=conversation)
    batches = []
    after: int | None = 0
    while after is not None:
        async with scene.db.begin() as conn:
            batches.append(await prune.notes(conn, after))
        after = batches[-1].after
    assert [batch.deleted for batch in batches] == [1000, 1000, 210, 0]
    for conversation, count in counts.items():
        async with scene.db.begin() as conn:
            kept = await inboxes.newest(conn, conversation)
        assert [note.text for note in kept] == [str(count - number) for number in range(50)]
    assert len(await scene.ids("notes")) == 4 * 50


async def test_inboxes_that_another_trims_are_passed_over(scene: Scene) -> None:
    await scene.sql(NOTES, count=2000)
    async with scene.db.begin() as conn:
        await prune.notes(conn, 0)
        async with scene.db.begin() as other, asyncio.timeout(20):
            assert await prune.notes(other, 0) == prune.Batch(scene.owner, 0)
