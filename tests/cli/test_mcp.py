"""`agentsched mcp` as a desktop host runs it: a process whose standard streams carry the protocol and nothing else."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from agentsched.tools.catalogue import TOOLS
from tests.cli.processes import DEADLINE_SECONDS, Process, document, environment, invoke

MODES = {"2025-11-25": "legacy", "2026-07-28": "auto"}
PROGRAM = ["-m", "agentsched.cli.main", "mcp"]


@asynccontextmanager
async def connected(data_dir: Path, *options: str, mode: str = "auto", **given: str) -> AsyncIterator[Client]:
    """The SDK's client, talking to a process of its own."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[*PROGRAM, *options], env=environment(data_dir, given)
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def done(client: Client, name: str, /, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def conversation(service: Process) -> str:
    return str(document(invoke(service.data_dir, "chat", "--json"))["id"])


@pytest.mark.anyio
@pytest.mark.parametrize("version", MODES)
async def test_create_list_update_cancel(service: Process, version: str) -> None:
    owner = conversation(service)
    async with connected(service.data_dir, "--conversation", owner, mode=MODES[version]) as model:
        assert model.session.protocol_version == version
        assert [tool.name for tool in (await model.list_tools()).tools] == [spec.name for spec in TOOLS]
        made = await done(model, "schedule_create", prompt="x", cron="0 9 * * 1-5", name="PRs")
        wrong = await model.call_tool("schedule_create", {"prompt": "x", "cron": "0 0 9 * * 1-5"})
        assert wrong.is_error
        assert "cron_six_fields" in text_of(wrong)
        assert len((await done(model, "schedule_list"))["schedules"]) == 1
        assert (await done(model, "schedule_update", schedule="PRs", every="2h"))["status"] == "updated"
        assert (await done(model, "schedule_cancel", schedule="PRs"))["status"] == "cancelled"
    shown = document(invoke(service.data_dir, "schedules", "show", str(made["id"]), "--json"))
    assert (str(shown["conversation_id"]), shown["status"]) == (owner, "cancelled")


@pytest.mark.anyio
async def test_the_conversation_comes_from_the_environment_too_or_is_asked_for(service: Process) -> None:
    owner = conversation(service)
    async with connected(service.data_dir, AGENTSCHED_CONVERSATION=owner) as model:
        assert (await done(model, "schedule_list"))["schedules"] == []
    async with connected(service.data_dir) as model:
        unnamed = await model.call_tool("schedule_list", {})
        assert unnamed.is_error
        assert "--conversation" in text_of(unnamed)
    async with connected(service.data_dir, "--conversation", "999999") as model:
        assert "There is no conversation 999999" in text_of(await model.call_tool("schedule_list", {}))


@pytest.mark.anyio
async def test_without_a_service_it_says_how_to_start_one(tmp_path: Path) -> None:
    async with connected(tmp_path, "--conversation", "1") as model:
        with pytest.raises(MCPError, match="agentsched up"):
            await model.list_tools()
        refused = await model.call_tool("schedule_list", {})
    assert refused.is_error
    assert "agentsched up" in text_of(refused)


def test_nothing_but_the_protocol_is_printed(service: Process) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    sent: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "schedule_list", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "no_such_tool"}},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **each}) for each in sent]
    with subprocess.Popen(
        [sys.executable, *PROGRAM, "--url", service.url, "--api-key", service.ready["api_key"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(service.data_dir),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join([lines[0], "not JSON", *lines[1:], ""]))
        process.stdin.flush()
        said = [json.loads(process.stdout.readline()) for _ in range(3)]
        rest, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert {each["id"] for each in said} == {1, 2, 3}
    assert (rest, process.returncode) == ("", 0), "it ends with its input"
    assert service.ready["api_key"] not in errors
