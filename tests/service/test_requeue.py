"""Requeue and discard failed runs on a real database (DESIGN §4, §9)."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.core.problems import Refused
from agentsched.runners.protocol import Entry
from agentsched.service import (
    cancel_run,
    claim,
    conversations,
    dead_letters,
    finish,
    lifecycle,
    reap,
    requeue,
    tick,
    update,
)
from agentsched.service import runs as run_service
from agentsched.service import status as status_service
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.errors import Conflict, NotFound
from agentsched.service.requests import DeadLetterChoice, SchedulePatch
from agentsched.service.schedules import get
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store import dead_letters as dead_letter_store
from agentsched.store import ledger
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow
from tests import people
from tests.clock import Clock, at
from tests.store.test_plans import indexes
from tests.waiting import waiting_for_a_lock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

FAILED = Report(End.FAILED, error_code="boom", error="the model is away", retryable=False)
DONE = Report(End.COMPLETED, entries=[Entry("assistant", "done")], result="done")


class Scene:
    """Ada with a conversation, whose schedules fail when a test says so."""

    def __init__(self, db: Database, settings: Settings, clock: Clock, ada: Caller, owner: int) -> None:
        self.db, self.settings, self.clock, self.ada, self.owner = db, settings, clock, ada, owner

    async def schedule(self, **fields: object) -> ScheduleRow:
        return await people.schedule(self.db, self.settings, self.ada, self.owner, **fields)

    async def fire(self, minute: str, *, beating: Claimed | None = None) -> None:
        await self.clock.freeze(f"2026-05-01T00:{minute}:00Z")
        if beating is not None:
            await finish.heartbeat(self.db, self.settings, task_id=beating.id, fence=beating.fence)
        await tick.tick(self.db, self.settings)

    async def take(self) -> Claimed:
        [task] = await claim.claim(self.db, self.settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
        return task

    async def end(self, task: Claimed, report: Report = FAILED) -> None:
        await finish.report(self.db, self.settings, task_id=task.id, fence=task.fence, report=report)

    async def dead_letter(self, schedule: ScheduleRow, minute: str = "05") -> int:
        """The id of the schedule's run of this minute, which has failed."""
        await self.fire(minute)
        task = await self.take()
        await self.end(task)
        assert task.run_id is not None
        assert (await self.run(task.run_id)).schedule_id == schedule.id
        return task.run_id

    async def requeue(self, run_id: int, key: str | None = None) -> RunRow:
        run, _ = await requeue.requeue(self.db, self.settings, self.ada, run_id, key=key)
        return run

    async def run(self, run_id: int) -> RunRow:
        async with self.db.begin() as conn:
            row = await ledger.read(conn, self.ada.principal_id, run_id)
        assert row is not None
        return row

    async def statuses(self, schedule: ScheduleRow) -> list[str]:
        """Of the schedule's runs, by id."""
        rows = await self.sql("SELECT status FROM runs WHERE schedule_id = :id ORDER BY id", id=schedule.id)
        return [row[0] for row in rows]

    async def sql(self, statement: str, **parameters: object) -> list[Any]:
        async with self.db.begin() as conn:
            result = await conn.execute(text(statement), parameters)
            return [tuple(row) for row in result] if result.returns_rows else []

    async def refusal(self, run_id: int) -> Conflict:
        with pytest.raises(Conflict) as refused:
            await self.requeue(run_id)
        return refused.value

    async def count(self) -> int:
        return (await status_service.read_status(self.db, self.ada)).dead_letters

    async def listed(self, *, dead: bool | None, schedule: ScheduleRow | None = None) -> list[int]:
        rows = await run_service.list_page(
            self.db,
            self.ada,
            schedule_id=None if schedule is None else schedule.id,
            statuses=None,
            dead_letter=dead,
            ledger_order=False,
            after=None,
            limit=100,
        )
        assert all(row.dead_letter is dead for row in rows) or dead is None
        return [row.id for row in rows]


@pytest.fixture
async def scene(db: Database, settings: Settings, clock: Clock) -> Scene:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    return Scene(db, settings, clock, ada, await people.conversation(db, settings, ada))


def choice(**fields: object) -> DeadLetterChoice:
    return DeadLetterChoice.model_validate(fields)


async def requeue_chosen(scene: Scene, **fields: object) -> tuple[list[tuple[int, int | None]], list[tuple[int, str]]]:
    """What was requeued as what, and what was refused why."""
    done = await dead_letters.requeue_chosen(scene.db, scene.settings, scene.ada, choice(**fields))
    assert done.count == len(done.runs)
    return [(each.run_id, each.new_run_id) for each in done.runs], [(each.run_id, each.code) for each in done.refused]


async def test_a_requeue_is_a_new_run_and_the_failed_one_stays_as_it_is(scene: Scene) -> None:
    schedule = await scene.schedule(max_runs=5)
    failed = await scene.dead_letter(schedule)
    before = await scene.run(failed)
    assert before.dead_letter
    assert await scene.count() == 1
    changes = SchedulePatch.model_validate({"prompt": "corrected"})
    await update.update(scene.db, scene.settings, scene.ada, schedule.id, changes, version=schedule.version)
    await scene.clock.freeze("2026-05-01T00:07:00Z")

    new = await scene.requeue(failed)

    assert (new.trigger, new.requeue_of, new.occurrence_key) == ("requeue", failed, f"requeue:{failed}:1")
    assert (new.fire_at, new.version, new.status) == (at("2026-05-01T00:05:00Z"), 2, "pending")
    assert await scene.run(failed) == before._replace(dead_letter=False)
    assert await scene.count() == 0
    task = await scene.take()
    assert (task.run_id, task.prompt) == (new.id, "corrected")
    await scene.end(task, DONE)
    assert (await scene.run(new.id)).status == "completed"
    row = await get(scene.db, scene.ada, schedule.id)
    assert row.runs_admitted == 1, "requeues are not counted for max_runs"
    assert await scene.sql("SELECT day_runs FROM schedules") == [(2,)]
    assert await scene.sql("SELECT runs FROM principal_days") == [(2,)]


async def test_a_spent_day_refuses_no_requeue(scene: Scene) -> None:
    schedule = await scene.schedule(daily_run_limit=1)
    failed = await scene.dead_letter(schedule)
    assert (await scene.requeue(failed)).status == "pending"


async def test_the_payload_of_a_webhook_is_carried_over(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    await scene.sql("UPDATE runs SET trigger = 'webhook', delivery_id = 77 WHERE id = :id", id=failed)
    new = await scene.requeue(failed)
    assert await scene.sql("SELECT delivery_id FROM runs WHERE id = :id", id=new.id) == [(77,)]


async def test_a_fire_that_failed_without_a_task_can_be_requeued(scene: Scene) -> None:
    schedule = await scene.schedule()
    await scene.sql("UPDATE schedules SET timezone = 'Mars/Olympus' WHERE id = :id", id=schedule.id)
    await scene.fire("05")
    assert await scene.statuses(schedule) == ["failed"]
    [(failed,)] = await scene.sql("SELECT id FROM runs")
    await scene.sql("UPDATE schedules SET timezone = 'UTC' WHERE id = :id", id=schedule.id)
    assert (await scene.requeue(failed)).status == "pending"


@pytest.mark.parametrize("status", ["queued", "pending", "running", "retry_wait"])
async def test_one_requeue_of_a_run_at_a_time(status: str, scene: Scene) -> None:
    schedule = await scene.schedule(retry={"max_attempts": 2})
    failed = await scene.dead_letter(schedule)
    if status == "queued":
        await people.run_now(scene.db, scene.ada, schedule.id)
    new = await scene.requeue(failed)
    if status in ("running", "retry_wait"):
        task = await scene.take()
        if status == "retry_wait":
            await scene.end(task, Report(End.FAILED, error_code="boom", error="again"))
    assert (await scene.run(new.id)).status == status

    refused = await scene.refusal(failed)

    assert refused.code == "requeue_in_progress"
    assert f"Run {new.id} is a requeue of run {failed}, and it is {status}." in refused.message


async def test_twenty_requeues_at_once_are_one(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    answers = await asyncio.gather(*(scene.requeue(failed) for _ in range(20)), return_exceptions=True)
    new = [answer for answer in answers if isinstance(answer, RunRow)]
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(new), len(refused)) == (1, 19)
    assert {each.code for each in refused} == {"requeue_in_progress"}
    assert all(f"Run {new[0].id} " in each.message for each in refused)
    assert await scene.sql("SELECT count(*) FROM runs WHERE requeue_of = :id", id=failed) == [(1,)]


async def test_requeues_at_once_share_the_slots(scene: Scene) -> None:
    schedule = await scene.schedule(pause_after_failures=None)
    dead = await three_dead(scene, schedule)
    await asyncio.gather(*(scene.requeue(each) for each in dead))
    assert sorted((await scene.statuses(schedule))[3:]) == ["pending", "queued", "queued"]


async def test_the_same_key_is_the_same_run(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    runs = await asyncio.gather(*(requeue.requeue(scene.db, scene.settings, scene.ada, failed, key="k") for _ in "abc"))
    assert sorted(new for _, new in runs) == [False, False, True]
    assert len({run.id for run, _ in runs}) == 1
    await scene.end(await scene.take())
    assert (await scene.requeue(failed, key="k")).id == runs[0][0].id
    assert (await scene.requeue(failed, key="l")).occurrence_key == f"requeue:{failed}:2"


async def test_a_requeue_that_failed_is_the_dead_letter_from_then_on(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    second = await scene.requeue(failed)
    await scene.end(await scene.take())
    assert await scene.listed(dead=True) == [second.id]
    third = await scene.requeue(second.id)
    assert (third.requeue_of, third.occurrence_key) == (second.id, f"requeue:{second.id}:1")
    assert third.fire_at == second.fire_at
    assert await scene.count() == 0
    again = await scene.requeue(failed)
    assert (again.status, again.occurrence_key) == ("queued", f"requeue:{failed}:2")


@pytest.mark.parametrize("status", ["pending", "completed", "cancelled", "skipped"])
async def test_only_a_failed_run_is_requeued_and_discarded(status: str, scene: Scene) -> None:
    schedule = await scene.schedule()
    run = await people.run_now(scene.db, scene.ada, schedule.id)
    if status == "completed":
        await scene.end(await scene.take(), DONE)
    elif status == "cancelled":
        await cancel_run.cancel_run(scene.db, scene.settings, scene.ada, run.id)
    elif status == "skipped":
        await scene.fire("05")
        run = await scene.run((await scene.listed(dead=None))[0])
    refused = await scene.refusal(run.id)
    assert (refused.code, f"is {status}" in refused.message) == ("run_not_failed", True)
    with pytest.raises(Conflict, match=f"is {status}; only a failed run can be discarded"):
        await requeue.discard(scene.db, scene.ada, run.id)


async def test_a_discard_is_a_mark_and_nothing_else(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    before = await scene.run(failed)
    discarded = await requeue.discard(scene.db, scene.ada, failed)
    assert discarded == before._replace(dead_letter=False, discarded_at=at("2026-05-01T00:05:00Z"))
    assert await scene.count() == 0
    await scene.clock.step(minutes=1)
    assert await requeue.discard(scene.db, scene.ada, failed) == discarded
    new = await scene.requeue(failed)
    assert new.status == "pending", "it was asked for by its id"
    assert (await scene.run(failed)).discarded_at == discarded.discarded_at


async def test_a_paused_schedule_starts_what_is_requeued(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    await lifecycle.pause(scene.db, scene.ada, schedule.id)
    assert (await scene.requeue(failed)).status == "pending"
    assert (await get(scene.db, scene.ada, schedule.id)).status == "paused"


async def test_a_pause_holds_no_requeue_that_waits(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    await people.run_now(scene.db, scene.ada, schedule.id)
    new = await scene.requeue(failed)
    assert new.status == "queued"
    await lifecycle.pause(scene.db, scene.ada, schedule.id)
    assert (await scene.run(new.id)).status == "queued"
    await scene.end(await scene.take(), DONE)
    assert (await scene.run(new.id)).status == "pending"


async def test_a_completed_schedule_runs_what_is_requeued_and_stays_completed(scene: Scene) -> None:
    schedule = await scene.schedule(at="2026-05-01T00:05")
    failed = await scene.dead_letter(schedule)
    assert (await scene.requeue(failed)).status == "pending"
    await scene.end(await scene.take(), DONE)
    assert (await get(scene.db, scene.ada, schedule.id)).status == "completed"


async def test_a_cancelled_schedule_requeues_nothing_and_a_cancel_skips_what_waits(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    await people.run_now(scene.db, scene.ada, schedule.id)
    waiting = await scene.requeue(failed)
    await lifecycle.cancel(scene.db, scene.ada, schedule.id)
    ended = await scene.run(waiting.id)
    assert (ended.status, ended.reason) == ("skipped", "schedule_cancelled")
    assert (await scene.refusal(failed)).code == "schedule_cancelled"
    assert (await requeue.discard(scene.db, scene.ada, failed)).discarded_at is not None


async def test_nothing_runs_in_a_conversation_that_is_gone(scene: Scene) -> None:
    schedule = await scene.schedule(at="2026-05-01T00:05", mode="append")
    failed = await scene.dead_letter(schedule)
    await conversations.delete(scene.db, scene.ada, scene.owner)
    with pytest.raises(NotFound):
        await scene.requeue(failed)


@pytest.mark.parametrize("overlap", ["skip", "queue", "queue_latest", "replace", "allow"])
async def test_a_requeue_waits_for_the_slot_whatever_the_policy_and_starts_at_the_finish(
    overlap: str, scene: Scene
) -> None:
    limited = {"max_concurrency": 1} if overlap == "allow" else {}
    schedule = await scene.schedule(overlap=overlap, **limited)
    failed = await scene.dead_letter(schedule)
    await people.run_now(scene.db, scene.ada, schedule.id)
    holder = await scene.take()
    new = await scene.requeue(failed)
    assert new.status == "queued"
    assert (await scene.run(holder.run_id or 0)).status == "running"
    await scene.end(holder, DONE)
    assert (await scene.run(new.id)).status == "pending"


async def test_a_requeue_waits_past_the_limit_of_the_line(scene: Scene) -> None:
    schedule = await scene.schedule(overlap="queue", queue_limit=1)
    failed = await scene.dead_letter(schedule)
    for minute in ("10", "15", "20"):
        await scene.fire(minute)
    assert await scene.statuses(schedule) == ["failed", "pending", "queued", "skipped"]
    assert (await scene.requeue(failed)).status == "queued"


@pytest.mark.parametrize("overlap", ["queue_latest", "replace"])
async def test_newer_fires_supersede_no_requeue_that_waits(overlap: str, scene: Scene) -> None:
    schedule = await scene.schedule(overlap=overlap)
    failed = await scene.dead_letter(schedule)
    await people.run_now(scene.db, scene.ada, schedule.id)
    holder = await scene.take()
    new = await scene.requeue(failed)
    for minute in ("10", "15"):
        await scene.fire(minute, beating=holder)
    assert await scene.statuses(schedule) == ["failed", "running", "queued", "skipped", "queued"]
    await scene.end(holder, DONE)
    assert (await scene.run(new.id)).status == "pending", "its fire_at is the earliest in the line"


async def test_without_a_cap_requeues_go_one_at_a_time(scene: Scene) -> None:
    schedule = await scene.schedule(overlap="allow")
    failed = [await scene.dead_letter(schedule, minute) for minute in ("05", "10")]
    new = [await scene.requeue(each) for each in failed]
    assert [run.status for run in new] == ["pending", "queued"]
    await scene.end(await scene.take(), DONE)
    assert (await scene.run(new[1].id)).status == "pending"


@pytest.mark.parametrize(("mode", "same"), [("append", True), ("fork", False), ("fresh", False)])
async def test_a_requeue_runs_where_the_schedule_says(mode: str, same: bool, scene: Scene) -> None:
    schedule = await scene.schedule(mode=mode)
    failed = await scene.dead_letter(schedule)
    new = await scene.requeue(failed)
    task = await scene.take()
    assert (new.conversation_id == scene.owner) is same
    assert new.conversation_id == task.conversation_id
    assert new.conversation_id != (await scene.run(failed)).conversation_id or same
    await scene.end(task, DONE)
    entries = await conversations.transcript(scene.db, scene.ada, task.conversation_id, after=0, limit=100)
    assert [(entry.role, entry.run_id) for entry in entries][-2:] == [("user", new.id), ("assistant", new.id)]


async def test_requeues_move_no_failure_count(scene: Scene) -> None:
    schedule = await scene.schedule(pause_after_failures=2)
    failed = await scene.dead_letter(schedule)

    async def failures() -> tuple[int, str]:
        row = await get(scene.db, scene.ada, schedule.id)
        return row.consecutive_failures, row.status

    assert await failures() == (1, "active")
    await scene.requeue(failed)
    await scene.end(await scene.take())
    assert await failures() == (1, "active")
    await scene.requeue(failed)
    await scene.end(await scene.take(), DONE)
    assert await failures() == (1, "active")


async def test_a_lost_requeue_is_run_again_however_late_it_is(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    await scene.clock.freeze("2026-05-01T12:00:00Z")
    new = await scene.requeue(failed)
    await scene.take()
    await scene.clock.step(seconds=31)
    await reap.reap(scene.db, scene.settings)
    assert (await scene.run(new.id)).status == "pending"


@pytest.mark.parametrize(("overlap", "meanwhile"), [("skip", "skipped"), ("queue", "queued")])
async def test_a_retry_holds_its_slot_and_starts_before_the_line(overlap: str, meanwhile: str, scene: Scene) -> None:
    retry = {"max_attempts": 2, "initial_delay_seconds": 600}
    schedule = await scene.schedule(overlap=overlap, retry=retry)
    await scene.fire("05")
    first = await scene.take()
    await scene.end(first, Report(End.FAILED, error_code="boom", error="x"))
    assert await scene.statuses(schedule) == ["retry_wait"]
    await scene.fire("10")
    assert await scene.statuses(schedule) == ["retry_wait", meanwhile]
    await scene.fire("15")
    assert await scene.statuses(schedule) == ["pending", meanwhile, meanwhile]
    second = await scene.take()
    assert (second.run_id, second.attempt) == (first.run_id, 2)
    await scene.end(second, DONE)
    assert await scene.statuses(schedule) == ["completed", "pending" if overlap == "queue" else meanwhile, meanwhile]


# --- in bulk ---------------------------------------------------------------------------------------------------------


async def three_dead(scene: Scene, schedule: ScheduleRow) -> list[int]:
    return [await scene.dead_letter(schedule, minute) for minute in ("05", "10", "15")]


async def test_all_of_a_schedule_the_oldest_first(scene: Scene) -> None:
    schedule = await scene.schedule(pause_after_failures=None)
    dead = await three_dead(scene, schedule)
    assert await scene.listed(dead=True, schedule=schedule) == dead[::-1]

    done = await dead_letters.requeue_chosen(
        scene.db, scene.settings, scene.ada, choice(schedule_id=schedule.id, limit=2)
    )

    assert [each.run_id for each in done.runs] == dead[:2]
    assert (done.count, done.refused, done.remaining) == (2, [], 1)
    new = [await scene.run(each.new_run_id or 0) for each in done.runs]
    assert [(run.requeue_of, run.status) for run in new] == [(dead[0], "pending"), (dead[1], "queued")]
    assert await scene.listed(dead=True) == [dead[2]]
    assert set(await scene.listed(dead=False)) == {*dead[:2], *(run.id for run in new)}
    assert len(await scene.listed(dead=None)) == 5


async def test_criteria_hold_together(scene: Scene) -> None:
    schedule = await scene.schedule(pause_after_failures=None)
    dead = await three_dead(scene, schedule)
    await scene.sql("UPDATE runs SET error_code = 'other' WHERE id = :id", id=dead[1])
    for criteria, fitting in (
        ({"error_code": "other"}, [dead[1]]),
        ({"failed_after": at("2026-05-01T00:10:00Z")}, dead[1:]),
        ({"failed_before": at("2026-05-01T00:10:00Z")}, dead[:1]),
        ({"failed_after": at("2026-05-01T00:10:00Z"), "error_code": "boom"}, [dead[2]]),
        ({"error_code": "nothing"}, []),
    ):
        done = await dead_letters.discard_chosen(scene.db, scene.ada, choice(**criteria))
        assert [each.run_id for each in done.runs] == fitting, criteria
        assert (done.refused, done.remaining) == ([], 0)
        await scene.sql("UPDATE runs SET discarded_at = NULL")


async def test_a_refusal_stops_no_other(scene: Scene) -> None:
    other_owner = await people.conversation(scene.db, scene.settings, scene.ada)
    doomed = await people.schedule(scene.db, scene.settings, scene.ada, other_owner, pause_after_failures=None)
    on_doomed = await scene.dead_letter(doomed)
    schedule = await scene.schedule(pause_after_failures=None)
    await lifecycle.cancel(scene.db, scene.ada, doomed.id)
    dead = [await scene.dead_letter(schedule, minute) for minute in ("10", "15")]

    done, refused = await requeue_chosen(scene, all=True, limit=1)
    assert ([run_id for run_id, _ in done], refused) == ([dead[0]], []), "what can be requeued comes first"
    done, refused = await requeue_chosen(scene, all=True)
    assert ([run_id for run_id, _ in done], refused) == ([dead[1]], [(on_doomed, "schedule_cancelled")])
    assert await scene.listed(dead=True) == [on_doomed]
    discarded = await dead_letters.discard_chosen(scene.db, scene.ada, choice(all=True))
    assert [each.run_id for each in discarded.runs] == [on_doomed]


async def test_a_failure_of_the_service_stops_no_other(scene: Scene) -> None:
    poisoned = await scene.schedule()
    bad = await scene.dead_letter(poisoned)
    await lifecycle.pause(scene.db, scene.ada, poisoned.id)
    good = await scene.dead_letter(await scene.schedule(), "10")
    await scene.sql("UPDATE schedules SET timezone = 'Mars/Olympus' WHERE id = :id", id=poisoned.id)
    done, refused = await requeue_chosen(scene, all=True)
    assert ([run_id for run_id, _ in done], refused) == ([good], [(bad, "internal_error")])
    assert await scene.listed(dead=True) == [bad], "nothing of it was written"


async def foreign_dead_letter(scene: Scene) -> int:
    """Bob's."""
    bob = await people.somebody(scene.db, "bob")
    theirs = await people.conversation(scene.db, scene.settings, bob)
    schedule = await people.schedule(scene.db, scene.settings, bob, theirs)
    await scene.fire("05")
    task = await scene.take()
    await scene.end(task)
    await lifecycle.cancel(scene.db, bob, schedule.id)
    return task.run_id or 0


async def test_named_runs_that_are_no_dead_letters_are_refused(scene: Scene) -> None:
    foreign = await foreign_dead_letter(scene)
    schedule = await scene.schedule(pause_after_failures=None)
    dead, discarded, requeued = [await scene.dead_letter(schedule, minute) for minute in ("10", "15", "20")]
    await requeue.discard(scene.db, scene.ada, discarded)
    new = await scene.requeue(requeued)
    absent = 987_654

    named = [absent, new.id, requeued, dead, discarded, foreign, dead]
    answer = await dead_letters.requeue_chosen(scene.db, scene.settings, scene.ada, choice(run_ids=named))

    assert [each.run_id for each in answer.runs] == [dead]
    assert {each.run_id: each.code for each in answer.refused} == {
        foreign: "run_not_found",
        discarded: "run_discarded",
        requeued: "run_requeued",
        new.id: "run_not_failed",
        absent: "run_not_found",
    }
    told = {each.run_id: each.problem for each in answer.refused}
    assert told[foreign].replace(str(foreign), "ID") == told[absent].replace(str(absent), "ID")
    assert await scene.sql("SELECT count(*) FROM runs WHERE requeue_of = :id", id=foreign) == [(0,)]


async def test_what_takes_too_long_remains_for_the_next_request(scene: Scene) -> None:
    schedule = await scene.schedule(pause_after_failures=None)
    first, *others = await three_dead(scene, schedule)
    done = await dead_letters.discard_chosen(scene.db, scene.ada, choice(all=True), within_seconds=0)
    assert ([each.run_id for each in done.runs], done.remaining) == ([first], 2)
    rest = await dead_letters.discard_chosen(scene.db, scene.ada, choice(all=True))
    assert ([each.run_id for each in rest.runs], rest.remaining) == (others, 0)


async def test_two_bulk_requeues_at_once_requeue_everything_once(scene: Scene) -> None:
    schedule = await scene.schedule(pause_after_failures=None)
    dead = await three_dead(scene, schedule)
    both = await asyncio.gather(*(requeue_chosen(scene, all=True) for _ in "ab"))
    assert sorted(run_id for done, _ in both for run_id, _ in done) == dead
    assert {code for _, refused in both for _, code in refused} <= {"run_requeued"}
    assert await scene.sql("SELECT count(*) FROM runs WHERE requeue_of IS NOT NULL") == [(3,)]


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({}, {"criterion_missing"}),
        ({"limit": 5}, {"criterion_missing"}),
        ({"all": False}, {"criterion_missing"}),
        ({"run_ids": [1], "all": True, "error_code": "x", "limit": 5}, {"criterion_contradicts"}),
    ],
)
async def test_what_is_meant_has_to_be_said(fields: dict[str, object], codes: set[str], scene: Scene) -> None:
    failed = await scene.dead_letter(await scene.schedule())
    for attempt in (
        dead_letters.requeue_chosen(scene.db, scene.settings, scene.ada, choice(**fields)),
        dead_letters.discard_chosen(scene.db, scene.ada, choice(**fields)),
    ):
        with pytest.raises(Refused) as refused:
            await attempt
        assert {problem.code for problem in refused.value.problems} == codes
    assert await scene.listed(dead=True) == [failed]


# --- whose they are --------------------------------------------------------------------------------------------------


async def test_dead_letters_are_everybodys_own(scene: Scene) -> None:
    foreign = await foreign_dead_letter(scene)
    mine = await scene.dead_letter(await scene.schedule(), "10")
    assert await scene.count() == 1
    assert await scene.listed(dead=True) == [mine]
    for attempt in (scene.requeue(foreign), requeue.discard(scene.db, scene.ada, foreign)):
        with pytest.raises(NotFound, match=f"There is no run {foreign}"):
            await attempt
    assert await requeue_chosen(scene, all=True, limit=1000) == ([(mine, mine + 1)], [])
    [(theirs,)] = await scene.sql("SELECT schedule_id FROM runs WHERE id = :id", id=foreign)
    with pytest.raises(NotFound):
        await requeue_chosen(scene, schedule_id=theirs)


async def test_a_key_of_one_conversation_reaches_no_other(scene: Scene) -> None:
    elsewhere = await people.conversation(scene.db, scene.settings, scene.ada)
    other = await people.schedule(scene.db, scene.settings, scene.ada, elsewhere)
    outside = await scene.dead_letter(other)
    await lifecycle.pause(scene.db, scene.ada, other.id)
    inside = await scene.dead_letter(await scene.schedule(), "10")
    bound = Caller(scene.ada.principal_id, scene.ada.scope, scene.ada.actor, scene.owner)
    for attempt in (
        requeue.requeue(scene.db, scene.settings, bound, outside),
        requeue.discard(scene.db, bound, outside),
    ):
        with pytest.raises(NotFound, match=f"There is no run {outside}"):
            await attempt
    named = await dead_letters.discard_chosen(scene.db, bound, choice(run_ids=[outside]))
    assert [each.code for each in named.refused] == ["run_not_found"]
    done = await dead_letters.discard_chosen(scene.db, bound, choice(all=True))
    assert ([each.run_id for each in done.runs], done.refused, done.remaining) == ([inside], [], 0)
    assert await scene.listed(dead=True) == [outside]


async def test_dead_letters_are_found_by_their_index(scene: Scene) -> None:
    schedule = await scene.schedule()
    failed = await scene.dead_letter(schedule)
    principal = scene.ada.principal_id
    await scene.sql(
        "INSERT INTO runs (principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status,"
        " conversation_id, attempt, created_at, started_at, finished_at)"
        " SELECT :p, :s, 1, 'cron', 'live', '2026-01-01T00:00Z', 'x:' || i, 'completed', :c, 1, now(), now(), now()"
        " FROM generate_series(1, 20000) i",
        p=principal,
        s=schedule.id,
        c=scene.owner,
    )
    async with scene.db.autocommit() as conn:
        await conn.execute(text("ANALYZE"))
    none = {"schedule_id": None, "conversation_id": None, "statuses": None, "id": None, "limit": 100}
    chosen = {**dead_letter_store.Criteria()._asdict(), "limit": 100, "cancelled_last": True}
    for statement, parameters in (
        (dead_letter_store.COUNT, {}),
        (dead_letter_store.CHOOSE, chosen),
        (text(str(ledger.LISTS[False, True])), none),
        (text(str(ledger.LISTS[True, True])), {**none, "fire_at": None}),
    ):
        used, scanned = await indexes(scene.db, statement, principal_id=principal, **parameters)
        assert {"runs_dead_letter_idx", "runs_requeue_idx"} <= used, statement.text
        assert scanned == set()
    used, scanned = await indexes(scene.db, dead_letter_store.NEWEST_REQUEUE, run_id=failed)
    assert (used, scanned) == ({"runs_requeue_idx"}, set())


async def test_a_requeue_and_the_deletion_of_its_conversation_leave_nothing_in_line(scene: Scene) -> None:
    schedule = await scene.schedule(max_runs=1)
    failed = await scene.dead_letter(schedule)
    await people.run_now(scene.db, scene.ada, schedule.id)
    async with scene.db.begin() as holder:
        await holder.execute(text("SELECT FROM principal_days FOR UPDATE"))
        asking = asyncio.create_task(scene.requeue(failed))
        await waiting_for_a_lock(scene.db)
        deleting = asyncio.create_task(conversations.delete(scene.db, scene.ada, scene.owner))
        await waiting_for_a_lock(scene.db, 2, within_seconds=5)
    await asyncio.gather(asking, deleting)
    assert await scene.statuses(schedule) == ["failed", "pending", "skipped"]
