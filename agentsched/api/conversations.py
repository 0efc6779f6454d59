"""`/v1/conversations`: make, read, list, delete; transcript, inbox, messages."""

from litestar import Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from agentsched.api.answers import ChatReply, NoteView, TaskAccepted, note_view
from agentsched.api.pages import DEFAULT_PAGE, Cursor, Limit, Page, after_id, page_of, whole
from agentsched.api.parameters import REPLAYED, ConversationId, IdempotencyKey, bare, replay_headers
from agentsched.api.parts import WithCaller, WithParts
from agentsched.api.problems import may_answer
from agentsched.service import conversations
from agentsched.service.requests import NewConversation, NewMessage
from agentsched.service.views import ConversationView, EntryView, conversation_view, entry_view
from agentsched.tools.chat import Chat
from agentsched.tools.chat_parser import is_command

ORDER, SEQUENCE = "conversation", "entry"

REPLIED = {200: ResponseSpec(ChatReply, generate_examples=False, description="The answer to a command")}


@post(
    "/v1/conversations",
    operation_id="create_conversation",
    response_headers=[REPLAYED],
    responses=may_answer(413, 415, 422),
)
async def create_conversation(
    parts: WithParts, caller: WithCaller, data: JSONBody[NewConversation], idempotency_key: IdempotencyKey = None
) -> Response[ConversationView]:
    """Make an empty conversation."""
    row, new = await conversations.create(parts.db, parts.settings, caller, data, key=bare(idempotency_key))
    return Response(conversation_view(row), headers=replay_headers(new))


@get("/v1/conversations", operation_id="list_conversations", responses=may_answer(422))
async def list_conversations(
    parts: WithParts, caller: WithCaller, limit: Limit = DEFAULT_PAGE, cursor: Cursor = None
) -> Page[ConversationView]:
    """Conversations, oldest first."""
    rows = await conversations.list_page(parts.db, caller, after=after_id(cursor, ORDER), limit=limit + 1)
    return page_of(rows, limit, show=conversation_view, keys=lambda row: (row.id,), order=ORDER)


@get("/v1/conversations/{conversation_id:int}", operation_id="get_conversation", responses=may_answer(404))
async def get_conversation(parts: WithParts, caller: WithCaller, conversation_id: ConversationId) -> ConversationView:
    """Read one conversation."""
    return conversation_view(await conversations.get(parts.db, caller, conversation_id))


@delete("/v1/conversations/{conversation_id:int}", operation_id="delete_conversation", responses=may_answer(404))
async def delete_conversation(parts: WithParts, caller: WithCaller, conversation_id: ConversationId) -> None:
    """Delete a conversation. Its schedules are cancelled; entries stay for as long as a fork shares them."""
    await conversations.delete(parts.db, caller, conversation_id)


@get("/v1/conversations/{conversation_id:int}/entries", operation_id="list_entries", responses=may_answer(404, 422))
async def list_entries(
    parts: WithParts,
    caller: WithCaller,
    conversation_id: ConversationId,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Page[EntryView]:
    """The transcript, oldest first; a fork's begins with the entries that it shares with its parent."""
    rows = await conversations.transcript(
        parts.db, caller, conversation_id, after=after_id(cursor, SEQUENCE), limit=limit + 1
    )
    return page_of(rows, limit, show=entry_view, keys=lambda row: (row.seq,), order=SEQUENCE)


@get("/v1/conversations/{conversation_id:int}/inbox", operation_id="read_inbox", responses=may_answer(404))
async def read_inbox(parts: WithParts, caller: WithCaller, conversation_id: ConversationId) -> Page[NoteView]:
    """The newest 50 notes for the conversation's people, newest first."""
    return whole([note_view(row) for row in await conversations.inbox(parts.db, caller, conversation_id)])


@post(
    "/v1/conversations/{conversation_id:int}/messages",
    operation_id="send_message",
    status_code=202,
    response_headers=[REPLAYED],
    responses=may_answer(404, 413, 415, 422) | REPLIED,
)
async def send_message(
    parts: WithParts,
    caller: WithCaller,
    conversation_id: ConversationId,
    data: JSONBody[NewMessage],
    idempotency_key: IdempotencyKey = None,
) -> Response[TaskAccepted]:
    """Say something. The conversation's agent answers in a task; its entries appear when the task has finished.

    A text that begins with `/` is a command for the service, which answers it itself with 200 and Markdown: `/help`
    lists them. Nothing of it enters the transcript. After a blank or a second slash such a text goes to the agent.
    """
    if is_command(data.text):
        chat = Chat(parts.db, parts.settings, parts.waker)
        reply = await chat.answer(caller, conversation_id, data.text, key=bare(idempotency_key))
        return Response(ChatReply(reply=reply), status_code=200)  # type: ignore[arg-type]  # a second answer beside the one of the signature
    task_id, new = await conversations.say(
        parts.db, parts.settings, caller, conversation_id, data, key=bare(idempotency_key)
    )
    parts.waker.wake()
    return Response(TaskAccepted(task_id=task_id), headers=replay_headers(new))
