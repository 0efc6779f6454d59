"""Backfills on a real database: which slots run, in which order, and how one ends."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

import pytest
from sqlalchemy import text

from agentsched.core.problems import Refused
from agentsched.core.words import Scope
from agentsched.service import backfills, conversations, lifecycle, reap, tick, update
from agentsched.service.backfill_views import BackfillView
from agentsched.service.caller import Caller
from agentsched.service.cancel_run import cancel_run
from agentsched.service.errors import Conflict, NotFound
from agentsched.service.requests import SchedulePatch
from agentsched.settings import Settings
from agentsched.store import schedules
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock, at
from tests.service.backfill_scene import FAILED, Scene
from tests.waiting import waiting_for_a_lock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scene(db: Database, settings: Settings, clock: Clock) -> Scene:
    return await Scene.begin(db, settings, clock)


async def codes(asking: Awaitable[object]) -> list[tuple[str, str]]:
    """Code and field of each problem that the request has."""
    with pytest.raises(Refused) as refused:
        await asking
    assert all(problem.fix and problem.problem for problem in refused.value.problems)
    return [(problem.code, problem.field) for problem in refused.value.problems]


async def refused(asking: Awaitable[object]) -> tuple[str, object]:
    """The code and the count of a refusal for size."""
    with pytest.raises(Conflict) as conflict:
        await asking
    return conflict.value.code, conflict.value.extra.get("count")


async def rows(scene: Scene, table: str) -> int:
    async with scene.db.begin() as conn:
        counted: int = (await conn.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one()
    return counted


async def test_slots_run_in_order_one_at_a_time_and_a_failing_one_stops_nothing(scene: Scene) -> None:
    before = await scene.schedule()
    made = await scene.backfill(8, 11)
    assert (made.count, made.status, made.progress) == (3, "running", {"pending": 1, "queued": 2})
    assert [await scene.work(), await scene.work(FAILED)] == ["09:00", "10:00"]
    task = await scene.take()
    assert await scene.claim("w2") == []
    assert await scene.progress(made) == ("running", {"running": 1, "completed": 1, "failed": 1})
    await scene.clock.step(minutes=1)
    await scene.end(task)
    assert await scene.progress(made) == ("completed", {"completed": 2, "failed": 1})
    assert (await scene.shown(made)).finished_at == at("2026-05-01T12:01:30Z")
    after = await scene.schedule()
    assert (after.next_fire_at, after.consecutive_failures) == (before.next_fire_at, 0)


async def test_both_ends_of_the_range(scene: Scene) -> None:
    assert (await scene.backfill(8, 9)).count == 1
    assert [slot for slot, *_ in await scene.ledger()] == ["09:00"]
    preview = await scene.count("2026-05-01T08:59:59Z", "2026-05-01T10:59:59.9+00:00", reprocess="all")
    assert (preview.first, preview.last) == (at("2026-05-01T09:00:00Z"), at("2026-05-01T10:00:00Z"))


async def test_a_range_before_the_creation_and_across_a_change_of_clocks(
    db: Database, settings: Settings, clock: Clock
) -> None:
    scene = await Scene.begin(db, settings, clock, cron="30 1,2,3 * * *", timezone="Europe/Berlin")
    counted = await scene.count("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z")
    assert (counted.count, counted.first) == (3, at("2026-03-29T00:30:00Z"))


async def test_more_than_25_slots_ask_first(scene: Scene) -> None:
    assert await refused(scene.backfill(-14, 12)) == ("confirmation_required", 26)
    assert [await rows(scene, table) for table in ("runs", "backfills")] == [0, 0]
    assert (await scene.backfill(-13, 12)).count == 25
    assert (await scene.backfill(-14, 12, reprocess="all", confirm=True)).count == 26


async def test_more_than_1000_slots_need_a_limit(scene: Scene) -> None:
    assert await refused(scene.backfill(12 - 1001, 12, confirm=True)) == ("too_many_slots", 1001)
    assert await refused(scene.backfill(12 - 1001, 12, limit=1001)) == ("confirmation_required", 1001)
    assert await refused(scene.backfill(9, 12, limit=2)) == ("too_many_slots", 3)
    assert await rows(scene, "runs") == 0
    assert (await scene.backfill(12 - 1001, 12, confirm=True, limit=1001)).count == 1001


async def test_a_refusal_says_what_to_send(scene: Scene) -> None:
    for after, fields, needed in (
        (-14, {}, ("26 slots", "`confirm: true` (--confirm)")),
        (-989, {}, ("1001 slots", "`limit: 1001` (--limit 1001) and `confirm: true` (--confirm)")),
        (-989, {"confirm": True}, ("`limit: 1001` (--limit 1001) to run them",)),
        (-9989, {"reprocess": "all"}, ("10001 slots", "`limit` (--limit) allows 10000 at most")),
    ):
        with pytest.raises(Conflict) as conflict:
            await scene.backfill(after, 12, **fields)
        assert "Nothing was done" in conflict.value.message
        assert all(words in conflict.value.message for words in needed), conflict.value.message


async def test_a_range_too_long_to_be_walked_says_more_than(db: Database, settings: Settings, clock: Clock) -> None:
    scene = await Scene.begin(db, settings, clock, cron="*/5 * * * *")
    begin, end = "2025-01-01T00:00:00Z", "2026-05-01T00:00:00Z"
    assert await refused(scene.backfill(begin, end, reprocess="all", confirm=True)) == ("too_many_slots", 100_000)
    counted = await scene.count(begin, end, reprocess="all")
    assert (counted.count, counted.count_is_exact, counted.over_limit) == (100_000, False, True)


async def test_a_dry_run_counts_after_reprocess_and_writes_nothing(scene: Scene) -> None:
    await scene.backfill(9, 11)
    before = await rows(scene, "runs"), await rows(scene, "schedule_changes")
    counted = await scene.count(8, 12)
    assert (counted.id, counted.dry_run, counted.count) == (None, True, 2)
    assert (counted.first, counted.last) == (at("2026-05-01T09:00:00Z"), at("2026-05-01T12:00:00Z"))
    assert (counted.needs_confirm, counted.over_limit) == (False, False)
    many = await scene.count(-989, 12, reprocess="all")
    assert (many.count, many.needs_confirm, many.over_limit) == (1001, True, True)
    assert not (await scene.count(-989, 12, reprocess="all", limit=1001)).over_limit
    none = await scene.count(9, 11)
    assert (none.count, none.first, none.last) == (0, None, None)
    assert (await rows(scene, "runs"), await rows(scene, "schedule_changes")) == before


async def test_nothing_to_do_is_done_at_once(scene: Scene) -> None:
    made = await scene.backfill("2026-05-01T11:00:00Z", "2026-05-01T11:59:00Z")
    assert (made.count, made.status, made.progress, made.finished_at) == (
        0,
        "completed",
        {},
        at("2026-05-01T12:00:30Z"),
    )


async def test_the_three_forms_of_reprocess(db: Database, settings: Settings, clock: Clock) -> None:
    """09:00 completed, 10:00 failed, 11:00 cancelled, 12:00 in flight; 13:00 skipped and 14:00 never fired."""
    scene = await Scene.begin(db, settings, clock)
    await scene.backfill(8, 11)
    await scene.work()
    await scene.work(FAILED)
    await cancel_run(db, settings, scene.ada, (await scene.run_ids("backfill", "pending"))[0])
    await scene.backfill(11, 12)
    await clock.freeze("2026-05-01T13:00:00Z")
    await scene.take()
    await people.run_now(db, scene.ada, scene.id)
    await tick.tick(db, settings)
    await lifecycle.pause(db, scene.ada, scene.id)
    await clock.freeze("2026-05-01T14:30:00Z")
    assert (await scene.ledger())[-2:] == [
        ("13:00", "manual", "pending", None),
        ("13:00", "cron", "skipped", "overlap"),
    ]

    async def hours(reprocess: str) -> list[str]:
        counted = await scene.count(8, 14, reprocess=reprocess)
        made = await scene.backfill(8, 14, reprocess=reprocess)
        assert made.count == counted.count
        statement = text("SELECT to_char(fire_at, 'HH24') FROM runs WHERE backfill_id = :id ORDER BY id")
        async with db.begin() as conn:
            found = list((await conn.execute(statement, {"id": made.id})).scalars())
        await backfills.cancel(db, settings, scene.ada, made.id)
        return found

    assert await hours("failed") == ["10"]
    assert await hours("missing") == ["11", "13", "14"]
    assert await hours("all") == ["09", "10", "11", "12", "13", "14"]


async def test_two_backfills_of_a_schedule_go_one_at_a_time_and_do_not_count_each_others_slots(scene: Scene) -> None:
    first = await scene.backfill(9, 11)
    second = await scene.backfill(8, 12)
    again = await scene.backfill(9, 10, reprocess="all")
    assert (first.count, second.count, again.count) == (2, 2, 1)
    assert [await scene.work() for _ in range(5)] == ["10:00", "09:00", "10:00", "11:00", "12:00"]
    for backfill, count in ((first, 2), (second, 2), (again, 1)):
        assert await scene.progress(backfill) == ("completed", {"completed": count})


async def test_a_requeue_counts_for_the_slot_of_its_original(scene: Scene) -> None:
    await scene.backfill(8, 9)
    await scene.work(FAILED)
    manual = await people.run_now(scene.db, scene.ada, scene.id)
    await scene.work(FAILED)
    insert = text("""
    INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status, requeue_of,
                      conversation_id, attempt, started_at, finished_at, created_at)
    SELECT principal_id, schedule_id, version, 'requeue', 'live', :fire_at, 'requeue:' || id, 'completed', id,
           conversation_id, 1, created_at, created_at, created_at FROM runs WHERE id = :id RETURNING id
    """)
    [failed] = await scene.run_ids("backfill", "failed")
    async with scene.db.begin() as conn:
        await conn.execute(insert, {"id": failed, "fire_at": at("2026-05-01T09:00:00Z")})
        of_hand = await conn.execute(insert, {"id": manual.id, "fire_at": at("2026-05-01T12:00:00Z")})
        await conn.execute(insert, {"id": of_hand.scalar_one(), "fire_at": at("2026-05-01T12:00:00Z")})
    assert (await scene.count(8, 9, reprocess="failed")).count == 0
    assert (await scene.count(11, 12)).count == 1


async def test_a_live_fire_that_only_a_backfill_run_blocks_waits_and_goes_first(
    db: Database, settings: Settings, clock: Clock, subtests: pytest.Subtests
) -> None:
    for overlap in ("skip", "queue"):
        with subtests.test(overlap=overlap):
            scene = await Scene.begin(db, settings, clock, overlap=overlap)
            await scene.backfill(8, 10)
            task = await scene.take()
            for hour in (13, 14):
                await clock.freeze(f"2026-05-01T{hour}:00:00Z")
                await scene.beat(task)
                await tick.tick(db, settings)
            waiting = [
                (slot, status, reason) for slot, trigger, status, reason in await scene.ledger() if trigger == "cron"
            ]
            kept = ("13:00", "queued", None) if overlap == "queue" else ("13:00", "skipped", "superseded")
            assert waiting == [kept, ("14:00", "queued", None)]
            await scene.end(task)
            live = ["13:00", "14:00"] if overlap == "queue" else ["14:00"]
            assert [await scene.work() for _ in range(len(live) + 1)] == [*live, "10:00"]
            await lifecycle.cancel(db, scene.ada, scene.id)


async def test_backfill_runs_take_a_slot_beside_live_ones(db: Database, settings: Settings, clock: Clock) -> None:
    scene = await Scene.begin(db, settings, clock, max_concurrency=2)
    await people.run_now(db, scene.ada, scene.id)
    made = await scene.backfill(8, 11)
    assert made.progress == {"pending": 1, "queued": 2}
    await clock.freeze("2026-05-01T13:00:00Z")
    await tick.tick(db, settings)
    assert (await scene.ledger())[-1] == ("13:00", "cron", "queued", None)
    assert await scene.progress(made) == ("running", {"pending": 1, "queued": 2})


async def test_a_pause_does_not_touch_a_backfill(scene: Scene) -> None:
    made = await scene.backfill(8, 10)
    await lifecycle.pause(scene.db, scene.ada, scene.id)
    assert [await scene.work(), await scene.work()] == ["09:00", "10:00"]
    assert (await scene.shown(made)).status == "completed"
    await scene.clock.freeze("2026-05-01T15:30:00Z")
    passed = await scene.backfill(12, 15)
    assert (passed.count, passed.progress) == (3, {"pending": 1, "queued": 2})


async def test_a_change_of_timing_does_not_touch_a_backfill(scene: Scene) -> None:
    made = await scene.backfill(8, 10)
    row = await scene.schedule()
    patch = SchedulePatch.model_validate({"cron": "30 * * * *"})
    await update.update(scene.db, scene.settings, scene.ada, scene.id, patch, version=row.version)
    assert [await scene.work(), await scene.work()] == ["09:00", "10:00"]
    assert (await scene.shown(made)).status == "completed"
    assert (await scene.count(8, 10)).first == at("2026-05-01T08:30:00Z")


async def test_a_lost_run_restarts_however_late_it_is_and_its_third_loss_is_its_failure(scene: Scene) -> None:
    made = await scene.backfill(8, 9)
    for loss in (1, 2, 3):
        await scene.take(f"w{loss}")
        await scene.clock.step(seconds=31)
        await reap.reap(scene.db, scene.settings)
        expected = ("running", {"pending": 1}) if loss < 3 else ("completed", {"failed": 1})
        assert await scene.progress(made) == expected


async def test_a_retry_keeps_the_place_of_its_run(db: Database, settings: Settings, clock: Clock) -> None:
    scene = await Scene.begin(db, settings, clock, retry={"max_attempts": 2})
    made = await scene.backfill(8, 10)
    await scene.work(FAILED)
    assert await scene.progress(made) == ("running", {"queued": 1, "retry_wait": 1})
    await clock.step(hours=10)
    await reap.reap(db, settings)
    assert [await scene.work(), await scene.work()] == ["09:00", "10:00"]
    assert (await scene.shown(made)).status == "completed"


async def test_cancel_leaves_the_run_in_flight_and_is_done_once(scene: Scene) -> None:
    made = await scene.backfill(8, 11)
    task = await scene.take()
    await scene.clock.step(minutes=1)
    for _ in range(2):
        cancelled = await backfills.cancel(scene.db, scene.settings, scene.ada, made.id)
        assert (cancelled.status, cancelled.progress) == ("cancelled", {"running": 1, "skipped": 2})
        assert cancelled.finished_at == at("2026-05-01T12:01:30Z")
    await scene.end(task)
    assert await scene.progress(made) == ("cancelled", {"completed": 1, "skipped": 2})
    assert await scene.ledger() == [
        ("09:00", "backfill", "completed", None),
        ("10:00", "backfill", "skipped", "backfill_cancelled"),
        ("11:00", "backfill", "skipped", "backfill_cancelled"),
    ]


async def test_cancel_can_stop_what_runs_and_the_next_in_line_starts(scene: Scene) -> None:
    pending = await scene.backfill(8, 9)
    other = await scene.backfill(9, 10)
    stopped = await backfills.cancel(scene.db, scene.settings, scene.ada, pending.id, stop_running=True)
    assert (stopped.status, stopped.progress) == ("cancelled", {"cancelled": 1})
    assert await scene.progress(other) == ("running", {"pending": 1})
    task = await scene.take()
    await backfills.cancel(scene.db, scene.settings, scene.ada, other.id)
    await backfills.cancel(scene.db, scene.settings, scene.ada, other.id, stop_running=True)
    [run] = await scene.run_ids("backfill", "running")
    async with scene.db.begin() as conn:
        asked = await conn.execute(text("SELECT cancel_requested_at FROM runs WHERE id = :id"), {"id": run})
        assert asked.scalar_one() is not None
    await scene.end(task)
    assert await scene.progress(other) == ("cancelled", {"completed": 1})


async def test_a_completed_one_cannot_be_cancelled(scene: Scene) -> None:
    made = await scene.backfill(8, 9)
    await scene.work()
    with pytest.raises(Conflict, match="is completed"):
        await backfills.cancel(scene.db, scene.settings, scene.ada, made.id)


async def test_the_last_run_ends_it_whatever_way_it_ends(scene: Scene) -> None:
    made = await scene.backfill(8, 10)
    [queued] = await scene.run_ids("backfill", "queued")
    await cancel_run(scene.db, scene.settings, scene.ada, queued)
    assert await scene.progress(made) == ("running", {"pending": 1, "cancelled": 1})
    [pending] = await scene.run_ids("backfill", "pending")
    await cancel_run(scene.db, scene.settings, scene.ada, pending)
    assert await scene.progress(made) == ("completed", {"cancelled": 2})
    last = await scene.backfill(8, 9)
    await scene.take()
    await people.run_now(scene.db, scene.ada, scene.id)
    waiting = await scene.backfill(9, 10)
    [queued] = await scene.run_ids("backfill", "queued")
    await cancel_run(scene.db, scene.settings, scene.ada, queued)
    assert await scene.progress(waiting) == ("completed", {"cancelled": 1})
    assert (await scene.shown(last)).status == "running"


@pytest.mark.parametrize("stop_running", [False, True])
async def test_a_cancelled_schedule_cancels_its_backfills(stop_running: bool, scene: Scene) -> None:
    done = await scene.backfill(8, 9)
    await scene.work()
    made = await scene.backfill(9, 11)
    await lifecycle.cancel(scene.db, scene.ada, scene.id, stop_running=stop_running)
    assert await scene.progress(done) == ("completed", {"completed": 1})
    first = "cancelled" if stop_running else "pending"
    assert await scene.progress(made) == ("cancelled", {first: 1, "skipped": 1})
    assert (await scene.ledger())[-1] == ("11:00", "backfill", "skipped", "schedule_cancelled")
    assert await refused(scene.backfill(8, 9)) == ("schedule_cancelled", None)
    assert await refused(scene.count(8, 9)) == ("schedule_cancelled", None)


@pytest.mark.parametrize("fields", [{}, {"at": "2026-05-01T12:30:00Z"}])
async def test_a_deleted_conversation_ends_the_backfills_of_its_schedules(
    fields: dict[str, str], db: Database, settings: Settings, clock: Clock
) -> None:
    scene = await Scene.begin(db, settings, clock, **fields)
    await clock.freeze("2026-05-01T12:30:00Z")
    await tick.tick(db, settings)
    made = await scene.backfill("2026-05-01T11:00:00Z", "2026-05-01T12:30:00Z", reprocess="all")
    await conversations.delete(db, scene.ada, scene.owner)
    assert (await scene.schedule()).status == ("completed" if fields else "cancelled")
    assert (await scene.shown(made)).status == "cancelled"
    assert await scene.run_ids("backfill", "queued") == []


async def test_a_completed_schedule_can_be_backfilled(db: Database, settings: Settings, clock: Clock) -> None:
    scene = await Scene.begin(db, settings, clock, max_runs=1, ends_at="2026-05-01T14:30:00Z")
    await clock.freeze("2026-05-01T13:00:00Z")
    await tick.tick(db, settings)
    await scene.work()
    assert (await scene.schedule()).status == "completed"
    await clock.freeze("2026-05-01T16:30:00Z")
    assert await codes(scene.backfill(12, 17)) == [("to_in_the_future", "to")]
    made = await scene.backfill(12, 16)
    assert made.count == 1, "13:00 ran, and after ends_at there are no slots"
    assert await scene.work() == "14:00"
    assert (await scene.schedule()).runs_admitted == 1


async def test_ranges_that_cannot_be(scene: Scene, subtests: pytest.Subtests) -> None:
    for name, after, until, fields, expected in (
        ("empty", 9, 9, {}, [("range_empty", "to")]),
        ("backwards", 9, 8, {}, [("range_empty", "to")]),
        ("naive", "2026-05-01T09:00:00", "2026-05-01", {}, [("instant_naive", "from"), ("instant_naive", "to")]),
        ("too early", "1969-12-31T23:59:00Z", 9, {}, [("instant_out_of_range", "from")]),
        ("year 0", "0001-01-01T00:00:00+14:00", 9, {}, [("instant_out_of_range", "from")]),
        ("year 10000", 9, "9999-12-31T23:59:59-10:00", {}, [("instant_out_of_range", "to")]),
        ("next fire", 9, 13, {}, [("to_not_before_next_fire", "to")]),
        ("future", 9, "2027-05-01T00:00:00Z", {}, [("to_not_before_next_fire", "to")]),
        ("old", "2026-01-31T12:00:29Z", 9, {}, [("from_before_retention", "from")]),
        ("two", "2026-01-01T00:00:00Z", 13, {}, [("to_not_before_next_fire", "to"), ("from_before_retention", "from")]),
    ):
        with subtests.test(name=name):
            assert await codes(scene.backfill(after, until, confirm=True, **fields)) == expected
            assert await codes(scene.count(after, until)) == expected
    assert (await scene.count("2026-05-01T09:00:00Z", "2026-05-01T12:59:59Z")).count == 3
    assert (await scene.count("2026-01-31T12:00:30Z", 9)).count == 2157
    assert (await scene.count("2026-01-31T12:00:29Z", 9, reprocess="failed")).count == 0
    assert await rows(scene, "backfills") == 0


async def test_a_webhook_schedule_has_no_slots(db: Database, settings: Settings, clock: Clock) -> None:
    scene = await Scene.begin(db, settings, clock, webhook=True)
    assert await codes(scene.backfill(8, 9)) == [("webhook_has_no_slots", "from")]


async def test_it_spends_the_days_of_schedule_and_principal_and_no_max_runs(
    db: Database, settings: Settings, clock: Clock
) -> None:
    scene = await Scene.begin(db, settings, clock, max_runs=5, daily_run_limit=2)
    await scene.backfill(7, 11)
    row = await scene.schedule()
    assert (row.runs_admitted, row.day_runs, row.next_fire_at) == (0, 4, at("2026-05-01T13:00:00Z"))
    async with db.begin() as conn:
        assert (await conn.execute(text("SELECT runs FROM principal_days"))).scalar_one() == 4
        assert (await conn.execute(text("SELECT count(*) FROM runs WHERE counted"))).scalar_one() == 0
    await scene.backfill(6, 7)
    assert (await scene.schedule()).day_runs == 5


async def test_the_history_says_who_and_what(scene: Scene) -> None:
    made = await scene.backfill(8, 11)
    await backfills.cancel(scene.db, scene.settings, scene.ada, made.id)
    async with scene.db.begin() as conn:
        found = await conn.execute(text("SELECT action, actor, changes FROM schedule_changes ORDER BY id OFFSET 1"))
        backfilled, cancelled = found
    assert (backfilled.action, backfilled.actor) == ("backfilled", "key:0")
    assert (backfilled.changes["backfill_id"], backfilled.changes["count"]) == (made.id, 3)
    assert (cancelled.action, cancelled.changes) == ("backfill_cancelled", {"backfill_id": made.id})


async def test_somebody_elses_are_as_absent(scene: Scene) -> None:
    made = await scene.backfill(8, 9)
    bob = await people.somebody(scene.db, name="bob")
    elsewhere = await people.conversation(scene.db, scene.settings, scene.ada)
    bound = Caller(scene.ada.principal_id, Scope.USER, "key:1", conversation_id=elsewhere)
    for caller in (bob, bound):
        for asking, what in (
            (backfills.get(scene.db, caller, made.id), "backfill"),
            (backfills.cancel(scene.db, scene.settings, caller, made.id), "backfill"),
            (backfills.list_page(scene.db, caller, scene.id, before=None, limit=9), "schedule"),
            (scene.backfill(8, 9, by=caller), "schedule"),
        ):
            with pytest.raises(NotFound) as absent:
                await asking
            assert absent.value.code == f"{what}_not_found"
    own = Caller(scene.ada.principal_id, Scope.USER, "key:1", conversation_id=scene.owner)
    assert (await backfills.get(scene.db, own, made.id)).id == made.id


async def test_twenty_at_once_with_one_key_are_one_backfill(scene: Scene) -> None:
    request = scene.request(8, 11, reprocess="all")
    made = await asyncio.gather(
        *(backfills.make(scene.db, scene.settings, scene.ada, scene.id, request, key="k") for _ in range(20))
    )
    assert len({backfill.id for backfill, _ in made}) == 1
    assert sum(new for _, new in made) == 1
    assert await rows(scene, "runs") == 3
    await lifecycle.cancel(scene.db, scene.ada, scene.id)
    assert (await scene.backfill(8, 11, reprocess="all", key="k")).status == "cancelled"
    assert await codes(scene.backfill(8, 12, reprocess="all", key="k")) == [
        ("idempotency_key_reused", "Idempotency-Key")
    ]


async def test_a_refused_one_leaves_its_key_free(scene: Scene) -> None:
    assert await refused(scene.backfill(-14, 12, key="k")) == ("confirmation_required", 26)
    assert (await scene.backfill(-14, 12, key="k", confirm=True)).count == 26


async def test_a_key_whose_backfill_is_no_longer_kept_says_so(scene: Scene) -> None:
    made = await scene.backfill(8, 9, key="k")
    async with scene.db.begin() as conn:
        await conn.execute(text("DELETE FROM backfills WHERE id = :id"), {"id": made.id})
    assert await refused(scene.backfill(8, 9, key="k")) == ("backfill_pruned", None)


async def test_missing_twice_at_once_runs_each_slot_once(scene: Scene) -> None:
    made = await asyncio.gather(*(scene.backfill(6, 12) for _ in range(5)))
    assert sorted(backfill.count for backfill in made) == [0, 0, 0, 0, 6]


async def change_during_the_walk(scene: Scene, assignments: str) -> BackfillView:
    """A backfill whose schedule is changed after the walk, before its lock."""
    async with scene.db.begin() as conn:
        await schedules.lock(conn, scene.id)
        making = asyncio.create_task(scene.backfill(10, "2026-05-01T12:30:00Z"))
        await waiting_for_a_lock(scene.db)
        await conn.execute(text(f"UPDATE schedules SET {assignments} WHERE id = :id"), {"id": scene.id})
    return await making


async def test_slots_that_were_walked_for_an_earlier_timing_are_walked_again(scene: Scene) -> None:
    assert (await change_during_the_walk(scene, "cron = '0,30 * * * *'")).count == 5


async def test_a_schedule_that_is_cancelled_during_the_walk_is_not_backfilled(scene: Scene) -> None:
    changing = change_during_the_walk(scene, "status = 'cancelled', next_fire_at = NULL")
    assert await refused(changing) == ("schedule_cancelled", None)


async def test_ticks_sweeps_and_finishes_beside_it_keep_one_in_flight(scene: Scene) -> None:
    async def work_off() -> list[str]:
        done: list[str] = []
        while len(done) < 12:
            for task in await scene.claim(most=5):
                await scene.end(task)
                done.append(await scene.hour_of(task))
        return done

    async def ticks() -> None:
        for _ in range(10):
            await tick.tick(scene.db, scene.settings)
            await tick.sweep(scene.db, scene.settings)

    made = await asyncio.gather(*(scene.backfill(start, start + 4) for start in (0, 4, 8)))
    async with asyncio.timeout(60):
        done, *_ = await asyncio.gather(work_off(), ticks(), ticks())
    assert sorted(done) == [f"{hour:02}:00" for hour in range(1, 13)]
    for backfill in made:
        assert await scene.progress(backfill) == ("completed", {"completed": 4})


async def test_lists_are_newest_first(scene: Scene) -> None:
    first, second, third = [await scene.backfill(hour, hour + 1) for hour in (8, 9, 10)]
    page = await backfills.list_page(scene.db, scene.ada, scene.id, before=None, limit=2)
    assert [each.id for each in page] == [third.id, second.id]
    assert page[0].progress == {"queued": 1}
    rest = await backfills.list_page(scene.db, scene.ada, scene.id, before=second.id, limit=2)
    assert [each.id for each in rest] == [first.id]


async def test_ten_thousand_slots_in_one_go(
    db: Database, settings: Settings, clock: Clock, record_property: object
) -> None:
    scene = await Scene.begin(db, settings, clock, cron="*/5 * * * *")
    end = at("2026-05-01T12:00:00Z")
    begin = (end - timedelta(minutes=50_000)).isoformat()
    async with asyncio.timeout(60):
        made = await scene.backfill(begin, end.isoformat(), confirm=True, limit=10_000)
    assert (made.count, made.progress) == (10_000, {"queued": 9999, "pending": 1})
    await scene.work()
    cancelled = await backfills.cancel(db, settings, scene.ada, made.id, stop_running=True)
    assert cancelled.progress == {"completed": 1, "cancelled": 1, "skipped": 9998}
