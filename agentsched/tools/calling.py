"""In whose name and for which conversation a tool is called: the credential says it, never an argument (DESIGN §10)."""

from dataclasses import replace

from agentsched.core.problems import Problem, Refused
from agentsched.service import conversations
from agentsched.service.caller import Caller
from agentsched.service.errors import NotFound
from agentsched.store.database import Database

HEADER = "X-Conversation-Id"
META = "io.agentsched/conversation_id"


async def for_conversation(db: Database, caller: Caller, conversation_id: int | None) -> Caller:
    """The caller as a model in one conversation: the credential's own, else the named one of its principal.

    Raises NotFound for a conversation that is not the caller's, and Refused where neither says which one.
    """
    if caller.conversation_id is not None:
        if conversation_id not in (None, caller.conversation_id):
            raise NotFound("conversation", conversation_id)
    elif conversation_id is None:
        raise conversation_required()
    else:
        await conversations.get(db, caller, conversation_id)
    return replace(caller, conversation_id=caller.conversation_id or conversation_id, by_model=True)


def conversation_required() -> Refused:
    """For a call with a key of all conversations that names none."""
    return Refused(
        Problem(
            "conversation_required",
            HEADER,
            None,
            "This key is for all conversations, and the call does not say which one it is made in.",
            f"Send the conversation's id in the header `{HEADER}`, or over MCP in `_meta` as `{META}`; or use a key "
            "that is made for one conversation. It is never an argument of a tool.",
        )
    )
