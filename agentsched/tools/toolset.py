"""The tools for the agents of conversations here, as the bundled runner takes them (DESIGN §10)."""

from dataclasses import dataclass
from typing import Any

import structlog
from pydantic_ai import RunContext
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from agentsched.runners.protocol import Assignment
from agentsched.runners.pydantic_ai import UNOFFERED
from agentsched.service.authenticate import authenticate
from agentsched.store.availability import is_away
from agentsched.store.database import Database
from agentsched.tools.call import Toolbox
from agentsched.tools.catalogue import TOOLS, offered

LOST = "Nothing was done: this turn has been taken from its worker. Stop."
AWAY = "Nothing is known to have been done: the database does not answer. Look again in a few seconds."

UNREADABLE_CALLS = 3
"""So often in a turn the library asks a model to send arguments again that are no JSON."""

_ANYTHING = SchemaValidator(core_schema.any_schema())

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ScheduleTools:
    """Makes the toolset of a turn.

    Whoever calls is authenticated anew by the task's token at every call: a worker that has lost the task is refused.
    """

    db: Database
    box: Toolbox

    async def __call__(self, assignment: Assignment) -> "Toolset":
        """The toolset of one assignment. What it offers follows from the task's lineage, which never changes."""
        caller = await authenticate(self.db, assignment.task_token)
        return Toolset(self, frozenset() if caller is None else frozenset(spec.name for spec in offered(caller)))

    async def call(self, assignment: Assignment, name: str, arguments: Any) -> str:
        """The tool's answer as text, refused or not; nothing that goes wrong here ends the turn."""
        try:
            caller = await authenticate(self.db, assignment.task_token)
            return LOST if caller is None else (await self.box.call(caller, name, arguments)).text
        except Exception as error:
            if not is_away(error):
                raise
            log.warning("database_away", error=type(error).__name__)
            return AWAY


class Toolset(AbstractToolset[Assignment]):
    """All tools are there; the model is told of those that are offered."""

    def __init__(self, tools: ScheduleTools, names: frozenset[str]) -> None:
        self._tools = tools
        self._offered = names

    @property
    def id(self) -> str:
        return "agentsched"

    async def get_tools(self, ctx: RunContext[Assignment]) -> dict[str, ToolsetTool[Assignment]]:
        return {
            spec.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=spec.name,
                    description=spec.description,
                    parameters_json_schema=spec.input_schema,
                    # A model that cancels one to make room for another has them done in this order.
                    sequential=not spec.read_only,
                    metadata=None if spec.name in self._offered else UNOFFERED,
                ),
                max_retries=UNREADABLE_CALLS,
                args_validator=_ANYTHING,
            )
            for spec in TOOLS
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Assignment], tool: ToolsetTool[Assignment]
    ) -> str:
        return await self._tools.call(ctx.deps, name, tool_args)
