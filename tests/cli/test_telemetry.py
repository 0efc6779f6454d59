"""Logs are lines for people or JSON, and hold no secret."""

import io
import json
import logging
import secrets

import pytest
import structlog

from agentsched.core.credentials import Prefix, compose
from agentsched.telemetry import REDACTED, configure, redacted_text

KEY = compose(Prefix.API_KEY, secrets.token_bytes(32))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    structlog.get_logger("somewhere").info("thing.happened", count=3)
    logging.getLogger("a.library").warning("it said %s", "so")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["count"], first["level"], first["logger"]) == (
        "thing.happened",
        3,
        "info",
        "somewhere",
    )
    assert (second["event"], second["level"], second["logger"]) == ("it said so", "warning", "a.library")


def test_lines_for_people_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure(stream=stream)
    structlog.get_logger("somewhere").info("thing.happened", count=3)
    (line,) = stream.getvalue().splitlines()
    assert "thing.happened" in line
    assert "count=3" in line
    assert not line.startswith("{")


def test_libraries_that_chat_are_heard_only_when_something_is_wrong() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    logging.getLogger("httpx").info("HTTP Request: GET http://127.0.0.1/hooks/secret")
    logging.getLogger("uvicorn.error").error("broken")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["broken"]


@pytest.mark.parametrize("terminal", [False, True])
def test_no_secret_whatever_way_it_comes(terminal: bool) -> None:
    stream = Terminal() if terminal else io.StringIO()
    configure(stream=stream)
    log = structlog.get_logger()
    log.info("seen", token="plain-1", nested={"api_key": "plain-2", "list": [f"key {KEY}"]})
    log.info(f"request with {KEY}", path="/hooks/plain-3?x=1", url="postgresql://me:plain-4@host/db")
    logging.getLogger("a.library").warning("Authorization: Bearer %s", "plain-5")
    try:
        raise ValueError(f"cannot use {KEY}")
    except ValueError:
        log.exception("failed")
    said = stream.getvalue()
    assert "plain-" not in said
    assert KEY not in said
    assert said.count(REDACTED) == 8
    assert "Traceback" in said
    assert "host/db" in said


def test_counts_of_tokens_are_no_secret() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    structlog.get_logger().info("spent", input_tokens=12, usage={"output_tokens": 3})
    line = json.loads(stream.getvalue())
    assert (line["input_tokens"], line["usage"]) == (12, {"output_tokens": 3})


def test_a_url_without_a_password_stays_as_it_is() -> None:
    assert redacted_text("redis://host:6379/0 and user@host") == "redis://host:6379/0 and user@host"
