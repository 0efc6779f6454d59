"""Agents that `agentsched up` runs with a model have the schedule tools without any set-up."""

from asyncio import to_thread
from pathlib import Path

import pytest

from tests.cli.processes import document, invoke, up
from tests.openai_stub import Reply, openai_stub

pytestmark = pytest.mark.anyio


async def test_the_model_is_told_of_the_tools(data_dir: Path) -> None:
    async with openai_stub() as stub:
        stub.behaviours = [Reply("Hello Ada.")]
        given = {"OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": "none", "AGENTSCHED_DEFAULT_MODEL": "openai:stub"}
        with up(data_dir, given=given) as process:
            assert await to_thread(lambda: process.ready)
            owner = document(await to_thread(invoke, data_dir, "conversations", "create", "--json"))["id"]
            said = await to_thread(lambda: invoke(data_dir, "chat", str(owner), stdin="Hello\n"))
            assert "assistant: Hello Ada." in said.stdout, said.output
    tools = [tool["function"]["name"] for tool in stub.requests[0]["tools"]]
    assert "schedule_create" in tools
    assert len(tools) == 8
