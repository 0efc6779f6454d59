"""`/v1/schedules` and those of a conversation: create, list, read, change, preview."""

from typing import Annotated

from litestar import Response, get, patch, post
from litestar.datastructures import ResponseHeader
from litestar.params import JSONBody, QueryParameter

from agentsched.api.answers import PreviewView, preview_view
from agentsched.api.pages import DEFAULT_PAGE, Cursor, Limit, Page, after_id, page_of
from agentsched.api.parameters import (
    REPLAYED,
    ConversationId,
    IdempotencyKey,
    IfMatch,
    ScheduleId,
    bare,
    replay_headers,
    version_of,
)
from agentsched.api.parts import Parts, WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.core.words import ScheduleStatus
from agentsched.service import schedules, update
from agentsched.service.caller import Caller
from agentsched.service.requests import NewSchedule, PreviewRequest, SchedulePatch
from agentsched.service.views import (
    ChangeView,
    NewScheduleView,
    ScheduleView,
    change_view,
    new_schedule_view,
    schedule_view,
)
from agentsched.store.schedules import ScheduleRow

ORDER = "schedule"
CHANGES_ORDER = "change"

Statuses = Annotated[
    list[ScheduleStatus] | None,
    QueryParameter(description="Only schedules of these statuses; may be repeated. Without it: active and paused"),
]
Count = Annotated[int, QueryParameter(ge=1, le=100, description="How many fires to show")]

ETAG = ResponseHeader(name="ETag", value='"1"', description="The version, for `If-Match`", documentation_only=True)


def answer(row: ScheduleRow, *, new: bool = True) -> Response[ScheduleView]:
    """A schedule with its version as `ETag`."""
    return Response(schedule_view(row), headers=_headers(row, new=new))


def _headers(row: ScheduleRow, *, new: bool) -> dict[str, str]:
    return {"ETag": f'"{row.version}"'} | replay_headers(new)


@post(
    "/v1/conversations/{conversation_id:int}/schedules",
    operation_id="create_schedule",
    response_headers=[ETAG, REPLAYED],
    responses=may_answer(404, 413, 415, 422),
)
async def create_schedule(
    parts: WithParts,
    caller: WithCaller,
    conversation_id: ConversationId,
    data: JSONBody[NewSchedule],
    idempotency_key: IdempotencyKey = None,
) -> Response[NewScheduleView]:
    """Make a schedule that this conversation owns.

    It has a prompt and exactly one of `cron`, `every`, `at`, `in` and `webhook`.
    """
    made = await schedules.create(parts.db, parts.settings, caller, conversation_id, data, key=bare(idempotency_key))
    return Response(new_schedule_view(made.row, made.token), headers=_headers(made.row, new=made.new))


@get("/v1/schedules", operation_id="list_schedules", responses=may_answer(422))
async def list_schedules(
    parts: WithParts,
    caller: WithCaller,
    status: Statuses = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[ScheduleView]:
    """The schedules of all conversations, oldest first."""
    return await _page(parts, caller, None, status, limit, cursor)


@get(
    "/v1/conversations/{conversation_id:int}/schedules",
    operation_id="list_conversation_schedules",
    responses=may_answer(404, 422),
)
async def list_conversation_schedules(
    parts: WithParts,
    caller: WithCaller,
    conversation_id: ConversationId,
    status: Statuses = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[ScheduleView]:
    """The schedules of a conversation, oldest first."""
    return await _page(parts, caller, conversation_id, status, limit, cursor)


async def _page(
    parts: Parts,
    caller: Caller,
    conversation_id: int | None,
    statuses: list[ScheduleStatus] | None,
    limit: int,
    cursor: str | None,
) -> Page[ScheduleView]:
    rows = await schedules.list_page(
        parts.db,
        caller,
        conversation_id=conversation_id,
        statuses=statuses,
        after=after_id(cursor, ORDER),
        limit=limit + 1,
    )
    return page_of(rows, limit, show=schedule_view, keys=lambda row: (row.id,), order=ORDER)


@get(
    "/v1/schedules/{schedule_id:int}",
    operation_id="get_schedule",
    response_headers=[ETAG],
    responses=may_answer(404),
)
async def get_schedule(parts: WithParts, caller: WithCaller, schedule_id: ScheduleId) -> Response[ScheduleView]:
    """Read one schedule."""
    return answer(await schedules.get(parts.db, caller, schedule_id))


@patch(
    "/v1/schedules/{schedule_id:int}",
    operation_id="update_schedule",
    response_headers=[ETAG],
    responses=may_answer(404, 409, 412, 413, 415, 422, 428),
)
async def update_schedule(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: ScheduleId,
    data: JSONBody[SchedulePatch],
    if_match: IfMatch = None,
) -> Response[ScheduleView]:
    """Change a live schedule at this version. Fields that are not sent stay as they are.

    A change of timing counts from now and never fires for an earlier instant.
    """
    row = await update.update(parts.db, parts.settings, caller, schedule_id, data, version=version_of(if_match))
    parts.waker.wake()
    return answer(row)


@get("/v1/schedules/{schedule_id:int}/changes", operation_id="list_schedule_changes", responses=may_answer(404, 422))
async def list_changes(
    parts: WithParts,
    caller: WithCaller,
    schedule_id: ScheduleId,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[ChangeView]:
    """The history of a schedule, oldest first: who changed what, and when."""
    rows = await schedules.history(
        parts.db, caller, schedule_id, after=after_id(cursor, CHANGES_ORDER), limit=limit + 1
    )
    return page_of(rows, limit, show=change_view, keys=lambda row: (row.id,), order=CHANGES_ORDER)


@post(
    "/v1/schedules/preview",
    operation_id="preview_schedule",
    status_code=200,
    responses=may_answer(413, 415, 422),
)
async def preview_schedule(parts: WithParts, caller: WithCaller, data: JSONBody[PreviewRequest]) -> PreviewView:
    """When a schedule would fire. Nothing is saved; limits that would refuse it are among `problems`."""
    return preview_view(await schedules.preview(parts.db, parts.settings, caller, data))


@get("/v1/schedules/{schedule_id:int}/preview", operation_id="preview_saved_schedule", responses=may_answer(404, 422))
async def preview_saved_schedule(
    parts: WithParts, caller: WithCaller, schedule_id: ScheduleId, count: Count = 5
) -> PreviewView:
    """When a schedule fires next; a paused one, as if it were resumed now."""
    return preview_view(await schedules.preview_saved(parts.db, caller, schedule_id, count))
