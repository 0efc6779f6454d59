"""A scheduled run cannot schedule by any tool, offered or not; its lineage in the database decides (DESIGN §10)."""

from typing import Any

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.service import authenticate, claim, finish, subtasks, tick
from agentsched.service.claim import Claimed
from agentsched.service.requests import NewSubtask
from agentsched.service.settle import Report
from agentsched.store.database import Database
from agentsched.tools.calling import for_conversation
from agentsched.tools.catalogue import TOOLS, offered
from tests import people
from tests.clock import Clock
from tests.tools.desk import Desk

pytestmark = pytest.mark.anyio

ALLOWED = ["schedule_list", "schedule_cancel", "schedule_history"]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "schedule_create": {"prompt": "x", "every": "1h"},
    "schedule_update": {"prompt": "y"},
}


@pytest.fixture
async def fired(desk: Desk, clock: Clock) -> Desk:
    """Ada's desk with two schedules, the first of which has fired by the clock."""
    await desk.done("schedule_create", prompt="look every hour", cron="0 * * * *", name="Look")
    await desk.done("schedule_create", prompt="x", cron="30 8 1 * *", name="Other")
    await clock.freeze("2026-10-24T08:00:00Z")
    await tick.tick(desk.db, desk.settings)
    return desk


async def take(desk: Desk) -> Claimed:
    [task] = await claim.claim(desk.db, desk.settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
    return task


async def desk_of_task(desk: Desk, task: Claimed) -> Desk:
    """The model that works on a task, by the task's own token."""
    caller = await authenticate.authenticate(desk.db, task.token)
    assert caller is not None
    return Desk(desk.db, desk.settings, await for_conversation(desk.db, caller, None))


async def subtask_of(desk: Desk, parent: Desk) -> Desk:
    await subtasks.ask(desk.db, desk.settings, parent.caller, NewSubtask(prompt="help"))
    return await desk_of_task(desk, await take(desk))


async def refused_everywhere(model: Desk, desk: Desk, code: str = "scheduled_run_cannot_schedule") -> None:
    """Every tool that schedules is refused, valid arguments or not, and nothing changes."""
    before = await desk.rows()
    for spec in TOOLS:
        if spec.name in ALLOWED:
            continue
        named = {"schedule": "Look"} if "schedule" in spec.input_schema["properties"] else {}
        for arguments in (named | ARGUMENTS.get(spec.name, {}), {"nonsense": 1}):
            answer = await model.call(spec.name, **arguments)
            assert (answer.is_error, answer.data["code"]) == (True, code), spec.name
            assert "say in its result what should be scheduled" in answer.text
    assert await desk.rows() == before


async def test_a_cron_run(fired: Desk) -> None:
    model = await desk_of_task(fired, await take(fired))
    assert [spec.name for spec in offered(model.caller)] == ALLOWED
    await refused_everywhere(model, fired)


async def test_the_sub_task_of_a_run_and_its_sub_task(fired: Desk) -> None:
    run = await desk_of_task(fired, await take(fired))
    child = await subtask_of(fired, run)
    for model in (child, await subtask_of(fired, child)):
        assert model.caller.task is not None
        assert model.caller.task.scheduled_run_id is not None
        assert [spec.name for spec in offered(model.caller)] == ALLOWED
        await refused_everywhere(model, fired)


async def test_a_task_whose_ancestors_are_gone(fired: Desk, db: Database) -> None:
    child = await subtask_of(fired, await desk_of_task(fired, await take(fired)))
    assert child.caller.task is not None
    async with db.begin() as conn:
        await conn.execute(text("DELETE FROM tasks WHERE kind = 'run'"))
        await conn.execute(text("DELETE FROM runs"))
        token = (await conn.execute(text("SELECT 1 FROM tasks WHERE id = :id"), {"id": child.caller.task.id})).first()
    assert token is not None
    orphan = Desk(
        db,
        fired.settings,
        type(child.caller)(**vars(child.caller) | {"task": child.caller.task._replace(scheduled_by=None)}),
    )
    assert [spec.name for spec in offered(orphan.caller)] == ["schedule_list", "schedule_history"]
    await refused_everywhere(orphan, fired)
    assert (await orphan.refused("schedule_cancel", schedule="Look"))["code"] == "scheduled_run_cancels_its_own"


async def test_a_run_reads_and_cancels_its_own_schedule_by_name_and_no_other(fired: Desk) -> None:
    model = await desk_of_task(fired, await take(fired))
    assert [each["name"] for each in (await model.done("schedule_list"))["schedules"]] == ["Look"]
    shown = await model.done("schedule_history", schedule="Look")
    assert [run["trigger"] for run in shown["runs"]] == ["cron"]
    assert (await model.refused("schedule_cancel", schedule="Other"))["code"] == "schedule_not_found"
    cancelled = await model.done("schedule_cancel", schedule="Look")
    assert (cancelled["status"], cancelled["live"]) == ("cancelled", 1)


async def test_a_persons_later_turn_in_the_fork_may_schedule(fired: Desk) -> None:
    task = await take(fired)
    report = Report(End.COMPLETED)
    await finish.report(fired.db, fired.settings, task_id=task.id, fence=task.fence, report=report)
    ada = await people.somebody(fired.db)
    await people.say(fired.db, fired.settings, ada, task.conversation_id, "every day from now on, please")
    model = await desk_of_task(fired, await take(fired))
    assert model.caller.conversation_id == task.conversation_id
    assert len(offered(model.caller)) == len(TOOLS)
    assert (await model.done("schedule_create", prompt="x", every="1d"))["status"] == "created"
