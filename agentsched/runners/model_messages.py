"""Neutral entries as pydantic-ai's messages, and back."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentsched.runners.protocol import Entry, ToolCall

NO_RESULT = "(No result of this tool call was recorded.)"
BEGINNING = "(The conversation begins with the assistant.)"
ERROR_NOTE_LENGTH = 300


def to_messages(history: Iterable[Entry]) -> list[ModelMessage]:
    """The history in a shape that every provider accepts, whatever it holds; it never raises.

    Requests and responses alternate and a request comes first. What does not fit is repaired:

    - Entries of one side in a row become one message; blank ones are left out.
    - A tool result counts when it comes after its call with nothing but other results between them. Others,
      and second results, are dropped; a call that is left without one gets `NO_RESULT`.
    - Call ids are numbered anew. Providers disagree about their form (Mistral wants nine letters or digits,
      OpenAI and Anthropic each a length and no repetition), and a conversation may change its provider.
    - An error entry becomes a short remark on the assistant's side, so that the message which went unanswered
      and the next one from the same side stay two turns.
    - Before an assistant that speaks first stands `BEGINNING`, because providers want the user first.
    """
    converter = _History()
    for entry in history:
        converter.add(entry)
    return converter.finish()


class _History:
    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._open: list[tuple[str, ToolCallPart]] = []
        self._calls = 0

    def add(self, entry: Entry) -> None:
        if entry.role == "tool":
            self._answer(entry)
            return
        self._close()
        match entry.role:
            case "user":
                if entry.content.strip():
                    self._ask(UserPromptPart(entry.content))
            case "system":
                if entry.content.strip():
                    self._ask(SystemPromptPart(entry.content))
            case "assistant":
                if entry.content.strip():
                    self._say(TextPart(entry.content))
                for call in entry.tool_calls:
                    self._call(call)
            case "error":
                self._say(TextPart(f"[This turn failed: {_shortened(entry.content)}]"))
            case _:
                assert_never(entry.role)

    def finish(self) -> list[ModelMessage]:
        self._close()
        return self._messages

    def _ask(self, part: ModelRequestPart) -> None:
        last = self._messages[-1] if self._messages else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            self._messages.append(ModelRequest(parts=[part]))

    def _say(self, part: ModelResponsePart) -> None:
        last = self._messages[-1] if self._messages else None
        if isinstance(last, ModelResponse):
            last.parts = [*last.parts, part]
            return
        if len(self._messages) < 2 and not (last and any(isinstance(p, UserPromptPart) for p in last.parts)):
            self._ask(UserPromptPart(BEGINNING))
        self._messages.append(ModelResponse(parts=[part]))

    def _call(self, call: ToolCall) -> None:
        self._calls += 1
        part = ToolCallPart(call.name, call.arguments, tool_call_id=f"past{self._calls:05}")
        self._open.append((call.id, part))
        self._say(part)

    def _answer(self, entry: Entry) -> None:
        for position, (call_id, part) in enumerate(self._open):
            if call_id == entry.tool_call_id:
                del self._open[position]
                self._ask(ToolReturnPart(part.tool_name, entry.content, part.tool_call_id))
                return

    def _close(self) -> None:
        for _, part in self._open:
            self._ask(ToolReturnPart(part.tool_name, NO_RESULT, part.tool_call_id, outcome="interrupted"))
        self._open.clear()


def to_entries(messages: Sequence[ModelMessage]) -> tuple[Entry, ...]:
    """What a run added, as neutral entries: the assistant's words and calls, and the tools' results.

    The prompt, the model's thoughts and the library's requests to try again are left out. Texts are such as
    PostgreSQL stores: without NUL and lone surrogates.
    """
    entries: list[Entry] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            text = storable("".join(part.content for part in message.parts if isinstance(part, TextPart)))
            calls = tuple(_tool_call(part) for part in message.parts if isinstance(part, ToolCallPart))
            if text or calls:
                entries.append(Entry("assistant", text, calls))
        else:
            entries += [_tool_entry(part) for part in message.parts if isinstance(part, ToolReturnPart)]
    return tuple(entries)


def storable(text: str) -> str:
    """The text as PostgreSQL can store it: without NUL, and with a question mark for a lone surrogate."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _tool_call(part: ToolCallPart) -> ToolCall:
    arguments = {storable(key): _storable_value(value) for key, value in part.args_as_dict().items()}
    return ToolCall(storable(part.tool_call_id), storable(part.tool_name), arguments)


def _tool_entry(part: ToolReturnPart) -> Entry:
    return Entry("tool", storable(part.model_response_str()), tool_call_id=storable(part.tool_call_id))


def _storable_value(value: Any) -> Any:
    match value:
        case str():
            return storable(value)
        case float() if not math.isfinite(value):
            return json.dumps(value)
        case list() | tuple():
            return [_storable_value(item) for item in value]
        case dict():
            return {storable(str(key)): _storable_value(item) for key, item in value.items()}
        case _:
            return value


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= ERROR_NOTE_LENGTH else f"{line[:ERROR_NOTE_LENGTH]}…"
