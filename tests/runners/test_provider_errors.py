from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from agentsched.runners.provider_errors import MESSAGE_LENGTH, runner_error


@pytest.mark.parametrize(
    "body",
    [
        {"message": "Slow down.", "type": "requests"},
        {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}},
    ],
    ids=["openai", "anthropic"],
)
def test_the_provider_is_quoted(body: dict[str, Any]) -> None:
    error = runner_error(ModelHTTPError(429, "gpt", body), "openai:gpt")
    assert error.message == "The provider of openai:gpt failed (HTTP 429): Slow down."
    assert error.retryable


def test_a_long_answer_is_cut() -> None:
    error = runner_error(ModelHTTPError(418, "gpt", "x" * 10_000), "openai:gpt")
    assert len(error.message) == MESSAGE_LENGTH + 1
    assert error.message.endswith("x…")
    assert not error.retryable
