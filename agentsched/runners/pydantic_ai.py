"""The runner for those who have no agent runtime of their own: pydantic-ai, with any provider it knows."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pydantic
from pydantic import BaseModel, ConfigDict, Field
from pydantic_ai import Agent as ModelAgent
from pydantic_ai import RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import AgentRunError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestContext, infer_model
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.toolsets import AbstractToolset

from agentsched.runners.model_messages import storable, to_entries, to_messages
from agentsched.runners.protocol import Agent, Assignment, Outcome, RunnerError
from agentsched.runners.provider_errors import runner_error

UNOFFERED = {"offered": False}
"""Metadata of a tool that the model is not told of. One that calls it all the same, as a transcript or a habit may
suggest, gets the tool's own refusal; a tool that is not there at all would end the turn."""

MakeToolset = Callable[[Assignment], Awaitable[AbstractToolset[Assignment]]]


class RunnerSettings(BaseModel):
    """What `agent.settings` may hold.

    There is no base URL and there are no headers: whoever may name an agent could send the provider's key to
    a host of their choice. `max_retries` are the provider SDK's quick ones, within the attempt;
    `request_timeout` is in seconds, for each request to the model. `schedule_tools: false` takes the tools of the
    service away, which every agent has otherwise.
    """

    model_config = ConfigDict(extra="forbid")

    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop_sequences: list[str] | None = None
    parallel_tool_calls: bool | None = None
    thinking: ThinkingLevel | None = None
    request_timeout: float | None = Field(None, gt=0)
    # One covers a hiccup; more would keep from the schedule's retry policy that there is something to retry.
    max_retries: int = Field(1, ge=0, le=2)
    schedule_tools: bool = True


class PydanticAIRunner:
    """Runs a turn with pydantic-ai.

    `agent.model` is `provider:name` ("anthropic:…", "openai:…"); the provider's key comes from the
    environment. With `OPENAI_BASE_URL` set, "openai:…" speaks chat completions, which is what compatible
    servers offer; "openai-responses:…" insists on the other protocol. `tools` are what this worker can offer;
    an agent gets those that it names, and they find the assignment, with its idempotency key, in their
    context's `deps`. `model` replaces every agent's model. `schedule_tools` makes the tools that every agent has.
    """

    def __init__(
        self,
        model: Model | None = None,
        tools: Sequence[Tool[Assignment]] = (),
        *,
        schedule_tools: MakeToolset | None = None,
    ) -> None:
        self._model = model
        self._tools = {tool.name: tool for tool in tools}
        self._schedule_tools = schedule_tools

    async def run(self, assignment: Assignment) -> Outcome:
        """Do the turn. Raises RunnerError for what the provider, the model or the agent gets wrong."""
        agent = assignment.agent
        asked = _settings(agent)
        settings = cast("ModelSettings", asked.model_dump(exclude_none=True, exclude={"schedule_tools"}))
        tools = self._tools_of(agent)
        # In a thread, because a provider's SDK takes seconds to import and the heartbeats cannot wait.
        model = await asyncio.to_thread(_infer, agent) if self._model is None else self._model
        if "max_retries" in model.unsupported_settings:
            del settings["max_retries"]
        model_agent = ModelAgent(
            model,
            deps_type=Assignment,
            instructions=_instructions(assignment),
            tools=tools,
            toolsets=[await self._schedule_tools(assignment)] if asked.schedule_tools and self._schedule_tools else [],
            capabilities=[_UnreadableAnswers(), _UnofferedTools()],
        )
        try:
            async with model_agent:
                result = await model_agent.run(
                    _user_prompt(assignment),
                    message_history=to_messages(assignment.history),
                    deps=assignment,
                    model_settings=settings,
                    infer_name=False,
                )
        except AgentRunError as error:
            raise runner_error(error, agent.model or model.model_name) from error
        except UserError as error:
            raise _misconfigured(str(error)) from error
        return Outcome(
            entries=to_entries(result.new_messages()),
            result=storable(result.output),
            usage={
                "input_tokens": result.usage.input_tokens,
                "output_tokens": result.usage.output_tokens,
                "requests": result.usage.requests,
                "tool_calls": result.usage.tool_calls,
            },
        )

    def _tools_of(self, agent: Agent) -> list[Tool[Assignment]]:
        missing = [name for name in agent.tools if name not in self._tools]
        if missing:
            raise _misconfigured(
                f"The agent names tools that this worker does not have: {', '.join(missing)}. "
                f"It has: {', '.join(self._tools) or 'none'}."
            )
        return [self._tools[name] for name in dict.fromkeys(agent.tools)]


class _UnreadableAnswers(AbstractCapability[Assignment]):
    """An answer that the adapter trips over (an IndexError for no choices) is the provider's error."""

    async def on_model_request_error(self, ctx: Any, *, request_context: Any, error: Exception) -> ModelResponse:
        if isinstance(error, AgentRunError | UserError):
            raise error
        raise UnexpectedModelBehavior(f"reading it failed with {error!r}") from error


class _UnofferedTools(AbstractCapability[Assignment]):
    """The model is told of those tools that it may use."""

    async def before_model_request(
        self, ctx: RunContext[Assignment], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        parameters = request_context.model_request_parameters
        offered = [tool for tool in parameters.function_tools if tool.metadata != UNOFFERED]
        return replace(request_context, model_request_parameters=replace(parameters, function_tools=offered))


def _infer(agent: Agent) -> Model:
    name = agent.model
    if name is None:
        raise _misconfigured("The agent has no model. Give it one as provider:name, for example openai:gpt-5.")
    if name.startswith("openai:") and os.environ.get("OPENAI_BASE_URL"):
        name = name.replace("openai:", "openai-chat:", 1)
    try:
        return infer_model(name)
    except (UserError, ImportError) as error:
        # ImportError: the provider's SDK is an extra of pydantic-ai that is not installed here.
        raise _misconfigured(str(error)) from error


def _settings(agent: Agent) -> RunnerSettings:
    try:
        return RunnerSettings.model_validate(agent.settings)
    except pydantic.ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        known = ", ".join(RunnerSettings.model_fields)
        raise _misconfigured(f"The agent's settings are wrong: {wrong}. They may hold: {known}.") from error


def _instructions(assignment: Assignment) -> str | None:
    # The agent's own come first: they are the same every time, so that providers' prompt caches hold.
    return "\n\n".join(part for part in (assignment.agent.instructions, assignment.preamble) if part) or None


def _user_prompt(assignment: Assignment) -> str:
    return "\n\n".join(part for part in (assignment.prompt, assignment.payload) if part)


def _misconfigured(message: str) -> RunnerError:
    return RunnerError("agent_misconfigured", message, retryable=False)
