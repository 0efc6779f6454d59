"""What models are shown of the tools: flat, without unions, everything described, nothing to copy."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentsched.core.words import Scope
from agentsched.service.caller import Caller, TaskOfCaller
from agentsched.tools import formats
from agentsched.tools.call import DO
from agentsched.tools.catalogue import TOOLS, offered

EVERY = [spec.name for spec in TOOLS]
FROM_CREDENTIAL = ("conversation", "principal", "task", "owner", "user")
READ = ["schedule_list", "schedule_history"]
COPYABLE = re.compile(
    r"\d{4}-\d{2}|\d:\d{2}|[*] [*]|[\"“][^\"”]+[\"”]|\b\d+[mhdw]\b|\b(e\.g\.|such as|for example|like)\b"
)


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for each in schema.values():
            yield from parts(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from parts(each)


@pytest.mark.parametrize("spec", TOOLS, ids=EVERY)
def test_arguments_are_flat_and_every_one_is_described(spec: Any) -> None:
    schema = spec.input_schema
    Draft202012Validator.check_schema(schema)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    words = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "examples", "pattern", "title"}
    assert not words & {key for part in parts(schema) for key in part if part is not schema["properties"]}
    for name, each in schema["properties"].items():
        assert each["type"] in ("string", "integer", "boolean"), name
        assert len(each["description"]) > 10, name
        assert each.get("default", "") is not None, name
        assert not any(word in name for word in FROM_CREDENTIAL), name


@pytest.mark.parametrize("spec", TOOLS, ids=EVERY)
def test_no_description_holds_what_a_model_would_copy(spec: Any) -> None:
    texts = [spec.description, *(each["description"] for each in spec.input_schema["properties"].values())]
    assert [found.group() for text in texts if (found := COPYABLE.search(text))] == []


def test_times_are_said_to_be_local() -> None:
    for name in ("schedule_create", "schedule_update"):
        spec = next(spec for spec in TOOLS if spec.name == name)
        assert "do not convert" in spec.description
        for argument in ("cron", "at", "ends_at"):
            assert "do not convert to UTC" in spec.input_schema["properties"][argument]["description"]


def test_every_tool_can_be_called() -> None:
    assert list(DO) == EVERY


def test_each_format_is_json_with_every_tool() -> None:
    openai, anthropic, mcp = formats.openai(TOOLS), formats.anthropic(TOOLS), formats.mcp(TOOLS)
    json.dumps([openai, anthropic, mcp])
    assert [each["function"]["name"] for each in openai] == EVERY
    assert [each["name"] for each in anthropic] == [each["name"] for each in mcp] == EVERY
    schemas = [spec.input_schema for spec in TOOLS]
    assert [each["function"]["parameters"] for each in openai] == schemas
    assert [each["input_schema"] for each in anthropic] == [each["inputSchema"] for each in mcp] == schemas
    for each in mcp:
        Draft202012Validator.check_schema(each["outputSchema"])
        assert each["outputSchema"]["type"] == "object"
    hints = {each["name"]: each["annotations"] for each in mcp}
    assert [name for name, hint in hints.items() if hint["readOnlyHint"]] == READ
    assert [name for name, hint in hints.items() if hint["destructiveHint"]] == ["schedule_cancel"]


def caller(scope: Scope = Scope.USER, task: TaskOfCaller | None = None) -> Caller:
    return Caller(1, scope, "test", 1, task)


def test_what_would_be_refused_is_not_offered() -> None:
    def names(who: Caller) -> list[str]:
        return [spec.name for spec in offered(who)]

    assert names(caller()) == names(caller(task=TaskOfCaller(1, None, None))) == EVERY
    assert names(caller(task=TaskOfCaller(1, 7, 3))) == ["schedule_list", "schedule_cancel", "schedule_history"]
    assert names(caller(task=TaskOfCaller(1, 7, None))) == READ
    assert names(caller(Scope.WORKER)) == READ
