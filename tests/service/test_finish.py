"""The end of an attempt on a real database: transcript, fence, hand-back, the next in line."""

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.runners.protocol import Entry, ToolCall
from agentsched.service import claim, conversations, finish, lifecycle, reap, tick
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.entries import EntryRow
from tests import people
from tests.clock import Clock, at

pytestmark = pytest.mark.anyio

ANSWER = Report(
    End.COMPLETED,
    entries=[
        Entry("assistant", "", tool_calls=(ToolCall("c1", "look", {"at": "pulls"}),)),
        Entry("tool", "none", tool_call_id="c1"),
        Entry("assistant", "All quiet."),
    ],
    result="All quiet.",
    usage={"input_tokens": 7},
)


@pytest.fixture
async def ada(db: Database, clock: Clock) -> Caller:
    await clock.freeze("2026-05-01T00:00:30Z")
    return await people.somebody(db)


async def take(db: Database, settings: Settings) -> Claimed:
    [task] = await claim.claim(db, settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
    return task


async def transcript(db: Database, ada: Caller, conversation_id: int) -> list[EntryRow]:
    return await conversations.transcript(db, ada, conversation_id, after=0, limit=100)


@pytest.mark.parametrize("mode", ["fork", "append", "fresh"])
async def test_a_finished_run_writes_its_turn_marked_as_scheduled(
    mode: str, db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    task_id = await people.say(db, settings, ada, owner, "hello")
    spoken = await take(db, settings)
    assert spoken.id == task_id
    await finish.report(db, settings, task_id=spoken.id, fence=spoken.fence, report=ANSWER)
    schedule = await people.schedule(db, settings, ada, owner, mode=mode, prompt="check")
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    task = await take(db, settings)
    assert task.preamble is not None
    assert "scheduled run" in task.preamble
    assert (await transcript(db, ada, owner))[-1].content == "All quiet."

    await finish.report(db, settings, task_id=task.id, fence=task.fence, report=ANSWER)

    entries = await transcript(db, ada, task.conversation_id)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) == (4 if mode == "fresh" else 8)
    prompt, call, result, answer = entries[-4:]
    assert (prompt.role, prompt.content, prompt.run_id) == ("user", "check", task.run_id)
    assert (prompt.schedule_id, prompt.fire_at) == (schedule.id, at("2026-05-01T00:05:00Z"))
    assert call.tool_calls == [{"id": "c1", "name": "look", "arguments": {"at": "pulls"}}]
    assert (result.tool_call_id, answer.content, answer.schedule_id) == ("c1", "All quiet.", None)
    assert len(await transcript(db, ada, owner)) == (8 if mode == "append" else 4)


async def test_a_fork_never_starts_at_half_a_turn(db: Database, settings: Settings, clock: Clock, ada: Caller) -> None:
    owner = await people.conversation(db, settings, ada)
    await people.schedule(db, settings, ada, owner)
    await people.say(db, settings, ada, owner, "hello")
    speaking = await take(db, settings)
    await clock.freeze("2026-05-01T00:05:00Z")
    await finish.heartbeat(db, settings, task_id=speaking.id, fence=speaking.fence)
    await tick.tick(db, settings)
    await finish.report(db, settings, task_id=speaking.id, fence=speaking.fence, report=ANSWER)
    run = await take(db, settings)
    assert run.last_seq == 0
    assert await transcript(db, ada, run.conversation_id) == []


async def test_a_failed_turn_of_a_person_stays_visible(db: Database, settings: Settings, ada: Caller) -> None:
    owner = await people.conversation(db, settings, ada)
    await people.say(db, settings, ada, owner, "hello")
    task = await take(db, settings)
    await finish.report(
        db,
        settings,
        task_id=task.id,
        fence=task.fence,
        report=Report(End.FAILED, error_code="boom", error="the model is away"),
    )
    assert [(entry.role, entry.content) for entry in await transcript(db, ada, owner)] == [
        ("user", "hello"),
        ("error", "the model is away"),
    ]
    await people.say(db, settings, ada, owner, "again")
    assert (await take(db, settings)).prompt == "again"


async def test_a_lost_task_is_somebody_elses_and_the_zombie_writes_nothing(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner)
    await people.run_now(db, ada, schedule.id)
    zombie = await take(db, settings)
    await clock.step(seconds=31)
    await reap.reap(db, settings)
    heir = await take(db, settings)
    assert (heir.id, heir.fence, heir.attempt) == (zombie.id, zombie.fence + 1, zombie.attempt)
    for refused in (
        finish.report(db, settings, task_id=zombie.id, fence=zombie.fence, report=ANSWER),
        finish.heartbeat(db, settings, task_id=zombie.id, fence=zombie.fence),
        finish.release(db, settings, task_id=zombie.id, fence=zombie.fence),
    ):
        with pytest.raises(finish.StaleFence):
            await refused
    assert await transcript(db, ada, heir.conversation_id) == []
    await finish.report(db, settings, task_id=heir.id, fence=heir.fence, report=ANSWER)
    assert len(await transcript(db, ada, heir.conversation_id)) == 4


async def test_an_expired_lease_alone_refuses_nothing(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    await people.say(db, settings, ada, owner, "hello")
    task = await take(db, settings)
    await clock.step(seconds=300)
    await finish.report(db, settings, task_id=task.id, fence=task.fence, report=ANSWER)
    assert len(await transcript(db, ada, owner)) == 4


async def test_a_hand_back_counts_nothing(db: Database, settings: Settings, ada: Caller) -> None:
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner)
    run = await people.run_now(db, ada, schedule.id)
    task = await take(db, settings)
    await finish.release(db, settings, task_id=task.id, fence=task.fence)
    async with db.begin() as conn:
        [(status, attempt, restarts)] = await conn.execute(
            text("SELECT status, attempt, restarts FROM runs WHERE id = :id"), {"id": run.id}
        )
    assert (status, attempt, restarts) == ("pending", 1, 0)
    again = await take(db, settings)
    assert (again.id, again.attempt, again.fence) == (task.id, 1, task.fence + 1)


async def test_stopped_needs_somebody_who_asked(db: Database, settings: Settings, ada: Caller) -> None:
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner)
    await people.run_now(db, ada, schedule.id)
    task = await take(db, settings)
    with pytest.raises(finish.NotAskedToStop):
        await finish.report(db, settings, task_id=task.id, fence=task.fence, report=Report(End.STOPPED))
    await lifecycle.cancel(db, ada, schedule.id, stop_running=True)
    beat = await finish.heartbeat(db, settings, task_id=task.id, fence=task.fence)
    assert beat.cancel_requested
    await finish.report(db, settings, task_id=task.id, fence=task.fence, report=Report(End.STOPPED))


async def test_one_task_at_a_time_in_a_conversation_a_person_first(
    db: Database, settings: Settings, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    for _ in range(2):
        schedule = await people.schedule(db, settings, ada, owner, mode="append")
        await people.run_now(db, ada, schedule.id)
    await people.say(db, settings, ada, owner, "hello")
    order = []
    for _ in range(3):
        claimed = await claim.claim(db, settings, worker="w1", harnesses=[people.HARNESS], max_tasks=5)
        assert len(claimed) == 1
        order.append(claimed[0].run_id)
        await finish.report(db, settings, task_id=claimed[0].id, fence=claimed[0].fence, report=ANSWER)
    assert order == [None, 1, 2]


async def test_a_principal_runs_no_more_than_its_share(db: Database, settings: Settings, ada: Caller) -> None:
    few = settings.model_copy(update={"running_per_principal": 2})
    bob = await people.somebody(db, name="bob")
    for caller in (ada, ada, ada, bob):
        await people.say(db, settings, caller, await people.conversation(db, settings, caller), "hello")
    claimed = await claim.claim(db, few, worker="w1", harnesses=[people.HARNESS], max_tasks=10)
    assert len(claimed) == 3
    assert await claim.claim(db, few, worker="w2", harnesses=[people.HARNESS], max_tasks=10) == []


@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_what_is_done_is_kept_in_a_zone_that_this_process_does_not_know(
    overlap: str, db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    """Another process may have a newer tzdata. Whoever fires the schedule without one puts it aside with a note."""
    owner = await people.conversation(db, settings, ada)
    await people.schedule(db, settings, ada, owner, overlap=overlap)
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    task = await take(db, settings)
    await clock.freeze("2026-05-01T00:10:00Z")
    await finish.heartbeat(db, settings, task_id=task.id, fence=task.fence)
    await tick.tick(db, settings)
    async with db.begin() as conn:
        await conn.execute(text("UPDATE schedules SET timezone = 'Atlantis/Centre'"))
    await finish.report(db, settings, task_id=task.id, fence=task.fence, report=ANSWER)
    async with db.begin() as conn:
        ended = (await conn.execute(text("SELECT status FROM runs WHERE id = :id"), {"id": task.run_id})).scalar_one()
        used = (await conn.execute(text("SELECT day_tokens FROM schedules"))).scalar_one()
    assert (ended, used) == ("completed", 7)
