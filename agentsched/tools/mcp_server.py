"""The tools as an MCP server, whatever carries its messages and wherever the calls are answered (DESIGN §10)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

import agentsched
from agentsched.service.field_problems import meant
from agentsched.store.availability import is_away
from agentsched.tools.answers import Answer
from agentsched.tools.calling import META
from agentsched.tools.catalogue import TOOLS

INSTRUCTIONS = """\
Schedules of this conversation: its agent's prompt is run again at times that you choose, or whenever another system \
calls. Create, change or cancel one only when the person asks for it. Times are local, in the person's zone. Every \
answer says what to tell the person; a refusal says what to write instead."""

REFUSAL_META = "io.agentsched/refusal"
"""Where a refusal has its data. Some clients hold `structuredContent` against the schema of what is done, always."""

Context = ServerRequestContext[Any, Any]
Listing = Callable[[Context], Awaitable[list[dict[str, Any]]]]
Calling = Callable[[Context, str, Mapping[str, Any]], Awaitable[Answer]]

Answered = TypeVar("Answered")

log = structlog.get_logger(__name__)


def mcp_server(listing: Listing, calling: Calling) -> Server[Any]:
    """A server of both protocol generations. ``listing`` gives tools as ``formats.mcp`` does, ``calling`` calls one."""

    async def list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        listed = await _answered(listing(context))
        return ListToolsResult(tools=[Tool.model_validate(each) for each in listed])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        names = [spec.name for spec in TOOLS]
        if params.name not in names:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:60]}. {meant(params.name, names)}")
        answer = await _answered(calling(context, params.name, params.arguments or {}))
        return CallToolResult(
            content=[TextContent(text=answer.text)],
            structured_content=None if answer.is_error else answer.data,
            is_error=answer.is_error,
            _meta={REFUSAL_META: answer.data} if answer.is_error and answer.data else None,
        )

    return Server(
        "agentsched",
        version=agentsched.__version__,
        title="agentsched",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # No argument of a tool travels as a header, so nothing has to be looked up before each call.
        get_tool_input_schema=lambda _: None,
    )


def conversation_in(context: Context) -> object:
    """What a request's ``_meta`` says about its conversation, unchecked; None if it says nothing."""
    return (context.meta or {}).get(META)


async def _answered(pending: Awaitable[Answered]) -> Answered:
    """The SDK would send the words of any exception to the client."""
    try:
        return await pending
    except MCPError:
        raise
    except Exception as error:
        if is_away(error):
            log.warning("database_away", error=type(error).__name__)
            raise MCPError(INTERNAL_ERROR, "The database does not answer. Try again in a few seconds.") from error
        log.error("mcp_request_failed", exc_info=error)
        raise MCPError(INTERNAL_ERROR, "The service failed to answer. Its log says why.") from error
