"""Logging: lines for people on a terminal, JSON lines otherwise, on standard error, and never a secret (DESIGN §11)."""

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

REDACTED = "[redacted]"

_SECRET_NAMES = re.compile(r"(?:^|[_-])(?:token|password|secret|authorization|cookie|api_?key)s?$", re.I)
_SECRETS = (
    re.compile(r"\bas[ktw]_[0-9A-Za-z]{20,}"),
    re.compile(r"(?<=/hooks/)[^\s/?#\"']+"),
    re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]+"),
)

#: Libraries that report every start, request and job at INFO.
_CHATTY = ("alembic", "arq", "httpcore", "httpx", "mcp", "uvicorn")


def configure(*, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send structlog and the standard library's logging through one handler to ``stream``, standard error by default.

    Call it once, when a process starts; a second call replaces the first.
    """
    out = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                # Before the redaction, which can then read the traceback as well.
                structlog.processors.format_exc_info,
                redact,
                _for_people() if out.isatty() else structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def redact(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Replace credentials: values under names that say so, and whatever looks like one inside a text."""
    return {name: _redacted(name, value) for name, value in event.items()}


def redacted_text(text: str) -> str:
    """The text without credentials: keys and tokens of ours, passwords in URLs, bearer tokens, webhook paths."""
    for secret in _SECRETS:
        text = secret.sub(REDACTED, text)
    return text


def _for_people() -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors="NO_COLOR" not in os.environ, exception_formatter=structlog.dev.plain_traceback
    )


def _redacted(name: str, value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if _SECRET_NAMES.search(name):
        return REDACTED
    match value:
        case Mapping():
            return {key: _redacted(str(key), each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_redacted("", each) for each in value]
        case _:
            return redacted_text(str(value))
