"""`agentsched mcp`: the tools over MCP on standard input and output, for desktop hosts; a client of the HTTP API."""

import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import rich_click as click

from agentsched.cli.client import Client, client_options
from agentsched.cli.refusal import CommandRefused

if TYPE_CHECKING:
    from agentsched.tools.answers import Answer
    from agentsched.tools.mcp_server import Context

PATH = "/v1/tools"
WHICH = "conversation_required"


@click.command()
@click.option(
    "--conversation",
    type=int,
    metavar="ID",
    envvar="AGENTSCHED_CONVERSATION",
    show_envvar=True,
    help="The conversation whose schedules these are, unless the key is for one.",
)
@client_options
def mcp(client: Client, conversation: int | None) -> None:
    """Offer the schedule tools to a desktop host, over MCP on standard input and output.

    The host starts this command by itself; `agentsched up` prints what to configure.
    """
    # There is nothing to put away, and a read of standard input would keep an interrupted process waiting.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(_serve, client, conversation)


async def _serve(client: Client, conversation: int | None) -> None:
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR

    from agentsched.core.problems import Refused
    from agentsched.tools.answers import Answer
    from agentsched.tools.calling import HEADER, META
    from agentsched.tools.conversation_id import conversation_id_of
    from agentsched.tools.mcp_server import conversation_in, mcp_server

    async def listing(_: "Context") -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = (await _in_thread(partial(client.get, PATH, format="mcp")))["items"]
        except (CommandRefused, click.ClickException) as error:
            raise MCPError(INTERNAL_ERROR, _words(error)) from error
        return found

    async def calling(context: "Context", name: str, arguments: Mapping[str, Any]) -> "Answer":
        try:
            named = conversation_id_of(conversation_in(context), META) or conversation
            headers = {} if named is None else {HEADER: str(named)}
            said = await _in_thread(partial(client.post, f"{PATH}/{name}", arguments, headers=headers))
        except (CommandRefused, click.ClickException, Refused) as error:
            return Answer(is_error=True, text=_words(error), data={})
        return Answer(**said)

    server = mcp_server(listing, calling)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _in_thread(call: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(call)


def _words(error: Exception) -> str:
    """What is wrong, for the person: the model can only pass it on."""
    if isinstance(error, CommandRefused) and error.document.get("code") == WHICH:
        return (
            "This server was not told in which conversation it works. Start it as `agentsched mcp --conversation ID`, "
            "or with AGENTSCHED_CONVERSATION; `agentsched conversations list` shows the ids."
        )
    return error.format_message() if isinstance(error, click.ClickException) else str(error)
