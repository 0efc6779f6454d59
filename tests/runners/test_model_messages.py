import json
import re

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from agentsched.runners.model_messages import BEGINNING, NO_RESULT, to_entries, to_messages
from agentsched.runners.protocol import ROLES, Entry, ToolCall


def call(call_id: str, name: str = "look") -> ToolCall:
    return ToolCall(call_id, name, {"at": call_id})


def shape(messages: list[ModelMessage]) -> list[list[tuple[str, ...]]]:
    """Messages as lists of (kind, text) and, for calls and results, (kind, tool, id, text)."""
    return [[part_shape(part) for part in message.parts] for message in messages]


def part_shape(part: object) -> tuple[str, ...]:
    match part:
        case UserPromptPart(content=str(text)):
            return ("user", text)
        case SystemPromptPart(content=text):
            return ("system", text)
        case TextPart(content=text):
            return ("says", text)
        case ToolCallPart():
            return ("calls", part.tool_name, part.tool_call_id, part.args_as_json_str())
        case ToolReturnPart():
            return ("result", part.tool_name, part.tool_call_id, part.model_response_str(wrap_if_error=False))
        case _:
            raise AssertionError(part)


def test_a_whole_conversation() -> None:
    history = [
        Entry("system", "You are terse."),
        Entry("user", "Look at a and b."),
        Entry("assistant", "Looking.", (call("a"), call("b", "peek"))),
        Entry("tool", "it is b", tool_call_id="b"),
        Entry("tool", "it is a", tool_call_id="a"),
        Entry("assistant", "An a and a b."),
        Entry("user", "Thanks."),
    ]
    assert shape(to_messages(history)) == [
        [("system", "You are terse."), ("user", "Look at a and b.")],
        [
            ("says", "Looking."),
            ("calls", "look", "past00001", '{"at":"a"}'),
            ("calls", "peek", "past00002", '{"at":"b"}'),
        ],
        [("result", "peek", "past00002", "it is b"), ("result", "look", "past00001", "it is a")],
        [("says", "An a and a b.")],
        [("user", "Thanks.")],
    ]


def test_a_failed_turn_keeps_the_alternation() -> None:
    history = [Entry("user", "Now?"), Entry("error", "HTTP 429:\n slow down"), Entry("user", "And now?")]
    assert shape(to_messages(history)) == [
        [("user", "Now?")],
        [("says", "[This turn failed: HTTP 429: slow down]")],
        [("user", "And now?")],
    ]


def test_a_call_without_result_gets_one() -> None:
    history = [Entry("user", "Look."), Entry("assistant", "", (call("a"),)), Entry("user", "Well?")]
    assert shape(to_messages(history))[2] == [("result", "look", "past00001", NO_RESULT), ("user", "Well?")]


def test_results_without_a_call_are_dropped() -> None:
    history = [
        Entry("tool", "nobody asked", tool_call_id="x"),
        Entry("user", "Look."),
        Entry("assistant", "", (call("a"),)),
        Entry("tool", "first", tool_call_id="a"),
        Entry("tool", "second", tool_call_id="a"),
        Entry("assistant", "Done."),
        Entry("tool", "late", tool_call_id="a"),
    ]
    assert shape(to_messages(history)) == [
        [("user", "Look.")],
        [("calls", "look", "past00001", '{"at":"a"}')],
        [("result", "look", "past00001", "first")],
        [("says", "Done.")],
    ]


def test_a_call_id_that_comes_twice_means_two_calls() -> None:
    history = [
        Entry("user", "Look twice."),
        Entry("assistant", "", (call("0"),)),
        Entry("tool", "one", tool_call_id="0"),
        Entry("assistant", "", (call("0"),)),
        Entry("tool", "two", tool_call_id="0"),
    ]
    messages = shape(to_messages(history))
    assert messages[2] == [("result", "look", "past00001", "one")]
    assert messages[4] == [("result", "look", "past00002", "two")]


def test_an_assistant_that_speaks_first_and_blank_entries() -> None:
    history = [
        Entry("system", "Be kind."),
        Entry("user", " \n"),
        Entry("assistant", "Hello."),
        Entry("assistant", ""),
    ]
    assert shape(to_messages(history)) == [
        [("system", "Be kind."), ("user", BEGINNING)],
        [("says", "Hello.")],
    ]


ids = st.sampled_from(["a", "b", "c.1"])
texts = st.sampled_from(["", " ", "text", "a longer\ntext"])
tool_calls = st.lists(st.builds(call, ids), max_size=3).map(tuple)
entries = st.builds(
    Entry,
    role=st.sampled_from(ROLES),
    content=texts,
    tool_calls=st.one_of(st.just(()), tool_calls),
    tool_call_id=st.one_of(st.none(), ids),
)


@given(st.lists(entries, max_size=12))
def test_any_history_becomes_valid_messages(history: list[Entry]) -> None:
    messages = to_messages(history)
    # The library's own repair of histories finds nothing to do.
    assert repair_messages(messages) == messages
    seen: set[str] = set()
    for position, message in enumerate(messages):
        assert isinstance(message, ModelRequest if position % 2 == 0 else ModelResponse)
        assert message.parts
        if isinstance(message, ModelResponse):
            asked = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each in asked)
            assert seen.isdisjoint(asked)
            assert len(set(asked)) == len(asked)
            seen.update(asked)
            answers = messages[position + 1].parts if asked else []
            assert sorted(asked) == [p.tool_call_id for p in results_first(answers)]
        elif position == 0:
            assert not any(isinstance(part, ToolReturnPart) for part in message.parts)
    if len(messages) > 1:
        assert any(isinstance(part, UserPromptPart) for part in messages[0].parts)


def results_first(parts: object) -> list[ToolReturnPart]:
    assert isinstance(parts, list)
    results = [part for part in parts if isinstance(part, ToolReturnPart)]
    assert parts[: len(results)] == results
    return sorted(results, key=lambda part: part.tool_call_id)


@given(st.lists(entries, max_size=12))
def test_no_words_are_lost(history: list[Entry]) -> None:
    sent = json.dumps(shape(to_messages(history)))
    for entry in history:
        if entry.role != "tool":
            assert json.dumps(entry.content.split("\n")[0].strip())[1:-1] in sent


def test_what_a_run_adds() -> None:
    messages: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("the prompt")]),
        ModelResponse(
            parts=[
                ThinkingPart("hm"),
                TextPart("Look"),
                TextPart("ing."),
                ToolCallPart("look", '{"at": 1}', "p1"),
            ]
        ),
        ModelRequest(parts=[ToolReturnPart("look", {"seen": True}, "p1")]),
        ModelResponse(parts=[]),
        ModelResponse(parts=[TextPart("Done.")]),
    ]
    assert to_entries(messages) == (
        Entry("assistant", "Looking.", (ToolCall("p1", "look", {"at": 1}),)),
        Entry("tool", '{"seen":true}', tool_call_id="p1"),
        Entry("assistant", "Done."),
    )


def test_what_postgresql_cannot_store_is_left_out() -> None:
    arguments = {"a\x00": ["x\x00", {"y": "\ud800"}], "n": float("nan"), "i": 1, "b": True, "z": None}
    messages: list[ModelMessage] = [
        ModelResponse(parts=[TextPart("a\x00b\ud800c"), ToolCallPart("look", arguments, "p\x001")]),
        ModelRequest(parts=[ToolReturnPart("look", "r\x00", "p\x001")]),
    ]
    spoken, answered = to_entries(messages)
    assert spoken.content == "ab?c"
    assert spoken.tool_calls == (
        ToolCall("p1", "look", {"a": ["x", {"y": "?"}], "n": "NaN", "i": 1, "b": True, "z": None}),
    )
    assert answered == Entry("tool", "r", tool_call_id="p1")
