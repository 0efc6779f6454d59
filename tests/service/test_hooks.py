"""Deliveries: a run, or a refusal that stores nothing; one run a key; the payload reaches the agent."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.core.hook_body import MalformedBody, UnsupportedType
from agentsched.core.problems import Refused
from agentsched.runners.protocol import Entry
from agentsched.service import claim, conversations, finish, hooks, lifecycle, requeue, update
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.errors import Busy, Conflict, TooMany, UnknownToken
from agentsched.service.hooks import Accepted, Delivery
from agentsched.service.requests import SchedulePatch
from agentsched.service.rotate_token import Rotated, rotate_token
from agentsched.service.schedules import get
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store import schedules
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from agentsched.worker.history import read_assignment
from tests import people
from tests.clock import Clock, at
from tests.waiting import waiting_for_a_lock

pytestmark = pytest.mark.anyio

BODY = b'{"n": 1}'


class Scene:
    """Ada's conversation; the clock is frozen at 09:00:30 on 2026-05-01."""

    def __init__(self, db: Database, settings: Settings, clock: Clock) -> None:
        self.db, self.settings, self.clock = db, settings, clock
        self.ada: Caller
        self.owner = 0

    async def begin(self) -> "Scene":
        await self.clock.freeze("2026-05-01T09:00:30Z")
        self.ada = await people.somebody(self.db)
        self.owner = await people.conversation(self.db, self.settings, self.ada)
        return self

    async def webhook(self, **fields: object) -> tuple[ScheduleRow, str]:
        return await people.webhook(self.db, self.settings, self.ada, self.owner, **fields)

    async def call(
        self,
        token: str,
        key: str | None = None,
        body: bytes = BODY,
        content_type: str = "application/json",
        **others: Any,
    ) -> Accepted:
        return await hooks.accept(self.db, self.settings, token, Delivery(body, content_type, key, **others))

    async def sql(self, statement: str, **parameters: object) -> list[Any]:
        async with self.db.begin() as conn:
            done = await conn.execute(text(statement), parameters)
            return list(done) if done.returns_rows else []

    async def statuses(self) -> list[str]:
        return [row[0] for row in await self.sql("SELECT status FROM runs ORDER BY id")]

    async def stored(self) -> list[int]:
        """How many runs, deliveries, tasks and conversations there are."""
        return [
            (await self.sql(f"SELECT count(*) FROM {table}"))[0][0]
            for table in ("runs", "deliveries", "tasks", "conversations")
        ]

    async def take(self) -> Claimed:
        [claimed] = await claim.claim(self.db, self.settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
        return claimed

    async def end(self, claimed: Claimed, report: Report) -> None:
        await finish.report(self.db, self.settings, task_id=claimed.id, fence=claimed.fence, report=report)

    async def rotate(self, schedule: ScheduleRow, grace_seconds: int) -> Rotated:
        return await rotate_token(self.db, self.ada, schedule.id, grace_seconds=grace_seconds)

    async def contents(self, claimed: Claimed) -> Sequence[str]:
        entries = await conversations.transcript(self.db, self.ada, claimed.conversation_id, after=0, limit=100)
        return [entry.content for entry in entries]


@pytest.fixture
async def scene(db: Database, settings: Settings, clock: Clock) -> Scene:
    return await Scene(db, settings, clock).begin()


async def test_a_delivery_is_a_run_of_its_minute(scene: Scene) -> None:
    schedule, token = await scene.webhook()

    accepted = await scene.call(token, "a", source="curl/8")

    [run] = await scene.sql("SELECT * FROM runs")
    [delivery] = await scene.sql("SELECT * FROM deliveries")
    assert accepted == ({"run_id": run.id, "status": "pending"}, True)
    assert (run.trigger, run.status, run.counted, run.lane) == ("webhook", "pending", True, "live")
    assert (run.fire_at, run.occurrence_key) == (at("2026-05-01T09:00:00Z"), f"hook:{delivery.id}")
    assert run.delivery_id == delivery.id
    assert (delivery.schedule_id, delivery.key, delivery.run_id) == (schedule.id, "a", run.id)
    assert (delivery.body, delivery.content_type, delivery.source) == (BODY, "application/json", "curl/8")
    assert (delivery.answer_status, delivery.answer) == (202, accepted.answer)
    assert delivery.received_at == at("2026-05-01T09:00:30Z")
    assert delivery.expires_at == delivery.received_at + timedelta(days=7)
    after = await get(scene.db, scene.ada, schedule.id)
    assert (after.status, after.last_fire_at, after.next_fire_at) == ("active", run.fire_at, None)
    assert (after.runs_admitted, after.day_runs) == (1, 1)
    assert await scene.sql("SELECT runs FROM principal_days") == [(1,)]
    assert await scene.sql("SELECT last_used_at FROM webhook_tokens") == [(delivery.received_at,)]
    [task] = await scene.sql("SELECT * FROM tasks")
    assert task.start_deadline_at is None, "a delivery waits for a worker however long it takes"


async def test_only_the_hash_of_a_token_is_kept(scene: Scene) -> None:
    _, token = await scene.webhook()
    [(row,)] = await scene.sql("SELECT t::text FROM webhook_tokens t")
    assert token[:12] in row
    assert token[12:] not in row


async def test_the_same_key_is_the_same_answer_whatever_has_become_of_the_schedule(scene: Scene) -> None:
    schedule, token = await scene.webhook()
    first = await scene.call(token, "a")
    before = await scene.stored()

    assert await scene.call(token, "a") == (first.answer, False)
    await lifecycle.pause(scene.db, scene.ada, schedule.id)
    assert await scene.call(token, "a") == (first.answer, False)
    assert await scene.stored() == before


async def test_without_a_key_every_delivery_is_its_own(scene: Scene) -> None:
    _, token = await scene.webhook()
    answers = [(await scene.call(token)).answer["status"] for _ in range(3)]
    assert answers == ["pending", "queued", "queued"]


async def test_another_body_under_the_same_key_is_refused(scene: Scene) -> None:
    _, token = await scene.webhook()
    await scene.call(token, "a")
    with pytest.raises(Refused, match="another body") as refused:
        await scene.call(token, "a", b'{"n":1}')
    assert refused.value.problems[0].code == "idempotency_key_reused"
    assert await scene.statuses() == ["pending"]


async def test_the_same_key_on_two_schedules_is_two_runs(scene: Scene) -> None:
    tokens = [(await scene.webhook())[1] for _ in range(2)]
    answers = [await scene.call(token, "a") for token in tokens]
    assert [answer.new for answer in answers] == [True, True]
    assert await scene.statuses() == ["pending", "pending"]


async def test_fifty_at_once_are_one_run(scene: Scene, settings: Settings) -> None:
    _, token = await scene.webhook()
    assert settings.database_url is not None
    processes = [scene.db, Database(settings.database_url), Database(settings.database_url)]
    delivery = Delivery(BODY, "application/json", "a")

    answers = await asyncio.gather(
        *(hooks.accept(processes[number % 3], settings, token, delivery) for number in range(50))
    )

    for process in processes[1:]:
        await process.close()
    assert sum(answer.new for answer in answers) == 1
    assert {json.dumps(answer.answer, sort_keys=True) for answer in answers} == {
        json.dumps(answers[0].answer, sort_keys=True)
    }
    assert await scene.stored() == [1, 1, 1, 2]


async def test_many_at_once_stand_in_line_in_order(scene: Scene) -> None:
    _, token = await scene.webhook()
    await asyncio.gather(*(scene.call(token, str(number)) for number in range(10)))
    assert sorted(await scene.statuses()) == ["pending"] + ["queued"] * 9
    [(counted, days)] = await scene.sql("SELECT runs_admitted, day_runs FROM schedules")
    assert (counted, days) == (10, 10)


async def test_a_schedule_that_is_held_for_too_long(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, token = await scene.webhook()
    assert hooks.LOCK_TIMEOUT_MS == 2000
    monkeypatch.setattr(hooks, "LOCK_TIMEOUT_MS", 50)
    async with scene.db.begin() as holder:
        await schedules.lock(holder, schedule.id)
        with pytest.raises(Busy) as busy:
            await scene.call(token, "a")
    assert busy.value.retry_after_seconds == 1
    assert (await scene.call(token, "a")).new


async def test_a_pause_that_comes_first_wins(scene: Scene) -> None:
    """The token is good and the schedule active when the delivery comes, and no longer once it has the lock."""
    schedule, token = await scene.webhook()
    async with scene.db.begin() as holder:
        await schedules.lock(holder, schedule.id)
        call = asyncio.create_task(scene.call(token, "a"))
        await waiting_for_a_lock(scene.db)
        await schedules.pause(
            holder, schedule.id, reason="user", note=None, accounted_until=None, now=at("2026-05-01T09:00:30Z")
        )
    with pytest.raises(Conflict):
        await call
    assert await scene.stored() == [0, 0, 0, 1]


async def test_paused_and_ended_schedules_take_nothing(scene: Scene) -> None:
    schedule, token = await scene.webhook()
    await lifecycle.pause(scene.db, scene.ada, schedule.id)
    with pytest.raises(Conflict) as refused:
        await scene.call(token, "a")
    assert refused.value.code == "schedule_paused"
    await lifecycle.resume(scene.db, scene.settings, scene.ada, schedule.id)
    first = await scene.call(token, "a")
    assert first.new, "a refused key is a new one"
    await lifecycle.cancel(scene.db, scene.ada, schedule.id)
    assert await scene.call(token, "a") == (first.answer, False)
    with pytest.raises(Conflict) as ended:
        await scene.call(token, "b")
    assert ended.value.code == "schedule_cancelled"


async def test_a_deleted_conversation_takes_its_tokens_with_it(scene: Scene) -> None:
    _, once = await scene.webhook(max_runs=1)
    _, other = await scene.webhook()
    await scene.call(once)
    await conversations.delete(scene.db, scene.ada, scene.owner)
    for token in (once, other):
        with pytest.raises(UnknownToken):
            await scene.call(token)


@pytest.mark.parametrize("token", ["", "x", "asw_" + "0" * 49, "ask_" + "0" * 49, "ä" * 53, "\x00"])
async def test_what_is_no_token_is_told_without_asking(
    scene: Scene, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("agentsched.store.webhook_tokens.find")
    with pytest.raises(UnknownToken) as unknown:
        await scene.call(token)
    assert len(token) < 10 or token not in str(unknown.value)


async def test_the_last_run_completes_the_schedule(scene: Scene) -> None:
    schedule, token = await scene.webhook(max_runs=2)
    first = await scene.call(token, "a")
    assert (await get(scene.db, scene.ada, schedule.id)).status == "active"
    await scene.call(token, "b")
    assert (await get(scene.db, scene.ada, schedule.id)).status == "completed"
    with pytest.raises(Conflict) as ended:
        await scene.call(token, "c")
    assert ended.value.code == "schedule_completed"
    assert await scene.call(token, "a") == (first.answer, False)
    await scene.end(await scene.take(), Report(End.COMPLETED))
    assert await scene.statuses() == ["completed", "pending"], "what is queued still runs"


@pytest.mark.parametrize("paused", [False, True])
async def test_a_bound_that_is_reached_already_completes_the_schedule(scene: Scene, paused: bool) -> None:
    schedule, token = await scene.webhook()
    await scene.call(token, "a")
    if paused:
        await lifecycle.pause(scene.db, scene.ada, schedule.id)
    patch = SchedulePatch.model_validate({"max_runs": 1})
    await update.update(scene.db, scene.settings, scene.ada, schedule.id, patch, version=1)
    if paused:
        await lifecycle.resume(scene.db, scene.settings, scene.ada, schedule.id)
    assert (await get(scene.db, scene.ada, schedule.id)).status == "completed"
    with pytest.raises(Conflict) as ended:
        await scene.call(token, "b")
    assert ended.value.code == "schedule_completed"


async def test_after_its_end_a_schedule_is_completed(scene: Scene) -> None:
    schedule, token = await scene.webhook(ends_at="2026-05-01T09:01:00Z")
    await scene.clock.freeze("2026-05-01T09:01:59Z")
    await scene.call(token)
    await scene.clock.freeze("2026-05-01T09:02:00Z")
    with pytest.raises(Conflict) as ended:
        await scene.call(token)
    assert ended.value.code == "schedule_completed"
    assert (await get(scene.db, scene.ada, schedule.id)).status == "completed"


async def test_a_full_line_stores_nothing(scene: Scene) -> None:
    _, token = await scene.webhook(queue_limit=1)
    await scene.call(token, "a")
    await scene.call(token, "b")
    before = await scene.stored()
    with pytest.raises(TooMany) as full:
        await scene.call(token, "c")
    assert (full.value.code, full.value.retry_after_seconds) == ("queue_full", 60)
    assert await scene.stored() == before
    await scene.end(await scene.take(), Report(End.COMPLETED))
    assert (await scene.call(token, "c")).new


async def test_a_spent_budget_stores_nothing_but_one_note(scene: Scene) -> None:
    _, token = await scene.webhook(daily_run_limit=1, timezone="Asia/Tokyo")
    await scene.call(token, "a")
    before = await scene.stored()
    with pytest.raises(TooMany):
        await scene.call(token, "b")
    with pytest.raises(TooMany) as spent:
        await scene.call(token, "b")
    assert spent.value.code == "budget_spent"
    assert "1 runs of 2026-05-01 (Asia/Tokyo)" in spent.value.message
    assert spent.value.retry_after_seconds == 5 * 3600 + 3570, "until midnight in Tokyo"
    assert await scene.stored() == before
    assert await scene.sql("SELECT kind FROM notes") == [("budget",)]
    await scene.clock.step(seconds=spent.value.retry_after_seconds)
    assert (await scene.call(token, "b")).new


@pytest.mark.parametrize("timezone", ["America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("own", [True, False])
async def test_a_budget_is_renewed_at_its_own_midnight(scene: Scene, timezone: str, own: bool) -> None:
    """The schedule's by its zone, its owner's in UTC; the answer and the note say which, and when."""
    if not own:
        scene.settings = scene.settings.model_copy(update={"daily_run_limit_per_principal": 1})
    _, token = await scene.webhook(timezone=timezone, **({"daily_run_limit": 1} if own else {}))
    await scene.call(token, "a")
    with pytest.raises(TooMany) as spent:
        await scene.call(token, "b")
    [(note,)] = await scene.sql("SELECT text FROM notes")
    assert f"until midnight ({timezone if own else 'UTC'})" in note
    await scene.clock.step(seconds=spent.value.retry_after_seconds - 1)
    with pytest.raises(TooMany):
        await scene.call(token, "b")
    await scene.clock.step(seconds=1)
    assert (await scene.call(token, "b")).new


async def test_the_owners_budget_holds_over_schedules_at_once(scene: Scene) -> None:
    tokens = [(await scene.webhook())[1] for _ in range(4)]
    scene.settings = scene.settings.model_copy(update={"daily_run_limit_per_principal": 2})
    outcomes = await asyncio.gather(*(scene.call(token) for token in tokens), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Accepted", "Accepted", "TooMany", "TooMany"]
    assert await scene.sql("SELECT runs FROM principal_days") == [(2,)]


async def test_a_skip_is_recorded_and_says_why(scene: Scene) -> None:
    schedule, token = await scene.webhook(overlap="skip", max_runs=2)
    first = await scene.call(token, "a")
    await scene.take()
    skipped = await scene.call(token, "b")
    assert skipped.answer["status"] == "skipped"
    assert skipped.answer["reason"] == "overlap"
    assert f"run {first.answer['run_id']} has held the only slot" in skipped.answer["reason_text"]
    assert await scene.call(token, "b") == (skipped.answer, False)
    assert await scene.statuses() == ["running", "skipped"]
    assert (await get(scene.db, scene.ada, schedule.id)).runs_admitted == 1


async def test_queue_latest_keeps_the_newest(scene: Scene) -> None:
    _, token = await scene.webhook(overlap="queue_latest")
    for _ in range(3):
        await scene.call(token)
    assert await scene.statuses() == ["pending", "skipped", "queued"]


async def test_replace_stops_what_is_there(scene: Scene) -> None:
    _, token = await scene.webhook(overlap="replace")
    await scene.call(token)
    assert (await scene.call(token)).answer["status"] == "pending"
    assert await scene.statuses() == ["cancelled", "pending"]
    held = await scene.take()
    assert (await scene.call(token)).answer["status"] == "queued"
    beat = await finish.heartbeat(scene.db, scene.settings, task_id=held.id, fence=held.fence)
    assert beat.cancel_requested
    await scene.end(held, Report(End.STOPPED))
    assert await scene.statuses() == ["cancelled", "cancelled", "pending"]


async def test_allow_starts_everything(scene: Scene) -> None:
    _, token = await scene.webhook(overlap="allow")
    for _ in range(3):
        await scene.call(token)
    assert await scene.statuses() == ["pending"] * 3


async def test_held_deliveries_start_at_the_resume(scene: Scene) -> None:
    schedule, token = await scene.webhook()
    await scene.call(token)
    await scene.call(token)
    await lifecycle.pause(scene.db, scene.ada, schedule.id)
    await scene.end(await scene.take(), Report(End.COMPLETED))
    assert await scene.statuses() == ["completed", "queued"]
    await lifecycle.resume(scene.db, scene.settings, scene.ada, schedule.id)
    assert await scene.statuses() == ["completed", "pending"]


@pytest.mark.parametrize("mode", ["fork", "append", "fresh"])
async def test_the_payload_reaches_the_agent_and_the_transcript(scene: Scene, mode: str) -> None:
    _, token = await scene.webhook(prompt="Summarise the push.", mode=mode)
    await scene.call(token, "a", source="GitHub-Hookshot/1")
    claimed = await scene.take()

    assignment = await read_assignment(scene.db, claimed)

    assert assignment.prompt == "Summarise the push."
    assert assignment.payload is not None
    assert assignment.payload.endswith(
        "```\nreceived_at: 2026-05-01T09:00:30Z\nsource: GitHub-Hookshot/1\ncontent_type: application/json\n\n"
        '{"n": 1}\n```'
    )
    await scene.end(claimed, Report(End.COMPLETED, entries=[Entry("assistant", "One push.")]))
    assert await scene.contents(claimed) == [f"Summarise the push.\n\n{assignment.payload}", "One push."]


async def test_a_failed_run_leaves_its_payload_and_a_requeue_has_it_again(scene: Scene) -> None:
    _, token = await scene.webhook(prompt="Look.")
    accepted = await scene.call(token, "a", b"it is down", "text/plain")
    claimed = await scene.take()
    await scene.end(claimed, Report(End.FAILED, error_code="error", error="it failed"))
    said, failure = await scene.contents(claimed)
    assert ("it is down" in said, failure) == (True, "it failed")

    await requeue.requeue(scene.db, scene.settings, scene.ada, accepted.answer["run_id"])

    again = await scene.take()
    assert again.payload == claimed.payload
    await scene.end(again, Report(End.COMPLETED))
    assert "it is down" in (await scene.contents(again))[-1]


async def test_timed_runs_have_no_payload(scene: Scene) -> None:
    schedule, _ = await scene.webhook()
    await people.run_now(scene.db, scene.ada, schedule.id)
    claimed = await scene.take()
    assert claimed.payload is None
    await scene.end(claimed, Report(End.COMPLETED))
    assert await scene.contents(claimed) == ["x"]


async def test_a_body_that_is_accepted_no_longer_keeps_nobody_from_working(scene: Scene) -> None:
    _, token = await scene.webhook()
    await scene.call(token)
    await scene.sql("UPDATE deliveries SET body = :body", body=b"{\x00\xff")
    payload = (await scene.take()).payload
    assert payload is not None
    assert payload.endswith("\n\n{\ufffd\ufffd\n```")


async def test_a_body_that_cannot_be_read_stores_nothing(scene: Scene) -> None:
    _, token = await scene.webhook()
    with pytest.raises(MalformedBody):
        await scene.call(token, "a", b"{")
    with pytest.raises(UnsupportedType):
        await scene.call(token, "a", b"{", "application/xml")
    assert await scene.stored() == [0, 0, 0, 1]


class TestRotation:
    async def test_the_old_token_works_for_a_while(self, scene: Scene) -> None:
        schedule, old = await scene.webhook()
        rotated = await scene.rotate(schedule, 3600)
        assert rotated.old_valid_until == at("2026-05-01T10:00:30Z")
        await scene.clock.freeze("2026-05-01T10:00:29Z")
        assert (await scene.call(old, "a")).new
        assert not (await scene.call(rotated.token, "a")).new, "a key belongs to the schedule, not to a token"
        await scene.clock.freeze("2026-05-01T10:00:30Z")
        with pytest.raises(UnknownToken):
            await scene.call(old, "a")
        assert not (await scene.call(rotated.token, "a")).new

    async def test_or_not_at_all(self, scene: Scene) -> None:
        schedule, old = await scene.webhook()
        new = (await scene.rotate(schedule, 0)).token
        with pytest.raises(UnknownToken):
            await scene.call(old)
        assert (await scene.call(new)).new

    async def test_a_further_rotation_gives_nobody_more_time(self, scene: Scene) -> None:
        schedule, first = await scene.webhook()
        second = (await scene.rotate(schedule, 60)).token
        await scene.rotate(schedule, 3600)
        await scene.clock.step(seconds=60)
        with pytest.raises(UnknownToken):
            await scene.call(first)
        assert (await scene.call(second)).new

    async def test_also_while_paused_but_not_at_the_end(self, scene: Scene) -> None:
        schedule, _ = await scene.webhook()
        await lifecycle.pause(scene.db, scene.ada, schedule.id)
        await scene.rotate(schedule, 0)
        await lifecycle.cancel(scene.db, scene.ada, schedule.id)
        with pytest.raises(Conflict):
            await scene.rotate(schedule, 0)

    async def test_only_webhooks_have_tokens(self, scene: Scene) -> None:
        schedule = await people.schedule(scene.db, scene.settings, scene.ada, scene.owner)
        with pytest.raises(Conflict) as refused:
            await scene.rotate(schedule, 0)
        assert refused.value.code == "schedule_has_no_webhook"
        assert await scene.sql("SELECT id FROM webhook_tokens") == []

    async def test_it_is_in_the_history_without_the_token(self, scene: Scene) -> None:
        schedule, _ = await scene.webhook()
        new = (await scene.rotate(schedule, 60)).token
        changes = await scene.sql("SELECT action, actor, changes FROM schedule_changes ORDER BY id")
        assert changes[-1] == ("token_rotated", scene.ada.actor, {"grace_seconds": 60})
        assert new not in repr(changes)
