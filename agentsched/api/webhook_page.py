"""`/schedules/{id}/webhook`: where a person gets the secret of a webhook that a model has made (DESIGN §10, §11).

In a browser it is a page with a form for the key, as a browser cannot send one in a header; for programs it is JSON.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from litestar import Request, Response, get, post
from litestar.di import Provide
from litestar.enums import MediaType
from litestar.types import ExceptionHandlersMap
from pydantic import Field

from agentsched.api.answers import TokenRotated
from agentsched.api.auth import caller_with
from agentsched.api.parameters import ScheduleId
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import HANDLERS, ProblemDetails, may_answer
from agentsched.api.webhook_html import EXPLANATION, HEADERS, about, form_page, token_page
from agentsched.core.words import Scope
from agentsched.service.caller import Caller
from agentsched.service.requests import TokenRotation
from agentsched.service.rotate_token import read_webhook, rotate_token
from agentsched.service.views import View, webhook_url

FORM = "application/x-www-form-urlencoded"

AnyRequest = Request[Any, Any, Any]


class WebhookView(View):
    """A webhook, without its secret."""

    schedule_id: int
    has_token: bool = Field(description="Whether there is a token in force")
    explanation: str


async def key_holder(request: AnyRequest, parts: WithParts) -> Caller:
    """Who asks, by the header or the form. Raises as every route does that needs a key."""
    authorization = request.headers.get("authorization")
    if authorization is None and request.content_type[0] == FORM:
        form = parse_qs((await request.body()).decode("ascii", "replace"))
        authorization = f"Bearer {form.get('key', [''])[0]}"
    return await caller_with(parts.db, authorization, Scope.USER)


def _for_people(request: AnyRequest) -> bool:
    return request.accept.best_match([MediaType.JSON, MediaType.HTML], default=MediaType.JSON) == MediaType.HTML


def _html(page: str, status: int | None = None) -> Response[Any]:
    return Response(page, media_type=MediaType.HTML, status_code=status, headers=HEADERS)


def _refused_on_page(handler: Callable[..., Response[ProblemDetails]]) -> Callable[[AnyRequest, Any], Response[Any]]:
    def handle(request: AnyRequest, error: Any) -> Response[Any]:
        problem = handler(request, error)
        schedule_id = request.path_params.get("schedule_id")
        if _for_people(request) and isinstance(schedule_id, int):
            # Without a key there is nothing to complain about yet.
            said = None if problem.content.code == "key_missing" else problem.content.detail
            page = _html(form_page(schedule_id, said), problem.status_code)
            page.headers.update(problem.headers)
            return page
        return problem

    return handle


ON_PAGE: ExceptionHandlersMap = {kind: _refused_on_page(handler) for kind, handler in HANDLERS.items()}


@get(
    "/schedules/{schedule_id:int}/webhook",
    operation_id="explain_webhook",
    dependencies={"caller": Provide(key_holder)},
    exception_handlers=ON_PAGE,
    responses=may_answer(404, 409),
)
async def explain_webhook(
    parts: WithParts, caller: WithCaller, request: AnyRequest, schedule_id: ScheduleId
) -> Response[WebhookView]:
    """What a webhook is, and whether it can be called; for a browser a page.

    A person gets the secret by a POST here, with their own key. The token of a task is refused.
    """
    webhook = await read_webhook(parts.db, caller, schedule_id)
    if _for_people(request):
        return _html(form_page(schedule_id, about(webhook)))
    view = WebhookView(schedule_id=schedule_id, has_token=webhook.has_token, explanation=EXPLANATION)
    return Response(view, headers={"Cache-Control": "no-store"})


@post(
    "/schedules/{schedule_id:int}/webhook",
    operation_id="make_webhook_token",
    status_code=200,
    dependencies={"caller": Provide(key_holder)},
    exception_handlers=ON_PAGE,
    responses=may_answer(404, 409, 413),
)
async def make_webhook_token(
    parts: WithParts, caller: WithCaller, request: AnyRequest, schedule_id: ScheduleId
) -> Response[TokenRotated]:
    """Make a token for a webhook, shown only here; for a browser on a page, whose form sends the key as `key`.

    Those before it work for a day more. The token of a task is refused.
    """
    grace_seconds = TokenRotation().grace_seconds
    rotated = await rotate_token(parts.db, caller, schedule_id, grace_seconds=grace_seconds)
    if _for_people(request):
        url = str(request.base_url).rstrip("/") + webhook_url(rotated.token)
        return _html(token_page(url, rotated.old_valid_until))
    view = TokenRotated(
        token=rotated.token, webhook_url=webhook_url(rotated.token), old_valid_until=rotated.old_valid_until
    )
    return Response(view, headers={"Cache-Control": "no-store"})
