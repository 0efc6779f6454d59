"""`Authorization: Bearer <API key>`, and what its scope allows (DESIGN §10, §13)."""

from http import HTTPStatus
from typing import Any

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from agentsched.api.rejected import Rejected
from agentsched.core.words import Scope
from agentsched.service.authenticate import authenticate
from agentsched.service.caller import Caller
from agentsched.service.errors import Forbidden
from agentsched.store.database import Database

SCOPE = "scope"
"""The handler option that says which scope a route needs: `user` unless given, None for any key in force."""

FOR_SCHEDULED = "for_scheduled"
"""The handler option of what a scheduled run may ask for although it is no mere reading (DESIGN §10)."""

READS = ("GET", "HEAD")

CHALLENGE = 'Bearer realm="agentsched"'

AnyConnection = ASGIConnection[Any, Any, Any, Any]


def authenticated(db: Database) -> Guard:
    """A guard that knows the caller by the key before anything else of the request is read.

    Unknown, revoked and malformed keys are answered alike.
    """

    async def guard(connection: AnyConnection, handler: BaseRouteHandler) -> None:
        caller = await caller_with(db, connection.headers.get("authorization"), handler.opt.get(SCOPE, Scope.USER))
        if caller.task is not None and caller.task.scheduled_run_id is not None and not _is_open(connection, handler):
            raise Forbidden(
                "scheduled_run_cannot_schedule",
                "This is a scheduled run, or work that one has asked for. It may read, report on its task, ask for "
                "sub-tasks and cancel its own schedule, and nothing else.",
            )
        connection.scope["auth"] = caller

    return guard


async def caller_with(db: Database, authorization: str | None, needed: Scope | None) -> Caller:
    """Who holds the credential of this header. Raises Rejected where nobody does, and Forbidden for another scope."""
    if authorization is None:
        raise _unauthorized("key_missing", "Send an API key: `Authorization: Bearer ask_…`.", CHALLENGE)
    kind, _, credential = authorization.partition(" ")
    caller = await authenticate(db, credential.strip()) if kind.lower() == "bearer" else None
    if caller is None:
        raise _unauthorized(
            "key_invalid",
            "This is no API key in force. Make one with `agentsched keys create`, and send it as "
            "`Authorization: Bearer ask_…`.",
            f'{CHALLENGE}, error="invalid_token"',
        )
    if needed is not None and not caller.may(needed):
        raise Forbidden(
            "scope_insufficient",
            f"This needs a key of scope {needed}, and the key has scope {caller.scope}. "
            f"Make one with `agentsched keys create --scope {needed}`.",
        )
    return caller


def _is_open(connection: AnyConnection, handler: BaseRouteHandler) -> bool:
    return connection.scope.get("method") in READS or bool(handler.opt.get(FOR_SCHEDULED))


def caller_of(request: Request[Any, Caller, Any]) -> Caller:
    """Who asks; the guard has found out."""
    return request.auth


def _unauthorized(code: str, detail: str, challenge: str) -> Rejected:
    return Rejected(HTTPStatus.UNAUTHORIZED, code, detail, headers={"WWW-Authenticate": challenge})
