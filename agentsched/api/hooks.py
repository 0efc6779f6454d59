"""`/hooks`: other systems call a schedule; and the rotation of its token (DESIGN §11)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.params import JSONBody, PathParameter

from agentsched.api.answers import HookAnswer, TokenRotated
from agentsched.api.operations import OptionalBody
from agentsched.api.parameters import REPLAYED, ScheduleId, bare, replay_headers
from agentsched.api.parts import Parts, WithCaller, WithParts
from agentsched.api.problems import described, may_answer
from agentsched.api.rejected import Rejected
from agentsched.core.hook_body import MAX_BODY_BYTES, UnsupportedType
from agentsched.service import hooks
from agentsched.service.hooks import Delivery
from agentsched.service.idempotency import LONGEST_KEY
from agentsched.service.requests import TokenRotation
from agentsched.service.rotate_token import rotate_token
from agentsched.service.views import webhook_url

KEY_HEADERS = ("Idempotency-Key", "webhook-id", "X-GitHub-Delivery")
"""The first of these that a delivery has is its key."""

Token = Annotated[str, PathParameter(description="The webhook's token, `asw_…`")]

AnyRequest = Request[Any, Any, Any]


@post(
    "/hooks/{token:str}",
    operation_id="call_webhook",
    status_code=202,
    security=[{}],
    request_max_body_size=MAX_BODY_BYTES,
    response_headers=[REPLAYED],
    responses=described(400, 404, 409, 413, 415, 422, 429, 503),
)
async def call_webhook(parts: WithParts, request: AnyRequest, token: Token) -> Response[HookAnswer]:
    """Fire a schedule by its webhook.

    The body is JSON, a form or text, of up to 256 KiB, and reaches the agent as data. The answer comes when the run is
    committed. With a key in `Idempotency-Key`, `webhook-id` or `X-GitHub-Delivery` a delivery can be repeated: it is
    answered as the first time.
    """
    return await _accept(parts, request, token)


@post(
    "/hooks",
    operation_id="call_webhook_with_bearer",
    status_code=202,
    security=[{}],
    request_max_body_size=MAX_BODY_BYTES,
    response_headers=[REPLAYED],
    responses=described(400, 401, 404, 409, 413, 415, 422, 429, 503),
)
async def call_webhook_with_bearer(parts: WithParts, request: AnyRequest) -> Response[HookAnswer]:
    """Fire a schedule by its webhook, with the token in `Authorization: Bearer asw_…`."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        raise Rejected(
            HTTPStatus.UNAUTHORIZED,
            "token_missing",
            "Send the webhook's token: `Authorization: Bearer asw_…`.",
            headers={"WWW-Authenticate": 'Bearer realm="agentsched webhooks"'},
        )
    return await _accept(parts, request, token.strip())


@post(
    "/v1/schedules/{schedule_id:int}/rotate-token",
    operation_id="rotate_webhook_token",
    status_code=200,
    operation_class=OptionalBody,
    responses=may_answer(404, 409, 413, 415, 422),
)
async def rotate_webhook_token(
    parts: WithParts, caller: WithCaller, schedule_id: ScheduleId, data: JSONBody[TokenRotation | None] = None
) -> TokenRotated:
    """Make a new token for a webhook, shown only here.

    Those before it work for `grace_seconds` more, a day unless given; 0 revokes them at once.
    """
    grace_seconds = (data or TokenRotation()).grace_seconds
    rotated = await rotate_token(parts.db, caller, schedule_id, grace_seconds=grace_seconds)
    return TokenRotated(
        token=rotated.token, webhook_url=webhook_url(rotated.token), old_valid_until=rotated.old_valid_until
    )


async def _accept(parts: Parts, request: AnyRequest, token: str) -> Response[HookAnswer]:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedType("The body is compressed. Send it as it is, without `Content-Encoding`.")
    delivery = Delivery(
        body=await request.body(),
        content_type=request.headers.get("content-type", ""),
        key=_key(request.headers),
        source=request.headers.get("user-agent"),
    )
    accepted = await hooks.accept(parts.db, parts.settings, token, delivery)
    parts.waker.wake()
    return Response(HookAnswer(**accepted.answer), status_code=202, headers=replay_headers(accepted.new))


def _key(headers: Mapping[str, str]) -> str | None:
    """What makes two deliveries the same. Raises Rejected for what cannot be a key."""
    name = next((name for name in KEY_HEADERS if name in headers), None)
    if name is None:
        return None
    key = bare(headers[name]) or ""
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise Rejected(
            HTTPStatus.BAD_REQUEST,
            "idempotency_key_invalid",
            f"`{name}` has to have 1 to {LONGEST_KEY} printable characters, such as a UUID.",
        )
    return key
