"""`/v1/tools`: the tools for agent loops that call functions themselves (DESIGN §13)."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from litestar import get, post
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIType
from litestar.params import HeaderParameter, PathParameter, QueryParameter
from pydantic import Field

from agentsched.api.auth import FOR_SCHEDULED
from agentsched.api.bodies import JsonRequest
from agentsched.api.pages import Page
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.core.problems import Problem, Refused
from agentsched.service.views import View
from agentsched.tools import formats
from agentsched.tools.answers import Answer
from agentsched.tools.call import Toolbox
from agentsched.tools.calling import HEADER, for_conversation
from agentsched.tools.catalogue import TOOLS, ToolSpec, offered, permit
from agentsched.tools.conversation_id import conversation_id_of


class ToolFormat(StrEnum):
    """Whose way of writing tools."""

    MCP = "mcp"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


FORMATS: Mapping[ToolFormat, Callable[[Iterable[ToolSpec]], list[dict[str, Any]]]] = {
    ToolFormat.MCP: formats.mcp,
    ToolFormat.OPENAI: formats.openai,
    ToolFormat.ANTHROPIC: formats.anthropic,
}

InFormat = Annotated[
    ToolFormat,
    QueryParameter(description="How tools are written: as MCP, OpenAI or Anthropic want them"),
]
ToolName = Annotated[str, PathParameter(description="The tool's name")]
ConversationHeader = Annotated[
    str | None,
    HeaderParameter(
        name=HEADER,
        description="The conversation in which the tool is called; for keys of all conversations, which have to say it",
    ),
]


class ToolList(Page[dict[str, Any]]):
    """Tools, all of them on one page."""


class ToolAnswer(View):
    """What the tool says to the model."""

    is_error: bool = Field(description="Nothing was done, and `text` says what to send instead")
    text: str = Field(description="All of it, for the model")
    data: dict[str, Any] = Field(description="The same for programs, as the tool's `outputSchema` says, or a refusal")


@dataclass
class Arguments(Operation):
    """An operation whose body are the arguments of a tool, which each tool describes by itself."""

    def __post_init__(self) -> None:
        schema = Schema(
            type=OpenAPIType.OBJECT, description="The tool's arguments, as its `inputSchema` in `GET /v1/tools` says"
        )
        self.request_body = RequestBody({"application/json": OpenAPIMediaType(schema=schema)}, required=False)


@get("/v1/tools", operation_id="list_tools", responses=may_answer(422))
async def list_tools(caller: WithCaller, format: InFormat = ToolFormat.MCP) -> ToolList:  # noqa: A002 — the name in the address
    """The tools that this credential may call, ready to be given to a model."""
    return ToolList(items=FORMATS[format](offered(caller)), next_cursor=None)


@post(
    "/v1/tools/{name:str}",
    operation_id="call_tool",
    status_code=200,
    operation_class=Arguments,
    opt={FOR_SCHEDULED: True},
    responses=may_answer(404, 413, 415, 422),
)
async def call_tool(
    parts: WithParts, caller: WithCaller, request: JsonRequest, name: ToolName, conversation: ConversationHeader = None
) -> ToolAnswer:
    """Call a tool with a model's arguments.

    Whatever the model can put right is answered with 200 and `is_error`, so that a loop hands `text` to the model.
    """
    model = await for_conversation(parts.db, caller, conversation_id_of(conversation))
    for spec in TOOLS:
        if spec.name == name:
            permit(model, spec)
    toolbox = Toolbox(parts.db, parts.settings, parts.waker)
    return _view(await toolbox.call(model, name, await _arguments(request)))


async def _arguments(request: JsonRequest) -> dict[str, Any]:
    if not await request.body():
        return {}
    with suppress(Refused):
        # What nobody can store a tool refuses by itself, in words for the model.
        await request.json()
    arguments = json.loads(await request.body())
    if not isinstance(arguments, dict):
        raise Refused(
            Problem("wrong_type", "body", arguments, "It is no JSON object.", "Send the tool's arguments as an object.")
        )
    return arguments


def _view(answer: Answer) -> ToolAnswer:
    return ToolAnswer(is_error=answer.is_error, text=answer.text, data=answer.data)
