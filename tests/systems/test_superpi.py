"""What SuperPi promises, row by row (issue 3)."""

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.runners.protocol import Entry
from agentsched.service import claim, conversations, finish, schedules, tick
from agentsched.service.claim import Claimed
from agentsched.service.requests import AgentSpec
from agentsched.service.settle import Report
from agentsched.store.conversations import ConversationRow
from agentsched.store.schedules import ScheduleRow
from tests import people
from tests.clock import at
from tests.systems.story import LedgerRow, Story, instant
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


async def ends(scene: Scene, task: Claimed, words: str) -> None:
    report = Report(End.COMPLETED, entries=[Entry("assistant", words)], result=words)
    await finish.report(scene.db, scene.settings, task_id=task.id, fence=task.fence, report=report)


async def talks(scene: Scene) -> None:
    """The owner's people have said one thing, and were answered."""
    await scene.say("Good morning")
    await ends(scene, await scene.claim(), "Good morning!")


async def conversation(scene: Scene, task: Claimed) -> ConversationRow:
    return await conversations.get(scene.db, scene.caller, task.conversation_id)


async def words(scene: Scene, conversation_id: int) -> list[tuple[str, str]]:
    return [(entry.role, entry.content) for entry in await scene.transcript(conversation_id)]


async def changes_its_agent(scene: Scene) -> int:
    """The owner has another agent from now on; the agent's id."""
    async with scene.db.begin() as conn:
        agent = AgentSpec(harness=people.HARNESS, model="another")
        new = await conversations.agent_id(conn, scene.caller.principal_id, agent)
        await conn.execute(text("UPDATE conversations SET agent_id = :new"), {"new": new})
    return new


async def test_a_fork_points_at_its_parent_and_copies_nothing(scene: Scene) -> None:
    await talks(scene)
    await scene.fire(mode="fork", prompt="Brief me")
    task = await scene.claim()
    fork = await conversation(scene, task)
    assert (fork.parent_id, fork.parent_seq, task.last_seq) == (scene.conversation_id, 2, 2)
    await ends(scene, task, "All is well.")
    await talks(scene)
    own = await scene.rows("SELECT role FROM entries WHERE conversation_id = :id ORDER BY seq", id=fork.id)
    assert [entry.role for entry in own] == ["user", "assistant"]
    before, later = [("user", "Good morning"), ("assistant", "Good morning!")], await words(scene, fork.id)
    assert later == [*before, ("user", "Brief me"), ("assistant", "All is well.")]
    assert await words(scene, scene.conversation_id) == before * 2


async def test_append_writes_into_the_owners_transcript_and_says_who_asked(scene: Scene) -> None:
    await talks(scene)
    schedule = await scene.fire(mode="append", prompt="Brief me")
    task = await scene.claim()
    assert (task.conversation_id, task.last_seq) == (scene.conversation_id, 2)
    await ends(scene, task, "All is well.")
    _, _, prompt, answer = await scene.transcript()
    assert (prompt.content, prompt.schedule_id, prompt.fire_at) == (
        "Brief me",
        schedule.id,
        at("2026-05-01T09:00:00Z"),
    )
    assert (answer.content, answer.run_id) == ("All is well.", task.run_id)


@pytest.mark.parametrize("person_first", [True, False])
async def test_append_and_a_persons_turn_take_turns(person_first: bool, scene: Scene) -> None:
    if person_first:
        await scene.at("08:59:45")
        await scene.say("Are you there?")
        turn = await scene.claim()
        await scene.fire(mode="append", prompt="Brief me")
    else:
        await scene.fire(mode="append", prompt="Brief me")
        turn = await scene.claim()
        await scene.say("Are you there?")
    assert await claims(scene) == []
    await ends(scene, turn, "first")
    [other] = await claims(scene)
    assert await claims(scene) == []
    await ends(scene, other, "second")
    asked = ["Are you there?", "Brief me"] if person_first else ["Brief me", "Are you there?"]
    assert [content for _, content in await words(scene, scene.conversation_id)] == [
        asked[0],
        "first",
        asked[1],
        "second",
    ]


async def claims(scene: Scene) -> list[Claimed]:
    return await claim.claim(scene.db, scene.settings, worker="w2", harnesses=[people.HARNESS], max_tasks=5)


async def test_fresh_starts_empty_with_the_agent_of_its_creation_whatever_the_owner_has_become(scene: Scene) -> None:
    await talks(scene)
    schedule = await scene.schedule(mode="fresh", prompt="Brief me")
    forking = await scene.schedule(mode="fork", prompt="And me")
    new = await changes_its_agent(scene)
    await scene.at("09:00:00")
    await tick.tick(scene.db, scene.settings)
    tasks = {task.prompt: task for task in await claims(scene)}
    fresh, fork = tasks["Brief me"], tasks["And me"]
    assert (await conversation(scene, fresh)).agent_id == schedule.agent_id
    assert (await conversation(scene, fork)).agent_id == new != forking.agent_id
    assert (fresh.agent.model, fork.agent.model) == (None, "another")
    row = await conversation(scene, fresh)
    assert (row.parent_id, row.parent_seq, fresh.last_seq) == (None, None, 0)
    await ends(scene, fresh, "All is well.")
    assert await words(scene, row.id) == [("user", "Brief me"), ("assistant", "All is well.")]


@pytest.mark.parametrize(
    ("time", "on_time"), [("09:00:00", True), ("09:02:00", True), ("09:02:59", True), ("09:03:00", False)]
)
async def test_two_minutes_of_grace_are_counted_in_whole_minutes(time: str, on_time: bool, story: Story) -> None:
    await story.made("08:30:00", cron="0 * * * *")
    await story.at(time, "tick")
    expected: LedgerRow = ("09:00", "pending", None) if on_time else ("09:00", "missed", "misfire")
    assert await story.outcome() == [expected]


async def test_catch_up_collapses_all_that_passed_into_one_run_of_the_newest(story: Story) -> None:
    await story.made("08:30:00", cron="0 * * * *", catch_up=True)
    assert (await story.schedule()).misfire == "latest"
    await story.fires("13:30")
    assert await story.outcome() == [("09:00", "missed", "misfire"), ("13:00", "pending", None)]
    [missed] = [row for row in await story.ledger() if row.status == "missed"]
    assert (missed.missed_count, missed.missed_until) == (4, at(instant("12:00")))
    await story.runs("13:30:01", "13:00")
    await story.fires("13:31")
    assert await story.outcome() == [("09:00", "missed", "misfire"), ("13:00", "completed", None)]


async def test_a_run_whose_worker_died_is_abandoned_past_the_grace_and_says_so(story: Story) -> None:
    await story.made(cron="0 7 * * *")
    await story.fires("07:00")
    await story.at("07:00:05", "claim", worker="w1", expect_run="07:00")
    await story.at("07:00:06", "lose_worker", worker="w1")
    await story.fires("11:00")
    assert await story.outcome() == [("07:00", "abandoned", None)]
    assert (await story.row_of("07:00")).reason_text == (
        "abandoned: its worker w1 was last heard too long ago and counts as lost; it is later than the grace of 120 s, "
        "and `misfire: skip` runs none that late"
    )
    assert (await story.schedule()).consecutive_failures == 0
    await story.at("11:01", "complete", run="07:00", expect_refused=True)


async def test_a_lost_run_uses_up_its_retries_before_it_is_abandoned(
    story: Story,
) -> None:
    await story.made(cron="0 7 * * *", retry={"max_attempts": 2})
    await story.fires("07:00")
    await story.at("07:00:05", "claim", worker="w1", expect_run="07:00")
    await story.at("07:00:06", "lose_worker", worker="w1")
    await story.fires("07:05")
    assert await story.outcome() == [("07:00", "retry_wait", None)]
    await story.at("07:05:30", "tick")
    await story.at("07:05:30", "claim", worker="w2", expect_run="07:00")
    await story.at("07:05:31", "lose_worker", worker="w2")
    await story.fires("07:10")
    assert await story.outcome() == [("07:00", "abandoned", None)]


async def fails_three_times(story: Story) -> None:
    await story.made("00:30:00", cron="0 * * * *", name="briefing")
    for time in ("01:00", "02:00", "03:00"):
        await story.fires(time)
        await story.at(f"{time}:10", "claim", worker="w1", expect_run=time)
        await story.at(f"{time}:20", "fail", run=time)


async def test_three_failures_in_a_row_pause_with_a_reason_and_a_note_in_the_owners_inbox(story: Story) -> None:
    await fails_three_times(story)
    await story.fires("04:00")
    assert [status for _, status, _ in await story.outcome()] == ["failed"] * 3
    row = await story.schedule()
    assert (row.status, row.pause_reason, row.consecutive_failures) == ("paused", "failures", 3)
    assert row.pause_note == "3 runs in a row have failed; the last one: it failed"
    assert row.next_fire_at is None
    [note] = await conversations.inbox(story.db, story.caller, row.conversation_id)
    assert (note.kind, note.schedule_id, note.run_id) == (
        "schedule_paused",
        row.id,
        (await story.row_of("03:00")).id,
    )
    assert "briefing" in note.text
    assert "was paused after 3 runs in a row have failed; the last one: it failed" in note.text


async def test_a_completion_in_between_starts_the_count_again(story: Story) -> None:
    await story.made("00:30:00", cron="0 * * * *")
    for time, end in (("01:00", "fail"), ("02:00", "fail"), ("03:00", "complete"), ("04:00", "fail")):
        await story.fires(time)
        await story.at(f"{time}:10", "claim", worker="w1", expect_run=time)
        await story.at(f"{time}:20", end, run=time)
    row = await story.schedule()
    assert (row.status, row.consecutive_failures) == ("active", 1)


async def test_a_resume_clears_the_count_and_goes_on_from_now(story: Story) -> None:
    await fails_three_times(story)
    await story.at("06:30", "resume")
    row = await story.schedule()
    assert (row.status, row.pause_reason, row.pause_note, row.consecutive_failures) == ("active", None, None, 0)
    assert row.next_fire_at == at(instant("07:00"))
    await story.fires("06:31", "07:00")
    assert await story.outcome() == [
        ("01:00", "failed", None),
        ("02:00", "failed", None),
        ("03:00", "failed", None),
        ("07:00", "pending", None),
    ]
    await story.at("07:00:10", "claim", worker="w1", expect_run="07:00")
    await story.at("07:00:20", "fail", run="07:00")
    row = await story.schedule()
    assert (row.status, row.consecutive_failures) == ("active", 1)


async def schedules_of(scene: Scene, conversation_id: int) -> list[ScheduleRow]:
    return await schedules.list_page(
        scene.db, scene.caller, conversation_id=conversation_id, statuses=None, after=0, limit=100
    )


async def test_forks_do_not_copy_schedules(scene: Scene) -> None:
    """Neither when they are made, nor when their run ends, nor when somebody goes on in them."""
    schedule = await scene.fire(mode="fork")
    task = await scene.claim()
    assert await schedules_of(scene, task.conversation_id) == []
    await ends(scene, task, "done")
    await scene.say("Go on", task.conversation_id)
    await ends(scene, await scene.claim(), "I do.")
    assert await schedules_of(scene, task.conversation_id) == []

    await scene.at("09:05:00")
    await tick.tick(scene.db, scene.settings)
    assert [run.schedule_id for run in await scene.runs()] == [schedule.id] * 2
    assert [row.id for row in await schedules_of(scene, scene.conversation_id)] == [schedule.id]
    assert len(await scene.rows("SELECT id FROM schedules")) == 1
