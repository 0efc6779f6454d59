"""The real provider path: OpenAI's SDK against a socket."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest
from pydantic_ai import Tool

from agentsched.runners.protocol import Entry, RunnerError, ToolCall
from agentsched.runners.pydantic_ai import PydanticAIRunner
from tests.openai_stub import Behaviour, Body, Hang, OpenAIStub, Reply, Status, openai_stub
from tests.runners.assignments import assignment

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAIStub]:
    async with openai_stub() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        yield stub


async def test_a_turn(stub: OpenAIStub) -> None:
    stub.behaviours = [Reply("Sunny.")]
    history = [
        Entry("user", "Where am I?"),
        Entry("error", "It rained."),
        Entry("system", "The person is in Rome."),
        Entry("user", "Where am I, I asked."),
        Entry("assistant", "", (ToolCall("any id!", "locate", {}),)),
        Entry("tool", "Rome", tool_call_id="any id!"),
        Entry("assistant", "In Rome."),
    ]
    outcome = await PydanticAIRunner().run(assignment(history=history, instructions="Be brief."))
    assert outcome.entries == (Entry("assistant", "Sunny."),)
    assert outcome.result == "Sunny."
    assert outcome.usage == {"input_tokens": 11, "output_tokens": 7, "requests": 1, "tool_calls": 0}
    (request,) = stub.requests
    assert request["model"] == "stub"
    sent = [message["role"] for message in request["messages"]]
    assert [role for role in sent if role != "system"] == [
        "user", "assistant", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert request["messages"][0] == {"role": "system", "content": "Be brief."}
    assert request["messages"][-1] == {"role": "user", "content": "How is the weather?"}


async def test_a_tool_call(stub: OpenAIStub) -> None:
    stub.behaviours = [Reply(tool_calls=(("locate", {"who": "me"}),)), Reply("In Rome.")]
    tools = [Tool(lambda who: f"{who}: Rome", name="locate", takes_ctx=False)]
    outcome = await PydanticAIRunner(tools=tools).run(assignment(tools=("locate",)))
    assert outcome.entries == (
        Entry("assistant", "", (ToolCall("call_1_0", "locate", {"who": "me"}),)),
        Entry("tool", "me: Rome", tool_call_id="call_1_0"),
        Entry("assistant", "In Rome."),
    )
    assert outcome.usage == {"input_tokens": 22, "output_tokens": 14, "requests": 2, "tool_calls": 1}


def completion(*choices: object) -> str:
    return json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": list(choices)})


@pytest.mark.parametrize(
    ("behaviour", "code", "retryable"),
    [
        (Status(400), "provider_refused", False),
        (Status(400, code="context_length_exceeded"), "context_too_long", False),
        (Status(401), "provider_refused_key", False),
        (Status(404), "model_not_found", False),
        (Status(408), "provider_unavailable", True),
        (Status(418), "provider_refused", False),
        (Status(429), "provider_rate_limited", True),
        (Status(429, code="insufficient_quota"), "provider_quota", False),
        (Status(500), "provider_unavailable", True),
        (Status(503), "provider_unavailable", True),
        (Body("<html>", "text/html"), "provider_malformed", True),
        (Body("not json"), "provider_malformed", True),
        (Body("{}"), "provider_malformed", True),
        (Body(completion()), "provider_malformed", True),
        (
            Body(completion({"index": 0, "message": None, "finish_reason": "stop"})),
            "provider_malformed",
            True,
        ),
        (Reply(""), "provider_malformed", True),
        (Reply(tool_calls=(("nobody_has_it", {}),)), "provider_malformed", True),
    ],
    ids=str,
)
async def test_what_a_provider_does_wrong(stub: OpenAIStub, behaviour: Behaviour, code: str, retryable: bool) -> None:
    stub.default = behaviour
    with pytest.raises(RunnerError) as failed:
        await PydanticAIRunner().run(assignment())
    assert (failed.value.code, failed.value.retryable) == (code, retryable)
    assert "openai:stub" in failed.value.message
    if isinstance(behaviour, Status):
        assert len(stub.requests) == 1
        assert failed.value.message.endswith(f"(HTTP {behaviour.status}): as told by the test")


async def test_a_hiccup_is_smoothed_over_once(stub: OpenAIStub) -> None:
    stub.behaviours = [Status(503), Reply("Sunny.")]
    assert (await PydanticAIRunner().run(assignment(settings={}))).result == "Sunny."
    stub.behaviours = [Status(503), Status(503), Reply("Sunny.")]
    with pytest.raises(RunnerError, match="unavailable"):
        await PydanticAIRunner().run(assignment(settings={}))


async def test_a_hang_ends_with_the_cancellation(stub: OpenAIStub) -> None:
    stub.behaviours = [Hang()]
    turn = asyncio.ensure_future(PydanticAIRunner().run(assignment()))
    await stub.received(1)
    turn.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(asyncio.CancelledError):
            await turn
        await stub.hung_up.wait()


async def test_a_time_limit_of_the_agent(stub: OpenAIStub) -> None:
    stub.behaviours = [Hang()]
    with pytest.raises(RunnerError) as failed:
        await PydanticAIRunner().run(assignment(settings={"request_timeout": 0.05}))
    assert (failed.value.code, failed.value.retryable) == ("provider_timeout", True)


async def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    # Bound but not listening, so that the port refuses connections and nobody else can take it.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with pytest.raises(RunnerError) as failed:
            await PydanticAIRunner().run(assignment())
    assert (failed.value.code, failed.value.retryable) == ("provider_unreachable", True)
