"""`/mcp`: the tools for models, over MCP's streamable HTTP without sessions (DESIGN §13, §15)."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any

from litestar import Litestar, asgi
from litestar.handlers import ASGIRouteHandler, BaseRouteHandler
from litestar.types import Receive, Scope, Send
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request

from agentsched.api.auth import FOR_SCHEDULED, AnyConnection, authenticated
from agentsched.api.bodies import MAX_BODY_BYTES
from agentsched.api.parts import Parts
from agentsched.api.rejected import Rejected
from agentsched.core.problems import Refused
from agentsched.service.caller import Caller
from agentsched.service.errors import ServiceError
from agentsched.settings import Settings
from agentsched.tools import formats
from agentsched.tools.answers import Answer
from agentsched.tools.call import Toolbox
from agentsched.tools.calling import HEADER, META, for_conversation
from agentsched.tools.catalogue import offered
from agentsched.tools.conversation_id import conversation_id_of
from agentsched.tools.mcp_server import Context, conversation_in, mcp_server

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def mcp_endpoint(parts: Parts) -> tuple[ASGIRouteHandler, Lifespan]:
    """The route, and what has to run while it is served."""
    allowed = allowed_addresses(parts.settings)
    manager = StreamableHTTPSessionManager(
        _server(parts),
        stateless=True,
        json_response=True,
        security_settings=allowed,
        max_request_body_size=MAX_BODY_BYTES,
    )
    security = TransportSecurityMiddleware(allowed)

    # A scheduled run may list its schedules and cancel its own; each tool asks whether its caller may call it.
    @asgi(PATH, guards=[_only_post, authenticated(parts.db)], opt={FOR_SCHEDULED: True}, copy_scope=False)
    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        request: Request[Any] = Request(scope)  # type: ignore[arg-type]  # Litestar has types of its own for ASGI
        if (refused := await security.validate_request(request)) is not None:
            raise _not_from_there(refused.status_code, request.headers)
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > MAX_BODY_BYTES:
            detail = f"The body is larger than {MAX_BODY_BYTES} bytes. Send less."
            raise Rejected(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", detail)
        await manager.handle_request(scope, receive, send)  # type: ignore[arg-type]  # the same

    return handle, lambda _: manager.run()


def allowed_addresses(settings: Settings) -> TransportSecuritySettings:
    """The names under which the service may be called, as `Host` and in `Origin`: a page of another name, which a
    browser was led to (DNS rebinding), is turned away."""
    own = f"[{settings.host}]" if ":" in settings.host else settings.host
    given = [name.strip() for name in (settings.allowed_hosts or "").split(",")]
    names = dict.fromkeys(name for name in (*LOOPBACK, own, *given) if name)
    return TransportSecuritySettings(
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{form}" for name in names for form in (name, f"{name}:*") for scheme in ("http", "https")
        ],
    )


def _server(parts: Parts) -> Any:
    toolbox = Toolbox(parts.db, parts.settings, parts.waker)

    async def listing(context: Context) -> list[dict[str, Any]]:
        return formats.mcp(offered(_caller(context)))

    async def calling(context: Context, name: str, arguments: Mapping[str, Any]) -> Answer:
        try:
            caller = await for_conversation(parts.db, _caller(context), _conversation_id(context))
        except (Refused, ServiceError) as error:
            return Answer(is_error=True, text=str(error), data={})
        return await toolbox.call(caller, name, arguments)

    return mcp_server(listing, calling)


def _caller(context: Context) -> Caller:
    caller: Caller = _request(context).scope["auth"]
    return caller


def _request(context: Context) -> Request[Any]:
    request: Request[Any] | None = context.request
    assert request is not None, "over HTTP there is one"  # noqa: S101 — for the type checker
    return request


def _conversation_id(context: Context) -> int | None:
    in_meta = conversation_id_of(conversation_in(context), META)
    return conversation_id_of(_request(context).headers.get(HEADER)) if in_meta is None else in_meta


def _only_post(connection: AnyConnection, _: BaseRouteHandler) -> None:
    if connection.scope.get("method") != "POST":
        raise Rejected(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "There are no sessions and no event streams here: every message is a POST, answered with JSON.",
            headers={"Allow": "POST"},
        )


def _not_from_there(status: int, headers: Mapping[str, str]) -> Rejected:
    if status == HTTPStatus.MISDIRECTED_REQUEST:
        code, got = "host_not_allowed", f"`Host: {headers.get('host', '')[:100]}`"
    else:
        code, got = "origin_not_allowed", f"`Origin: {headers.get('origin', '')[:100]}`"
    return Rejected(
        HTTPStatus(status),
        code,
        f"{got} is none of the names of this service. Call it as localhost, or as the address that it listens on; any "
        "other name, as behind a proxy, has to be in AGENTSCHED_ALLOWED_HOSTS.",
    )
