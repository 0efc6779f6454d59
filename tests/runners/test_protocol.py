import re
from typing import Any

import pytest

from agentsched.runners.protocol import Entry, ToolCall

CALL = {"id": "c1", "name": "look", "arguments": {"at": "x"}}


@pytest.mark.parametrize(
    ("entry", "json"),
    [
        (Entry("user", "hi"), {"role": "user", "content": "hi"}),
        (Entry("error", ""), {"role": "error", "content": ""}),
        (
            Entry("assistant", "", (ToolCall("c1", "look", {"at": "x"}),)),
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
        ),
        (
            Entry("tool", "seen", tool_call_id="c1"),
            {"role": "tool", "content": "seen", "tool_call_id": "c1"},
        ),
    ],
)
def test_an_entry_and_its_json(entry: Entry, json: dict[str, Any]) -> None:
    assert entry.to_json() == json
    assert Entry.from_json(json) == entry


def test_null_is_as_good_as_absent() -> None:
    json = {"role": "user", "content": "hi", "tool_calls": None, "tool_call_id": None}
    assert Entry.from_json(json) == Entry("user", "hi")


@pytest.mark.parametrize(
    ("json", "complaint"),
    [
        ("hi", "An entry is an object with content, role, tool_call_id, tool_calls"),
        (
            {"role": "robot", "content": "hi"},
            "role is one of user, assistant, tool, system, error; got 'robot'",
        ),
        ({"role": ["user"], "content": "hi"}, "role is one of"),
        ({"role": "user"}, "needs content as a string, got NoneType"),
        ({"role": "user", "content": "hi", "name": "Ada"}, "An entry has no name"),
        ({"role": "user", "content": "hi", "tool_calls": [CALL]}, "Only an assistant entry has tool_calls"),
        ({"role": "assistant", "content": "", "tool_calls": CALL}, "tool_calls are a list"),
        ({"role": "assistant", "content": "", "tool_calls": ["x"]}, "A tool call is an object"),
        (
            {"role": "assistant", "content": "", "tool_calls": [{**CALL, "id": ""}]},
            "needs id not to be empty",
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [{**CALL, "arguments": "{}"}]},
            "arguments are an object",
        ),
        ({"role": "tool", "content": "seen"}, "A tool entry, and no other, has a tool_call_id"),
        ({"role": "user", "content": "hi", "tool_call_id": "c1"}, "this one has the role user"),
    ],
)
def test_what_is_no_entry_is_refused_in_words(json: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        Entry.from_json(json)
