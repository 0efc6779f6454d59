"""Assignments as the executor would make them."""

from collections.abc import Sequence
from typing import Any

from agentsched.runners.protocol import Agent, Assignment, Entry


def assignment(
    prompt: str = "How is the weather?",
    *,
    model: str | None = "openai:stub",
    instructions: str | None = None,
    tools: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    preamble: str | None = None,
    payload: str | None = None,
    history: Sequence[Entry] = (),
) -> Assignment:
    return Assignment(
        task_id=1,
        run_id=2,
        attempt=1,
        conversation_id=3,
        prompt=prompt,
        preamble=preamble,
        payload=payload,
        agent=Agent(
            harness="pydantic-ai",
            model=model,
            instructions=instructions,
            tools=tools,
            settings={"max_retries": 0} if settings is None else settings,
        ),
        history=history,
        idempotency_key="run-2",
        deadline_at=None,
        task_token="",
    )
