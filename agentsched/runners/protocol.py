"""What the executor and a runner say to each other (DESIGN §9, §13).

A runner makes one attempt at one turn: it is given an `Assignment` and answers with an `Outcome`, or raises
a `RunnerError`. It knows nothing of leases, fences, retries or the database; the executor does all of that
around it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, get_args

Role = Literal["user", "assistant", "tool", "system", "error"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class ToolCall:
    """A tool that an assistant entry asks for; a `tool` entry answers it by `tool_call_id`."""

    id: str
    name: str
    arguments: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "arguments": self.arguments}

    @classmethod
    def from_json(cls, value: object) -> "ToolCall":
        """Raises ValueError, with a message for people, for anything but `{id, name, arguments}`."""
        data = _object(value, "a tool call", {"id", "name", "arguments"})
        arguments = data.get("arguments", {})
        if not isinstance(arguments, dict):
            raise ValueError(f"A tool call's arguments are an object, got {type(arguments).__name__}.")
        return cls(
            id=_text(data, "id", "a tool call", empty=False),
            name=_text(data, "name", "a tool call", empty=False),
            arguments=arguments,
        )


@dataclass(frozen=True)
class Entry:
    """One entry of a transcript, in no provider's dialect (DESIGN §13)."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry as the HTTP API shows it; the optional keys are absent when they say nothing."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        return data

    @classmethod
    def from_json(cls, value: object) -> "Entry":
        """Raises ValueError, with a message for people, for what is not one entry by itself.

        Whether entries fit together (a tool result needs its call) is not a question about one entry.
        """
        data = _object(value, "an entry", {"role", "content", "tool_calls", "tool_call_id"})
        role = data.get("role")
        known = next((each for each in ROLES if each == role), None)
        if known is None:
            raise ValueError(f"An entry's role is one of {', '.join(ROLES)}; got {role!r}.")
        calls = data.get("tool_calls")
        if calls is not None and not isinstance(calls, list | tuple):
            raise ValueError(f"An entry's tool_calls are a list, got {type(calls).__name__}.")
        if calls and known != "assistant":
            raise ValueError(f"Only an assistant entry has tool_calls; this one has the role {known}.")
        tool_call_id = None
        if data.get("tool_call_id") is not None:
            tool_call_id = _text(data, "tool_call_id", "an entry", empty=False)
        if (tool_call_id is not None) != (known == "tool"):
            raise ValueError(f"A tool entry, and no other, has a tool_call_id; this one has the role {known}.")
        return cls(
            role=known,
            content=_text(data, "content", "an entry"),
            tool_calls=tuple(ToolCall.from_json(call) for call in calls or ()),
            tool_call_id=tool_call_id,
        )


@dataclass(frozen=True)
class Agent:
    """Who does the work (DESIGN §2). `model` and `settings` are in the words of the harness."""

    harness: str
    model: str | None = None
    instructions: str | None = None
    tools: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Assignment:
    """One attempt at one task.

    `prompt` is what is asked in this turn and is not part of `history`. `preamble` is the service's own word
    about the run (that it is scheduled, by what). `payload` is data from outside: labelled and fenced, never
    instructions (DESIGN §10). `run_id` is None for a person's turn. `idempotency_key` is for the tools of a
    run. `deadline_at` is aware UTC by the database's clock; the executor enforces it, a runner need not.
    `task_token` lets the work ask the service in its own name, for as long as it is this worker's.
    """

    task_id: int
    run_id: int | None
    attempt: int
    conversation_id: int
    prompt: str
    preamble: str | None
    payload: str | None
    agent: Agent
    history: Sequence[Entry]
    idempotency_key: str | None
    deadline_at: datetime | None
    task_token: str = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """A finished turn.

    `entries` are what the turn adds after the prompt's entry, which the executor stores itself. `result` is
    the final answer as text. `usage` counts `input_tokens`, `output_tokens`, `requests` and `tool_calls`.
    """

    entries: tuple[Entry, ...]
    result: str | None
    usage: dict[str, int]


class RunnerError(Exception):
    """A turn that failed, with a stable `code` and a message for people.

    `retryable` says whether the same attempt might succeed later; whether there is a later is decided by the
    schedule's `retry` (DESIGN §9).
    """

    def __init__(self, code: str, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class Runner(Protocol):
    async def run(self, assignment: Assignment) -> Outcome:
        """Do the turn. Raises RunnerError; lets the asyncio.CancelledError of a cancellation through."""
        ...


def _object(value: object, what: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what.capitalize()} is an object with {_listed(keys)}; got {type(value).__name__}.")
    unknown = {str(key) for key in value} - keys
    if unknown:
        raise ValueError(f"{what.capitalize()} has no {_listed(unknown)}; it has {_listed(keys)}.")
    return value


def _text(data: Mapping[str, Any], key: str, what: str, *, empty: bool = True) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{what.capitalize()} needs {key} as a string, got {type(value).__name__}.")
    if not value and not empty:
        raise ValueError(f"{what.capitalize()} needs {key} not to be empty.")
    return value


def _listed(keys: set[str]) -> str:
    return ", ".join(sorted(keys))
