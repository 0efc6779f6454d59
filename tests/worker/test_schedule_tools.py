"""Agents of conversations here schedule by their tools, through executor and pydantic-ai; only models are scripts."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from sqlalchemy.engine import make_url

from agentsched.core.words import ScheduleStatus
from agentsched.runners.pydantic_ai import PydanticAIRunner
from agentsched.service import conversations, schedules, tick
from agentsched.service.requests import AgentSpec, NewConversation
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.call import Toolbox
from agentsched.tools.catalogue import TOOLS
from agentsched.tools.toolset import ScheduleTools
from agentsched.worker.history import read_assignment
from tests import people
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio

READ_OR_CANCEL = ["schedule_list", "schedule_cancel", "schedule_history"]
EVERY_MORNING = {"cron": "0 0 9 * * 1-5", "prompt": "Check my open pull requests."}

Step = Callable[[str], ModelResponse]
"""What the model does after the last tool's answer."""


class Script:
    """A model that takes its steps in turn, and remembers which tools it was told of."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.told: list[list[str]] = []
        self.side_by_side: list[str] = []
        self.heard: list[str] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.told.append([tool.name for tool in info.function_tools])
        self.side_by_side = [tool.name for tool in info.function_tools if not tool.sequential]
        answers = [part.model_response_str() for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        self.heard += answers
        return self.steps.pop(0)("\n".join(answers))


def calls(name: str, arguments: str | dict[str, Any]) -> Step:
    return lambda _: ModelResponse(parts=[ToolCallPart(name, arguments)])


def says(text: str) -> Step:
    return lambda _: ModelResponse(parts=[TextPart(text)])


def says_what_it_heard(heard: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(heard)])


def as_told(heard: str) -> ModelResponse:
    """Knows nothing but the answer to its call: writes the cron expression that it names."""
    found = re.search(r"Write `([^`]+)`", heard)
    assert found is not None, heard
    return ModelResponse(parts=[ToolCallPart("schedule_create", EVERY_MORNING | {"cron": found[1]})])


class Stage:
    """A conversation with a scripted agent, and an executor that plays it."""

    def __init__(self, scene: Scene, executor_for: MakeExecutor, waker: Any) -> None:
        self.scene, self._executor_for, self.waker = scene, executor_for, waker

    async def play(self, script: Script) -> None:
        """Run what is pending with this script for a model."""
        tools = ScheduleTools(self.scene.db, Toolbox(self.scene.db, self.scene.settings, self.waker))
        executor = self._executor_for(PydanticAIRunner(FunctionModel(script), schedule_tools=tools))
        assert await executor.run_once() == 1
        await executor.wait_idle()
        assert script.steps == [], [task.error for task in await self.scene.tasks()]

    async def schedules(self) -> list[ScheduleRow]:
        every = list(ScheduleStatus)
        return await schedules.list_page(
            self.scene.db, self.scene.caller, conversation_id=None, statuses=every, after=0, limit=100
        )


@pytest.fixture
def stage(scene: Scene, executor_for: MakeExecutor, waker: Any) -> Stage:
    return Stage(scene, executor_for, waker)


async def test_an_agent_schedules_and_its_run_cannot(stage: Stage) -> None:
    scene = stage.scene
    model = Script(calls("schedule_create", EVERY_MORNING), as_told, says("Every weekday at 9."))
    await scene.say("every weekday at 9 check my open pull requests")
    await stage.play(model)

    assert model.told == [[spec.name for spec in TOOLS]] * 3
    [schedule] = await stage.schedules()
    assert (schedule.cron, schedule.prompt) == ("0 9 * * 1-5", "Check my open pull requests.")
    transcript = await scene.transcript()
    assert [entry.role for entry in transcript] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert transcript[1].tool_calls is not None
    assert transcript[1].tool_calls[0]["arguments"] == EVERY_MORNING
    assert "cron_six_fields" in transcript[2].content
    assert transcript[4].content.startswith("Say to the person: I have scheduled")

    await scene.at("09:00:00")
    await tick.tick(scene.db, scene.settings)
    again = Script(calls("schedule_create", EVERY_MORNING | {"cron": "0 10 * * *"}), says("Two are open."))
    await stage.play(again)

    assert again.told == [READ_OR_CANCEL] * 2
    assert "scheduled_run_cannot_schedule" in again.heard[0]
    assert "say in its result what should be scheduled" in again.heard[0]
    [run] = await scene.runs()
    assert (run.status, run.result) == ("completed", "Two are open.")
    assert run.conversation_id != scene.conversation_id
    in_fork = await scene.transcript(run.conversation_id)
    assert [entry.role for entry in in_fork[6:]] == ["user", "assistant", "tool", "assistant"]
    assert await stage.schedules() == [schedule._replace(**after_fire(await stage.schedules()))]


def after_fire(rows: list[ScheduleRow]) -> dict[str, Any]:
    """What a fire changes in a schedule."""
    changed = ("next_fire_at", "last_fire_at", "accounted_until", "runs_admitted", "day", "day_runs", "day_tokens")
    return {name: getattr(rows[0], name) for name in (*changed, "updated_at")}


async def test_whatever_a_model_sends_is_answered(stage: Stage) -> None:
    nonsense: list[str | dict[str, Any]] = [{}, {"nested": {"a": [1]}}, "[1]", '"x"', "{", '{"prompt": "\\ud800"}']
    model = Script(*(calls("schedule_create", each) for each in nonsense), says("I give up."))
    await stage.scene.say("every day, please")
    await stage.play(model)
    [task] = await stage.scene.tasks()
    assert (task.status, task.result) == ("completed", "I give up.")
    assert len(model.heard) == len(nonsense)
    transcript = await stage.scene.transcript()
    assert [entry.role for entry in transcript] == ["user", *["assistant", "tool"] * len(nonsense), "assistant"]
    assert await stage.schedules() == []


async def test_the_third_equal_refusal_says_stop(stage: Stage) -> None:
    model = Script(*[calls("schedule_create", EVERY_MORNING)] * 3, says_what_it_heard)
    await stage.scene.say("every day, please")
    await stage.play(model)
    [task] = await stage.scene.tasks()
    assert task.result.startswith("Stop: this same call has been refused 3 times")
    assert not model.heard[1].startswith("Stop")


async def test_several_calls_at_once_are_done_in_their_order(stage: Stage) -> None:
    for number in range(10):
        await stage.scene.schedule(cron=f"{number} 9 * * *", prompt="x", name=f"n{number}")
    made = [ToolCallPart("schedule_create", {"every": "1h", "prompt": prompt}) for prompt in ("too early", "y")]
    three = [made[0], ToolCallPart("schedule_cancel", {"schedule": "n3"}), made[1]]
    await stage.scene.say("instead of n3 every hour")
    model = Script(lambda _: ModelResponse(parts=three), says("Done."))
    await stage.play(model)
    assert model.side_by_side == ["schedule_list", "schedule_history"]
    assert [row.prompt for row in await stage.schedules() if row.status == "active"] == ["x"] * 9 + ["y"]


async def test_an_agent_can_do_without(stage: Stage) -> None:
    agent = AgentSpec(harness=people.HARNESS, settings={"schedule_tools": False, "temperature": 0.5})
    scene = stage.scene
    made, _ = await conversations.create(scene.db, scene.settings, scene.caller, NewConversation(agent=agent))
    await scene.say("hello", made.id)
    model = Script(says("Hello."))
    await stage.play(model)
    assert model.told == [[]]


async def test_a_worker_that_has_lost_the_task_is_refused(stage: Stage) -> None:
    scene = stage.scene
    await scene.say("every day, please")
    claimed = await scene.claim()
    tools = ScheduleTools(scene.db, Toolbox(scene.db, scene.settings, stage.waker))
    assignment = await read_assignment(scene.db, claimed)
    assert (await tools.call(assignment, "schedule_list", {})).startswith("Say to the person")
    await scene.clock.step(seconds=31)
    await tick.sweep(scene.db, scene.settings)
    for name, arguments in (("schedule_create", {"every": "1h", "prompt": "x"}), ("schedule_list", {})):
        assert await tools.call(assignment, name, arguments) == (
            "Nothing was done: this turn has been taken from its worker. Stop."
        )
    assert await stage.schedules() == []


async def test_a_database_that_is_away_ends_no_turn(stage: Stage, database_url: str) -> None:
    scene = stage.scene
    await scene.say("every day, please")
    assignment = await read_assignment(scene.db, await scene.claim())
    nobody = Database(make_url(database_url).set(host="127.0.0.1", port=1).render_as_string(hide_password=False))
    tools = ScheduleTools(nobody, Toolbox(nobody, scene.settings, stage.waker))
    assert "the database does not answer" in await tools.call(assignment, "schedule_list", {})
    await nobody.close()
