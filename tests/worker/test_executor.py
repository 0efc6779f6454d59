"""Claiming and running: what is claimed, in which order things go on, what a runner gets and what becomes of it."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from agentsched.runners.echo import EchoRunner
from agentsched.runners.protocol import Assignment, Entry, Outcome, RunnerError, ToolCall
from agentsched.service import tick
from agentsched.store import workers
from agentsched.worker.waker import ProcessWaker
from tests import people
from tests.worker.actors import Answering, Gated, said
from tests.worker.conftest import MakeExecutor
from tests.worker.outage import Watched, outage
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


async def test_the_fires_of_a_minute_end_to_end(scene: Scene, executor_for: MakeExecutor) -> None:
    for mode in ("fork", "append", "fresh"):
        await scene.schedule(mode=mode, name=mode, prompt=f"by {mode}")
    await scene.at("09:00:00")
    await tick.tick(scene.db, scene.settings)
    executor = executor_for(EchoRunner())

    assert await executor.run_once() == 3
    await executor.wait_idle()

    runs = await scene.runs()
    assert [run.status for run in runs] == ["completed"] * 3
    for run, mode in zip(runs, ("fork", "append", "fresh"), strict=True):
        prompt, answer = await scene.transcript(run.conversation_id)
        assert (prompt.role, prompt.content, prompt.run_id) == ("user", f"by {mode}", run.id)
        assert (prompt.schedule_id, prompt.fire_at) == (run.schedule_id, run.fire_at)
        assert (answer.role, answer.content) == ("assistant", f"Echo: by {mode}")
        assert run.result == f"Echo: by {mode}"
    assert {task.worker for task in await scene.tasks()} == {"w1"}
    assert await executor.run_once() == 0


async def test_a_runner_gets_the_history_the_agent_and_a_key(scene: Scene, executor_for: MakeExecutor) -> None:
    calls = (ToolCall("c1", "look", {"at": "it"}),)
    entries = (Entry("assistant", "", calls), Entry("tool", "seen", tool_call_id="c1"), Entry("assistant", "It is."))
    given: list[Assignment] = []

    def answer(assignment: Assignment) -> Outcome:
        given.append(assignment)
        return Outcome(entries, "It is.", {})

    executor = executor_for(Answering(answer))
    await scene.say("Is it?")
    await executor.run_once()
    await executor.wait_idle()
    await scene.fire(mode="fork", prompt="And now?")
    await executor.run_once()
    await executor.wait_idle()
    await scene.fire(mode="fork", prompt="Again?", max_history_entries=2, time="09:05:00")
    await executor.run_once()
    await executor.wait_idle()

    turn, run, *later = given
    [short] = [assignment for assignment in later if assignment.prompt == "Again?"]
    assert (turn.prompt, list(turn.history), turn.run_id, turn.idempotency_key) == ("Is it?", [], None, None)
    assert list(run.history) == [Entry("user", "Is it?"), *entries]
    assert run.agent.harness == people.HARNESS
    assert run.idempotency_key == f"run-{run.run_id}-attempt-1"
    assert run.preamble is not None
    assert "scheduled run" in run.preamble
    assert list(short.history) == list(entries[1:])


async def test_two_executors_never_run_two_tasks_of_one_conversation(
    scene: Scene, executor_for: MakeExecutor, background: Any
) -> None:
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    done = 0
    all_done = asyncio.Event()

    class Watched:
        async def run(self, assignment: Assignment) -> Outcome:
            nonlocal done
            running[assignment.conversation_id] += 1
            most[assignment.conversation_id] = max(
                most[assignment.conversation_id], running[assignment.conversation_id]
            )
            # Long enough for the other executor to claim in between.
            async with scene.db.begin() as conn:
                await workers.present(conn)
            running[assignment.conversation_id] -= 1
            done += 1
            if done == 36:
                all_done.set()
            return said("ok")

    other = await people.conversation(scene.db, scene.settings, scene.caller)
    for number in range(18):
        await scene.say(str(number))
        await scene.say(str(number), other)
    for name in ("w1", "w2"):
        background(executor_for(Watched(), name=name).run())
    async with asyncio.timeout(30):
        await all_done.wait()

    assert most == {scene.conversation_id: 1, other: 1}
    assert [entry.content for entry in await scene.transcript() if entry.role == "user"][:17] == [
        str(number) for number in range(17)
    ]


async def test_a_long_backlog_of_one_conversation_keeps_nobody_from_a_free_slot(
    scene: Scene, executor_for: MakeExecutor, background: Any
) -> None:
    runner = Gated()
    for number in range(12):
        await scene.say(str(number))
    other = await people.conversation(scene.db, scene.settings, scene.caller)
    await scene.say("me too", other)
    executor = executor_for(runner, concurrency=2, sweep_seconds=600)
    background(executor.run())
    async with asyncio.timeout(10):
        while [a.prompt for a in runner.assignments] != ["0", "me too"]:
            runner.begun.clear()
            await runner.begun.wait()
    assert executor.running == 2


async def test_the_next_in_line_starts_as_soon_as_the_one_before_it_has_ended(
    scene: Scene, executor_for: MakeExecutor, background: Any
) -> None:
    runner = Gated()
    await scene.fire(overlap="queue")
    await scene.at("09:05:00")
    await tick.tick(scene.db, scene.settings)
    assert [run.status for run in await scene.runs()] == ["pending", "queued"]
    background(executor_for(runner, sweep_seconds=600).run())
    async with asyncio.timeout(5):
        await runner.begun.wait()
        runner.begun.clear()
        runner.go.set()
        await runner.begun.wait()
    assert [a.run_id for a in runner.assignments] == [run.id for run in await scene.runs()]


async def test_an_executor_is_woken_by_its_process(
    scene: Scene, executor_for: MakeExecutor, background: Any, waker: ProcessWaker
) -> None:
    runner = Gated()
    executor = executor_for(runner, sweep_seconds=600)
    background(executor.run())
    await scene.say("hello")
    waker.wake()
    async with asyncio.timeout(5):
        await runner.begun.wait()


async def test_a_busy_executor_counts_as_present(scene: Scene, executor_for: MakeExecutor) -> None:
    await scene.say("one")
    executor = executor_for(Gated(), concurrency=1)
    assert await executor.run_once() == 1
    await scene.clock.step(seconds=120)
    assert await executor.run_once() == 0
    async with scene.db.begin() as conn:
        assert [worker.name for worker in await workers.present(conn)] == ["w1"]


async def test_it_claims_only_what_it_has_a_runner_for(scene: Scene, executor_for: MakeExecutor) -> None:
    await scene.say("hello")
    assert await executor_for({"other": EchoRunner}).run_once() == 0


def _raise(error: BaseException) -> Any:
    def answer(_: Assignment) -> Outcome:
        raise error

    return answer


R = "\N{REPLACEMENT CHARACTER}"
NO_OUTCOME = "ValueError: A runner answers with an Outcome; this one answered with a NoneType."
UNSTORABLE = Outcome((Entry("assistant", "", (ToolCall("c", "t", {"n": 10**5000}),)),), None, {})

BROKEN = {
    "its own error": (_raise(RunnerError("no_luck", "No luck\x00.", retryable=False)), "no_luck", f"No luck{R}."),
    "any error": (_raise(KeyError("x")), "runner_error", "The runner failed with KeyError: 'x'"),
    "exit": (_raise(SystemExit(3)), "runner_error", "The runner tried to end the worker's process."),
    "cancelled": (_raise(asyncio.CancelledError()), "runner_error", "The runner cancelled itself."),
    "no outcome": (lambda _: None, "runner_error", f"The runner failed with {NO_OUTCOME}"),
    "not storable": (lambda _: UNSTORABLE, "runner_error", "The turn could not be stored: ValueError."),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_runner_that_fails(case: str, scene: Scene, executor_for: MakeExecutor) -> None:
    answer, code, message = BROKEN[case]
    await scene.say("hello")
    executor = executor_for(Answering(answer))
    await executor.run_once()
    await executor.wait_idle()
    [task] = await scene.tasks()
    assert (task.status, task.error_code, task.error) == ("failed", code, message)
    assert [(entry.role, entry.content) for entry in await scene.transcript()] == [
        ("user", "hello"),
        ("error", message),
    ]


async def test_a_runner_that_cannot_be_made(scene: Scene, executor_for: MakeExecutor) -> None:
    made = 0

    def make() -> EchoRunner:
        nonlocal made
        made += 1
        if made == 1:
            raise ImportError("no such library")
        return EchoRunner()

    executor = executor_for({people.HARNESS: make})
    for words in ("one", "two", "three"):
        await scene.say(words)
        await executor.run_once()
        await executor.wait_idle()
    one, two, three = await scene.tasks()
    assert (one.status, one.error) == ("failed", "The runner failed with ImportError: no such library")
    assert (two.status, three.status) == ("completed", "completed")
    assert made == 2


async def test_permanent_errors_are_not_retried_and_others_are(scene: Scene, executor_for: MakeExecutor) -> None:
    failures = [RunnerError("flaky", "Not now.", retryable=True), RunnerError("flaky", "Never.", retryable=False)]

    def fail(_: Assignment) -> Outcome:
        raise failures.pop(0)

    executor = executor_for(Answering(fail))
    await scene.fire(retry={"max_attempts": 3, "initial_delay_seconds": 30})
    await executor.run_once()
    await executor.wait_idle()
    [run] = await scene.runs()
    assert (run.status, run.attempt, run.error_code) == ("retry_wait", 1, "flaky")
    await scene.at("09:00:30")
    await tick.sweep(scene.db, scene.settings)
    await executor.run_once()
    await executor.wait_idle()
    [run] = await scene.runs()
    assert (run.status, run.attempt) == ("failed", 2)


async def test_what_postgresql_cannot_store_is_stored_without_it(scene: Scene, executor_for: MakeExecutor) -> None:
    call = ToolCall("c\x00", "t", {"a\ud800": ["\x00", float("nan"), 1.5, None, True]})
    entries = (Entry("assistant", "one\x00two\udfff", (call,)), Entry("tool", "\x00", tool_call_id="c\x00"))
    await scene.say("hello")
    executor = executor_for(Answering(lambda _: Outcome(entries, "result\x00", {"requests": 1})))
    await executor.run_once()
    await executor.wait_idle()
    [task] = await scene.tasks()
    assert (task.status, task.result) == ("completed", f"result{R}")
    _, answer, tool = await scene.transcript()
    assert answer.content == f"one{R}two{R}"
    assert answer.tool_calls == [
        {
            "id": f"c{R}",
            "name": "t",
            "arguments": {f"a{R}": [R, "nan", 1.5, None, True]},
        }
    ]
    assert tool.tool_call_id == f"c{R}"


async def test_a_database_that_is_away_ends_no_executor(
    scene: Scene, executor_for: MakeExecutor, background: Any, watched_db: Watched, database_url: str
) -> None:
    runner = Gated()
    executor = executor_for(runner, sweep_seconds=600, db=watched_db)
    async with outage(database_url), asyncio.timeout(10):
        running = background(executor.run())
        await watched_db.refused.wait()
    assert not running.done()
    await scene.say("hello")
    async with asyncio.timeout(10):
        await runner.begun.wait()
