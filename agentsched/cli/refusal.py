"""What a command refuses, in one shape: a line a problem for people, one JSON document with ``--json`` (DESIGN §14)."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentsched.core.problems import Refused
from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.service.errors import ServiceError

Document = Mapping[str, Any]
"""``{code, detail, errors: [{field, got, problem, fix}]}``, as in the problem details of the HTTP API (DESIGN §13)."""


class CommandRefused(Exception):  # noqa: N818 — the word of the design for what was not accepted
    """What was asked for cannot be done; ``document`` says why, and what to do instead."""

    def __init__(self, code: str, detail: str, *, document: Document | None = None) -> None:
        super().__init__(detail)
        self.document = document or {"code": code, "detail": detail, "errors": []}


EXPECTED = (CommandRefused, EmbeddedPostgresError, Refused, ServiceError)
"""Exceptions that end a command with exit code 1 and a message, without a traceback."""


def document_of(error: BaseException) -> Document:
    """The document of an expected exception."""
    match error:
        case CommandRefused():
            return error.document
        case Refused():
            return {
                "code": error.problems[0].code,
                "detail": str(error),
                "errors": [vars(problem) for problem in error.problems],
            }
        case ServiceError():
            return {"code": error.code, "detail": error.message, "errors": []}
        case EmbeddedPostgresError():
            return {"code": "embedded_postgres", "detail": str(error), "errors": []}
        case _:
            raise TypeError(f"{type(error).__name__} is not an expected exception")


def lines_of(document: Document) -> list[str]:
    """One line a problem: ``field: what is wrong → what to write instead``."""
    errors: Sequence[Document] = document.get("errors") or ()
    lines = [f"{each['field']}: {each['problem']} → {each['fix']}" for each in errors]
    return lines or [str(document.get("detail") or document.get("title") or document)]
