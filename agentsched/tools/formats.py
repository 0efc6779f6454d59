"""The tools as model providers and MCP take them, ready to be sent as JSON."""

from collections.abc import Iterable
from typing import Any

from agentsched.tools.catalogue import ToolSpec


def openai(specs: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """As ``tools`` of OpenAI's chat completions."""
    return [
        {
            "type": "function",
            "function": {"name": spec.name, "description": spec.description, "parameters": spec.input_schema},
        }
        for spec in specs
    ]


def anthropic(specs: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """As ``tools`` of Anthropic's messages."""
    return [{"name": spec.name, "description": spec.description, "input_schema": spec.input_schema} for spec in specs]


def mcp(specs: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """As the ``tools`` of MCP's ``tools/list``."""
    return [
        {
            "name": spec.name,
            "title": spec.title,
            "description": spec.description,
            "inputSchema": spec.input_schema,
            "outputSchema": spec.output_schema,
            "annotations": {
                "title": spec.title,
                "readOnlyHint": spec.read_only,
                "destructiveHint": spec.destructive,
                "idempotentHint": spec.idempotent,
                "openWorldHint": False,
            },
        }
        for spec in specs
    ]
