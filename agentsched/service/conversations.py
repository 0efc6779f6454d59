"""Conversations: make, read, list, delete, talk."""

import hashlib
import json
import os
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.words import LIVE_SCHEDULE, PRIORITY_MESSAGE, Reason, ScheduleStatus
from agentsched.core.zones import zone
from agentsched.service import idempotency
from agentsched.service.account import account_due_slots
from agentsched.service.caller import Caller
from agentsched.service.errors import Forbidden, NotFound
from agentsched.service.permission import Act, require
from agentsched.service.requests import AgentSpec, NewConversation, NewMessage
from agentsched.settings import Settings
from agentsched.store import (
    backfills,
    changes,
    clock,
    conversations,
    entries,
    messages,
    notes,
    principals,
    runs,
    schedules,
)
from agentsched.store.conversations import AgentRow, ConversationRow
from agentsched.store.database import Database
from agentsched.store.entries import EntryRow
from agentsched.store.notes import NoteRow

PROVIDER_MODELS = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "OPENAI_API_KEY": "openai:gpt-5-mini",
}
"""The model of a new conversation where a provider's key is in the environment and no model is configured."""


def default_agent(settings: Settings, environment: dict[str, str] | None = None) -> AgentSpec:
    """The agent of conversations that name none: ``echo``, unless a model is configured."""
    known = os.environ if environment is None else environment
    model = settings.default_model or next((m for key, m in PROVIDER_MODELS.items() if known.get(key)), None)
    return AgentSpec() if model is None else AgentSpec(harness="pydantic-ai", model=model)


async def agent_id(conn: AsyncConnection, principal_id: int, agent: AgentSpec) -> int:
    """The id of the principal's agent with this content; equal agents are one row."""
    body = agent.model_dump(mode="json")
    row = AgentRow(
        harness=agent.harness,
        model=agent.model,
        instructions=agent.instructions,
        tools=json.dumps(body["tools"]),
        settings=json.dumps(body["settings"]),
    )
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    return await conversations.same_agent(conn, principal_id, digest, row)


async def create(
    db: Database, settings: Settings, caller: Caller, request: NewConversation, *, key: str | None = None
) -> tuple[ConversationRow, bool]:
    """Make an empty conversation; it, and whether it is new (False for a replay of the same ``Idempotency-Key``).

    Raises Forbidden for a key that is made for one conversation, and Refused for an unknown zone or a reused
    idempotency key.
    """
    require(caller, Act.CONVERSE)
    if caller.conversation_id is not None:
        raise Forbidden(
            "key_of_one_conversation",
            f"This key is made for conversation {caller.conversation_id} and makes no others. Use a key of all.",
        )
    if request.timezone is not None:
        zone(request.timezone)
    asked = request.model_dump(mode="json")
    async with db.begin() as conn:
        await principals.lock(conn, caller.principal_id)
        made = await idempotency.replayed(conn, caller.principal_id, "conversation", key, asked)
        new = made is None
        if made is None:
            now = await clock.now(conn)
            made = await conversations.insert(
                conn,
                principal_id=caller.principal_id,
                title=request.title,
                agent_id=await agent_id(conn, caller.principal_id, request.agent or default_agent(settings)),
                timezone=request.timezone,
                now=now,
            )
            await idempotency.remember(conn, caller.principal_id, "conversation", key, asked, made, now)
        return await owned(conn, caller, made), new


async def owned(conn: AsyncConnection, caller: Caller, conversation_id: int) -> ConversationRow:
    """A conversation of the caller's. Raises NotFound, for one that the caller's key is not made for as well."""
    row = None
    if caller.conversation_id in (None, conversation_id):
        row = await conversations.read(conn, caller.principal_id, conversation_id)
    if row is None:
        raise NotFound("conversation", conversation_id)
    return row


async def get(db: Database, caller: Caller, conversation_id: int) -> ConversationRow:
    """Read one. Raises NotFound."""
    async with db.begin() as conn:
        return await owned(conn, caller, conversation_id)


async def list_page(db: Database, caller: Caller, *, after: int, limit: int) -> list[ConversationRow]:
    """The caller's conversations, oldest first, ids greater than ``after``."""
    async with db.begin() as conn:
        if caller.conversation_id is not None:
            only = await owned(conn, caller, caller.conversation_id)
            return [only] if only.id > after else []
        return await conversations.list_page(conn, caller.principal_id, after=after, limit=limit)


async def transcript(db: Database, caller: Caller, conversation_id: int, *, after: int, limit: int) -> list[EntryRow]:
    """Entries with sequence numbers greater than ``after``, those shared with the parent first. Raises NotFound."""
    async with db.begin() as conn:
        await owned(conn, caller, conversation_id)
        return await entries.read_page(conn, conversation_id, after=after, limit=limit)


async def inbox(db: Database, caller: Caller, conversation_id: int) -> list[NoteRow]:
    """The newest notes, newest first. Raises NotFound."""
    async with db.begin() as conn:
        await owned(conn, caller, conversation_id)
        return await notes.newest(conn, conversation_id)


async def say(
    db: Database,
    settings: Settings,
    caller: Caller,
    conversation_id: int,
    message: NewMessage,
    *,
    key: str | None = None,
) -> tuple[int, bool]:
    """A person says something: a pending task for the conversation's agent; its id, and whether it is new.

    Raises NotFound, and Refused for a reused idempotency key.
    """
    require(caller, Act.CONVERSE)
    operation = f"message:{conversation_id}"
    asked = message.model_dump(mode="json")
    async with db.begin() as conn:
        await owned(conn, caller, conversation_id)
        await conversations.lock(conn, conversation_id)
        await owned(conn, caller, conversation_id)
        made = await idempotency.replayed(conn, caller.principal_id, operation, key, asked)
        if made is not None:
            return made, False
        now = await clock.now(conn)
        task_id = await messages.insert_task(
            conn,
            conversation_id,
            message.text,
            priority=PRIORITY_MESSAGE,
            timeout_seconds=settings.message_timeout_seconds,
            now=now,
        )
        await idempotency.remember(conn, caller.principal_id, operation, key, asked, task_id, now)
        return task_id, True


async def delete(db: Database, caller: Caller, conversation_id: int) -> None:
    """Delete a conversation: its schedules are cancelled; entries stay for as long as a fork needs them.

    Raises NotFound.
    """
    require(caller, Act.CONVERSE)
    async with db.begin() as conn:
        await owned(conn, caller, conversation_id)
        await principals.lock(conn, caller.principal_id)
        await conversations.lock(conn, conversation_id)
        await owned(conn, caller, conversation_id)
        unfinished = await schedules.lock_unfinished(conn, conversation_id)
        now = await clock.now(conn)
        for schedule_id in unfinished:
            await _end_schedule(conn, caller, schedule_id, now)
        await messages.cancel_pending(conn, conversation_id, now)
        await principals.revoke_keys_of(conn, caller.principal_id, conversation_id, now)
        await conversations.delete(conn, conversation_id, now)


async def _end_schedule(conn: AsyncConnection, caller: Caller, schedule_id: int, now: datetime) -> None:
    """Cancel a locked schedule; of a completed one, which stays so, what is still in line."""
    schedule = await schedules.read(conn, schedule_id)
    if schedule is None:
        return
    await runs.skip_line(conn, schedule_id, Reason.SCHEDULE_CANCELLED, now, timed_only=False)
    await backfills.cancel_all(conn, schedule_id, now)
    if schedule.status in LIVE_SCHEDULE:
        until = await account_due_slots(conn, schedule, Reason.SCHEDULE_CANCELLED, now)
        await schedules.end(conn, schedule_id, ScheduleStatus.CANCELLED, accounted_until=until, now=now)
        await changes.record(
            conn, schedule_id, schedule.version, action="cancelled", actor=caller.actor, changes="{}", now=now
        )
