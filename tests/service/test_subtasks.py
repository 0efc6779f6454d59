"""Sub-tasks, their lineage and their bounds; tokens and budgets of a model (DESIGN §10)."""

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.runners.protocol import Entry
from agentsched.service import backfills, claim, conversations, finish, lifecycle, requeue, runs, subtasks, tick
from agentsched.service.authenticate import authenticate
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.errors import Conflict, Forbidden, NotFound, TooMany
from agentsched.service.requests import BackfillRequest, NewMessage, NewSubtask
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock

pytestmark = pytest.mark.anyio

DONE = Report(
    End.COMPLETED, entries=[Entry("assistant", "done")], result="done", usage={"input_tokens": 30, "output_tokens": 12}
)


@pytest.fixture
async def ada(db: Database, clock: Clock) -> Caller:
    await clock.freeze("2026-05-01T00:00:30Z")
    return await people.somebody(db)


async def take(db: Database, settings: Settings) -> tuple[Claimed, Caller]:
    """The next task, and who asks with its token."""
    [task] = await claim.claim(db, settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
    caller = await authenticate(db, task.token)
    assert caller is not None
    return task, caller


async def subtask_of(db: Database, settings: Settings, caller: Caller) -> tuple[Claimed, Caller]:
    await subtasks.ask(db, settings, caller, NewSubtask(prompt="part"))
    return await take(db, settings)


async def test_a_subtask_runs_in_a_conversation_of_its_own_and_its_result_is_read_by_who_asked(
    db: Database, settings: Settings, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    await people.say(db, settings, ada, owner, "look into it")
    asker, caller = await take(db, settings)
    child, child_caller = await subtask_of(db, settings, caller)
    assert (child.prompt, child.conversation_id != asker.conversation_id) == ("part", True)
    assert child.agent == asker.agent
    await finish.report(db, settings, task_id=child.id, fence=child.fence, report=DONE)
    seen = await runs.task(db, caller, child.id)
    assert (seen.status, seen.result, seen.parent_task_id) == ("completed", "done", asker.id)
    with pytest.raises(NotFound):
        await runs.task(db, child_caller, asker.id)


async def test_the_lineage_reaches_subtasks_of_subtasks_and_what_is_said_in_their_conversations(
    db: Database, settings: Settings, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner)
    await people.run_now(db, ada, schedule.id)
    _, run_caller = await take(db, settings)
    child, child_caller = await subtask_of(db, settings, run_caller)
    grandchild, grandchild_caller = await subtask_of(db, settings, child_caller)
    await finish.report(db, settings, task_id=grandchild.id, fence=grandchild.fence, report=DONE)
    await conversations.say(db, settings, ada, grandchild.conversation_id, NewMessage(text="go on"))
    _, later_caller = await take(db, settings)
    for caller in (run_caller, child_caller, grandchild_caller, later_caller):
        with pytest.raises(Forbidden) as refused:
            await lifecycle.run_now(db, settings, caller, schedule.id)
        assert refused.value.code == "scheduled_run_cannot_schedule"
    async with db.begin() as conn:
        # As it is when the run has been pruned.
        await conn.execute(text("UPDATE tasks SET scheduled_run_id = 424242 WHERE id = :id"), {"id": child.id})
    pruned = await authenticate(db, (await _token_again(db, settings, child)).token)
    assert pruned is not None
    with pytest.raises(Forbidden):
        await lifecycle.pause(db, pruned, schedule.id)


async def _token_again(db: Database, settings: Settings, task: Claimed) -> Claimed:
    await finish.release(db, settings, task_id=task.id, fence=task.fence)
    [again] = await claim.claim(db, settings, worker="w2", harnesses=[people.HARNESS], max_tasks=1)
    assert again.id == task.id
    return again


async def test_a_task_asks_for_so_many_subtasks_and_so_deep(db: Database, settings: Settings, ada: Caller) -> None:
    settings = settings.model_copy(update={"subtasks_per_task": 2, "subtask_depth": 1})
    await people.say(db, settings, ada, await people.conversation(db, settings, ada), "look")
    task, caller = await take(db, settings)
    _, child_caller = await subtask_of(db, settings, caller)
    with pytest.raises(Conflict) as deep:
        await subtasks.ask(db, settings, child_caller, NewSubtask(prompt="deeper"))
    assert deep.value.code == "subtask_too_deep"
    first, _ = await subtasks.ask(db, settings, caller, NewSubtask(prompt="b"), key="k")
    assert await subtasks.ask(db, settings, caller, NewSubtask(prompt="b"), key="k") == (first, False)
    with pytest.raises(Conflict) as many:
        await subtasks.ask(db, settings, caller, NewSubtask(prompt="c"))
    assert many.value.code == "too_many_subtasks"
    await finish.report(db, settings, task_id=task.id, fence=task.fence, report=DONE)
    with pytest.raises(Conflict) as ended:
        await subtasks.ask(db, settings, caller, NewSubtask(prompt="d"))
    assert ended.value.code == "task_ended"
    with pytest.raises(Forbidden):
        await subtasks.ask(db, settings, ada, NewSubtask(prompt="e"))


async def test_tokens_of_runs_and_of_their_subtasks_are_counted_and_end_the_day(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner, daily_token_limit=80)
    await clock.freeze("2026-05-01T00:05:00Z")
    await tick.tick(db, settings)
    run, caller = await take(db, settings)
    child, _ = await subtask_of(db, settings, caller)
    await finish.report(db, settings, task_id=child.id, fence=child.fence, report=DONE)
    await finish.report(db, settings, task_id=run.id, fence=run.fence, report=DONE)
    async with db.begin() as conn:
        assert (await conn.execute(text("SELECT day_tokens FROM schedules"))).scalar_one() == 84
        assert (await conn.execute(text("SELECT tokens FROM principal_days"))).scalar_one() == 84
    await clock.freeze("2026-05-01T00:10:00Z")
    await tick.tick(db, settings)
    async with db.begin() as conn:
        row = (await conn.execute(text("SELECT reason, reason_text FROM runs ORDER BY id DESC LIMIT 1"))).one()
    assert (row.reason, "80 tokens" in row.reason_text) == ("budget", True)
    model = Caller(ada.principal_id, ada.scope, "task:0", owner, by_model=True)
    with pytest.raises(TooMany):
        await lifecycle.run_now(db, settings, model, schedule.id)
    assert (await people.run_now(db, ada, schedule.id)).status == "pending"


async def test_a_model_is_refused_over_budget_where_a_person_is_not(
    db: Database, settings: Settings, clock: Clock, ada: Caller
) -> None:
    settings = settings.model_copy(update={"daily_run_limit_per_principal": 3})
    owner = await people.conversation(db, settings, ada)
    schedule = await people.schedule(db, settings, ada, owner, daily_run_limit=2, overlap="allow")
    model = Caller(ada.principal_id, ada.scope, "task:0", owner, by_model=True)
    await lifecycle.run_now(db, settings, model, schedule.id)
    failed, _ = await take(db, settings)
    error = Report(End.FAILED, error_code="error", error="no", retryable=False)
    await finish.report(db, settings, task_id=failed.id, fence=failed.fence, report=error)
    await lifecycle.run_now(db, settings, model, schedule.id)
    ten_minutes = BackfillRequest.model_validate({"from": "2026-04-30T23:50:00Z", "to": "2026-05-01T00:00:00Z"})
    assert failed.run_id is not None
    for asked in (
        lifecycle.run_now(db, settings, model, schedule.id),
        requeue.requeue(db, settings, model, failed.run_id),
        backfills.make(db, settings, model, schedule.id, ten_minutes),
    ):
        with pytest.raises(TooMany) as refused:
            await asked
        assert refused.value.code == "budget_spent"
    other = await people.schedule(db, settings, ada, owner)
    await lifecycle.run_now(db, settings, model, other.id)
    with pytest.raises(TooMany):
        await lifecycle.run_now(db, settings, model, other.id)
    async with db.begin() as conn:
        assert (await conn.execute(text("SELECT count(*) FROM runs"))).scalar_one() == 3
    await requeue.requeue(db, settings, ada, failed.run_id)
    await backfills.make(db, settings, ada, schedule.id, ten_minutes)
