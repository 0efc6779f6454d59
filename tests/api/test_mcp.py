"""`/mcp`: the tools by the protocol's own client in both generations, and what turns a request away before it."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import pytest
import structlog
from httpx import ASGITransport, AsyncClient, Response
from litestar import Litestar
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, RequestParamsMeta, TextContent

from agentsched.api.app import create_app
from agentsched.core.words import Scope
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools.catalogue import TOOLS
from agentsched.tools.mcp_server import REFUSAL_META
from tests import people
from tests.api import steps
from tests.api.conftest import CountingWaker, key_of
from tests.api.test_task_token import scheduled, take

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:8420/mcp"
GENERATIONS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
META = "io.agentsched/conversation_id"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> str:
    version: str = request.param
    return version


@asynccontextmanager
async def connected(app: Litestar, generation: str, key: str, **headers: str) -> AsyncIterator[Client]:
    """The SDK's client with this key."""
    transport = httpx2.ASGITransport(app)  # type: ignore[arg-type]  # Litestar has types of its own for ASGI
    async with (
        httpx2.AsyncClient(transport=transport, headers={"Authorization": f"Bearer {key}", **headers}) as http,
        Client(streamable_http_client(URL, http_client=http), mode=GENERATIONS[generation]) as client,
    ):
        assert client.session.protocol_version == generation
        yield client


async def ask(app: Litestar, message: object = LIST, method: str = "POST", url: str = URL, **headers: str) -> Response:
    """One message as it goes over the wire, of the generation that needs no more than this."""
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    sent = {"Accept": "application/json", "Content-Type": "application/json", **headers}
    async with AsyncClient(transport=ASGITransport(app)) as http:  # type: ignore[arg-type]
        return await http.request(method, url, content=content, headers=sent)


def bearer(key: str) -> str:
    return f"Bearer {key}"


def naming(conversation: object) -> RequestParamsMeta:
    return cast("RequestParamsMeta", {META: conversation})


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def done(client: Client, name: str, /, **arguments: object) -> dict[str, Any]:
    """The structured content of a call that has to succeed; the client checks it against the tool's schema."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def test_the_tools_are_listed_with_all_that_hosts_want(app: Litestar, db: Database, generation: str) -> None:
    async with connected(app, generation, await key_of(db, "ada")) as client:
        listed = (await client.list_tools()).tools
        info = client.session.server_info
    assert info is not None
    assert info.name == "agentsched"
    assert [tool.name for tool in listed] == [spec.name for spec in TOOLS]
    for tool, spec in zip(listed, TOOLS, strict=True):
        assert (tool.input_schema, tool.output_schema) == (spec.input_schema, spec.output_schema)
        assert (tool.title, tool.description) == (spec.title, spec.description)
        hints = tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (spec.read_only, spec.destructive)
        assert (hints.idempotent_hint, hints.open_world_hint) == (spec.idempotent, False)


async def test_create_list_update_cancel(
    app: Litestar, client: AsyncClient, db: Database, generation: str, waker: CountingWaker
) -> None:
    owner = await steps.conversation(client)
    key = await key_of(db, "ada", conversation=owner)
    async with connected(app, generation, key) as model:
        made = await done(model, "schedule_create", prompt="Check my PRs", cron="0 9 * * 1-5", name="PRs")
        assert made["status"] == "created"
        assert [each["id"] for each in (await done(model, "schedule_list"))["schedules"]] == [made["id"]]
        changed = await done(model, "schedule_update", schedule="PRs", every="2h")
        assert (changed["id"], changed["status"]) == (made["id"], "updated")
        ended = await done(model, "schedule_cancel", schedule=str(made["id"]))
        assert ended["status"] == "cancelled"
    kept = (await client.get(f"/v1/schedules/{made['id']}")).json()
    assert (kept["conversation_id"], kept["status"]) == (owner, "cancelled")
    assert waker.calls > 0


async def test_a_refusal_is_a_result_that_says_what_to_write(
    app: Litestar, client: AsyncClient, db: Database, generation: str
) -> None:
    owner = await steps.conversation(client)
    async with connected(app, generation, await key_of(db, "ada", conversation=owner)) as model:
        result = await model.call_tool("schedule_create", {"prompt": "x", "cron": "0 0 9 * * 1-5"})
    assert result.is_error
    assert "cron_six_fields" in text_of(result)
    assert result.structured_content is None, "some clients hold it against the schema of what is done"
    assert result.meta is not None
    assert result.meta[REFUSAL_META]["errors"][0]["code"] == "cron_six_fields"


async def test_an_unknown_tool_is_an_error_of_the_protocol(app: Litestar, db: Database, generation: str) -> None:
    async with connected(app, generation, await key_of(db, "ada")) as model:
        with pytest.raises(MCPError, match=r"Unknown tool: schedule_make.*schedule_") as raised:
            await model.call_tool("schedule_make", {})
    assert raised.value.error.code == -32602


async def test_a_key_of_all_conversations_names_one(
    app: Litestar, client: AsyncClient, other: AsyncClient, db: Database, generation: str
) -> None:
    first, second = await steps.conversation(client), await steps.conversation(client)
    foreign = await steps.conversation(other)
    key = await key_of(db, "ada")
    async with connected(app, generation, key) as model:
        unnamed = await model.call_tool("schedule_list", {})
        assert unnamed.is_error
        assert "X-Conversation-Id" in text_of(unnamed)
        assert META in text_of(unnamed)
        for wrong in (foreign, 10**9):
            absent = await model.call_tool("schedule_list", {}, meta=naming(wrong))
            assert absent.is_error
            assert text_of(absent).replace(str(wrong), "ID") == (
                "There is no conversation ID. List them to see which ones there are."
            )
        for malformed in ("first", -1, True, 2**63, [1]):
            refused = await model.call_tool("schedule_list", {}, meta=naming(malformed))
            assert refused.is_error
            assert META in text_of(refused)
    async with connected(app, generation, key, **{"X-Conversation-Id": str(first)}) as model:
        made = await done(model, "schedule_create", prompt="x", every="1h")
        elsewhere = await model.call_tool("schedule_create", {"prompt": "y", "every": "1h"}, meta=naming(second))
        assert isinstance(elsewhere.structured_content, dict)
    owners = [
        (await client.get(f"/v1/schedules/{each['id']}")).json()["conversation_id"]
        for each in (made, elsewhere.structured_content)
    ]
    assert owners == [first, second], "what the call itself says goes before the header"


async def test_a_key_of_one_conversation_cannot_name_another(app: Litestar, client: AsyncClient, db: Database) -> None:
    mine, another = await steps.conversation(client), await steps.conversation(client)
    key = await key_of(db, "ada", conversation=mine)
    async with connected(app, "2026-07-28", key, **{"X-Conversation-Id": str(another)}) as model:
        assert (await model.call_tool("schedule_list", {})).is_error


async def test_a_scheduled_run_is_offered_little_and_refused_the_rest(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings, generation: str
) -> None:
    schedule, task = await scheduled(client, db, settings)
    async with connected(app, generation, task.token) as model:
        offered = [tool.name for tool in (await model.list_tools()).tools]
        assert offered == ["schedule_list", "schedule_cancel", "schedule_history"]
        refused = await model.call_tool("schedule_create", {"prompt": "x", "every": "1h"})
        assert refused.is_error
        assert "scheduled run" in text_of(refused)
        ended = await done(model, "schedule_cancel", schedule=str(schedule["id"]))
        assert ended["status"] == "cancelled"
    assert (await client.get("/v1/schedules")).json()["items"] == []


async def test_a_persons_turn_schedules_in_its_own_conversation(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings, generation: str
) -> None:
    owner = await steps.conversation(client, agent={"harness": people.HARNESS})
    await client.post(f"/v1/conversations/{owner}/messages", json={"text": "hi"})
    async with connected(app, generation, (await take(db, settings)).token) as model:
        made = await done(model, "schedule_create", prompt="x", every="1h")
    assert (await client.get(f"/v1/schedules/{made['id']}")).json()["conversation_id"] == owner


async def test_without_a_credential_nothing_is_answered(app: Litestar, db: Database) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic YWRhOmFkYQ=="}):
        answer = await ask(app, **headers)
        assert steps.problem(answer, 401)["code"] in ("key_missing", "key_invalid")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    worker = await key_of(db, "ada", Scope.WORKER)
    assert steps.problem(await ask(app, Authorization=bearer(worker)), 403)["code"] == "scope_insufficient"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_every_message_is_a_post(app: Litestar, db: Database, method: str) -> None:
    for version in GENERATIONS:
        answer = await ask(
            app, method=method, Authorization=bearer(await key_of(db, "ada")), **{"MCP-Protocol-Version": version}
        )
        assert steps.problem(answer, 405)["code"] == "method_not_allowed"
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 200, None),
        ({"Host": "localhost:9"}, 200, None),
        ({"Host": "[::1]:8420"}, 200, None),
        ({"Host": "10.0.0.5:8420"}, 200, None),
        ({"Host": "sched.example.com"}, 200, None),
        ({"Host": "evil.example"}, 421, "host_not_allowed"),
        ({"Host": "localhost.evil.example:8420"}, 421, "host_not_allowed"),
        ({"Origin": "http://localhost:3000"}, 200, None),
        ({"Origin": "https://sched.example.com"}, 200, None),
        ({"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ({"Origin": "null"}, 403, "origin_not_allowed"),
    ],
)
async def test_other_names_than_the_services_own_are_turned_away(
    db: Database, settings: Settings, headers: dict[str, str], status: int, code: str | None
) -> None:
    named = settings.model_copy(update={"host": "10.0.0.5", "allowed_hosts": "sched.example.com, agents.example.com"})
    app = create_app(db, named, CountingWaker())
    async with app.lifespan():
        answer = await ask(app, Authorization=bearer(await key_of(db, "ada")), **headers)
    assert answer.status_code == status, answer.text
    if code is not None:
        details = steps.problem(answer, status)
        assert details["code"] == code
        assert "AGENTSCHED_ALLOWED_HOSTS" in details["detail"]


BROKEN = [
    b"",
    b"{",
    b"\xff",
    b"null",
    b"[]",
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "schedule_list", "arguments": []}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}',
]


async def test_broken_messages_are_errors_of_theirs(app: Litestar, db: Database) -> None:
    key = bearer(await key_of(db, "ada"))
    for version in (*GENERATIONS, "1999-01-01"):
        for body in BROKEN:
            answer = await ask(app, body, Authorization=key, **{"MCP-Protocol-Version": version})
            assert answer.status_code < 500, (version, body[:40])
            assert "error" in answer.json(), (version, body[:40])


async def test_a_body_that_is_too_large(app: Litestar, db: Database) -> None:
    answer = await ask(app, b"x" * 1_000_001, Authorization=bearer(await key_of(db, "ada")))
    assert steps.problem(answer, 413)["code"] == "body_too_large"


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as events:
        yield events


class BrokenWaker:
    """Breaks the promise never to raise."""

    def wake(self) -> None:
        raise RuntimeError("a detail that nobody outside may see")


async def test_a_failure_shows_nothing_of_itself(
    client: AsyncClient, db: Database, settings: Settings, generation: str, logged: list[Any]
) -> None:
    owner = await steps.conversation(client)
    schedule = await steps.schedule(client, owner)
    key = await key_of(db, "ada", conversation=owner)
    app = create_app(db, settings, BrokenWaker())
    async with app.lifespan(), connected(app, generation, key) as model:
        with pytest.raises(MCPError) as raised:
            await model.call_tool("schedule_run_now", {"schedule": str(schedule["id"])})
    assert raised.value.error.message == "The service failed to answer. Its log says why."
    [event] = logged
    assert event["event"] == "mcp_request_failed"
    assert key not in repr(event)
