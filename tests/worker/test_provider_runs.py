"""Runs by pydantic-ai against a provider on a real socket, well behaved and not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentsched.runners.registry import runners
from agentsched.service import conversations, tick
from agentsched.service.requests import AgentSpec, NewConversation
from tests.openai_stub import Behaviour, Body, Hang, OpenAIStub, Reply, Status, openai_stub
from tests.worker.conftest import MakeExecutor
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio

AGENT = AgentSpec(harness="pydantic-ai", model="openai:stub", instructions="Be brief.", settings={"max_retries": 0})


@pytest.fixture
async def stub(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> AsyncIterator[OpenAIStub]:
    async with openai_stub() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        made, _ = await conversations.create(scene.db, scene.settings, scene.caller, NewConversation(agent=AGENT))
        scene.conversation_id = made.id
        yield stub


async def test_turns_and_runs_share_their_history(stub: OpenAIStub, scene: Scene, executor_for: MakeExecutor) -> None:
    stub.behaviours = [Reply("Hello Ada."), Reply("Two are open.")]
    executor = executor_for(runners())
    await scene.say("I am Ada.")
    await executor.run_once()
    await executor.wait_idle()
    await scene.fire(prompt="Check my PRs.")
    await executor.run_once()
    await executor.wait_idle()

    [run] = await scene.runs()
    assert (run.status, run.result) == ("completed", "Two are open.")
    assert run.usage == {"input_tokens": 11, "output_tokens": 7, "requests": 1, "tool_calls": 0}
    assert [entry.content for entry in await scene.transcript(run.conversation_id)] == [
        "I am Ada.", "Hello Ada.", "Check my PRs.", "Two are open.",
    ]  # fmt: skip
    messages = stub.requests[1]["messages"]
    assert [message["content"] for message in messages if message["role"] != "system"] == [
        "I am Ada.", "Hello Ada.", "Check my PRs.",
    ]  # fmt: skip
    assert "scheduled run" in str(messages[0])


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Status(429), "provider_rate_limited"),
        (Status(500), "provider_unavailable"),
        (Body("{}"), "provider_malformed"),
    ],
    ids=str,
)
async def test_what_a_provider_gets_wrong_is_tried_again(
    behaviour: Behaviour, code: str, stub: OpenAIStub, scene: Scene, executor_for: MakeExecutor
) -> None:
    stub.behaviours = [behaviour, Reply("Two are open.")]
    executor = executor_for(runners())
    await scene.fire(retry={"max_attempts": 2, "initial_delay_seconds": 30})
    await executor.run_once()
    await executor.wait_idle()
    [run] = await scene.runs()
    assert (run.status, run.error_code) == ("retry_wait", code)

    await scene.at("09:00:30")
    await tick.sweep(scene.db, scene.settings)
    await executor.run_once()
    await executor.wait_idle()
    [run] = await scene.runs()
    assert (run.status, run.attempt, run.result) == ("completed", 2, "Two are open.")


async def test_a_provider_that_hangs_runs_into_the_timeout(
    stub: OpenAIStub, scene: Scene, executor_for: MakeExecutor
) -> None:
    stub.behaviours = [Hang()]
    executor = executor_for(runners())
    await scene.fire(timeout_seconds=2)
    await executor.run_once()
    async with asyncio.timeout(20):
        await executor.wait_idle()
        await stub.hung_up.wait()
    [run] = await scene.runs()
    assert (run.status, run.error_code) == ("failed", "timeout")
