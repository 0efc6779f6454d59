"""Conversations and the agents in them."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection


class ConversationRow(NamedTuple):
    """A conversation with its agent. ``tools`` and ``settings`` are JSON values."""

    id: int
    principal_id: int
    title: str | None
    timezone: str | None
    parent_id: int | None
    parent_seq: int | None
    last_seq: int
    active_task_id: int | None
    run_id: int | None
    scheduled_run_id: int | None
    created_at: datetime
    agent_id: int
    harness: str
    model: str | None
    instructions: str | None
    tools: list[str]
    settings: dict[str, object]


class AgentRow(NamedTuple):
    """An agent's content. ``tools`` and ``settings`` are JSON texts."""

    harness: str
    model: str | None
    instructions: str | None
    tools: str
    settings: str


_SELECT = """
SELECT c.id, c.principal_id, c.title, c.timezone, c.parent_id, c.parent_seq, c.last_seq, c.active_task_id, c.run_id,
       c.scheduled_run_id, c.created_at, a.id, a.harness, a.model, a.instructions, a.tools, a.settings
FROM conversations c JOIN agents a ON a.id = c.agent_id
WHERE c.deleted_at IS NULL
"""

_JSON = {"tools": JSONB, "settings": JSONB}

_READ = text(_SELECT + "AND c.id = :id AND c.principal_id = :principal_id").columns(**_JSON)

_LIST = text(_SELECT + "AND c.principal_id = :principal_id AND c.id > :after ORDER BY c.id LIMIT :limit").columns(
    **_JSON
)

_LOCK = text("SELECT FROM conversations WHERE id = :id FOR NO KEY UPDATE")

# Not SET digest: a column of a unique key would lock the row FOR UPDATE, against the foreign keys of fires (DESIGN §5).
_SAME_AGENT = text("""
INSERT INTO agents (principal_id, digest, harness, model, instructions, tools, settings)
VALUES (:principal_id, :digest, :harness, :model, :instructions, CAST(:tools AS jsonb), CAST(:settings AS jsonb))
ON CONFLICT (principal_id, digest) DO UPDATE SET harness = excluded.harness
RETURNING id
""")

_INSERT = text("""
INSERT INTO conversations (principal_id, title, agent_id, timezone, created_at)
VALUES (:principal_id, :title, :agent_id, :timezone, :now) RETURNING id
""")

_TAKE_NUMBER = text("""
UPDATE conversations SET next_schedule_number = next_schedule_number + 1 WHERE id = :id
RETURNING next_schedule_number - 1
""")

_DELETE = text("""
UPDATE conversations SET deleted_at = :now WHERE id = :id AND deleted_at IS NULL
""")


async def read(conn: AsyncConnection, principal_id: int, conversation_id: int) -> ConversationRow | None:
    """Read a principal's conversation; None for an absent, deleted or foreign one alike."""
    row = (await conn.execute(_READ, {"id": conversation_id, "principal_id": principal_id})).first()
    return None if row is None else _row(tuple(row))


async def list_page(conn: AsyncConnection, principal_id: int, *, after: int, limit: int) -> list[ConversationRow]:
    """A principal's conversations in the order of their creation, ids greater than ``after``."""
    rows = await conn.execute(_LIST, {"principal_id": principal_id, "after": after, "limit": limit})
    return [_row(tuple(row)) for row in rows]


async def lock(conn: AsyncConnection, conversation_id: int) -> None:
    """Lock one conversation."""
    await conn.execute(_LOCK, {"id": conversation_id})


async def same_agent(conn: AsyncConnection, principal_id: int, digest: bytes, agent: AgentRow) -> int:
    """The id of the principal's agent with this content, inserted if it is new."""
    parameters = {"principal_id": principal_id, "digest": digest, **agent._asdict()}
    agent_id: int = (await conn.execute(_SAME_AGENT, parameters)).scalar_one()
    return agent_id


async def insert(
    conn: AsyncConnection,
    *,
    principal_id: int,
    title: str | None,
    agent_id: int,
    timezone: str | None,
    now: datetime,
) -> int:
    """Insert an empty conversation; its id."""
    parameters = {
        "principal_id": principal_id,
        "title": title,
        "agent_id": agent_id,
        "timezone": timezone,
        "now": now,
    }
    conversation_id: int = (await conn.execute(_INSERT, parameters)).scalar_one()
    return conversation_id


async def take_schedule_number(conn: AsyncConnection, conversation_id: int) -> int:
    """The next schedule number of a locked conversation; never given out twice."""
    number: int = (await conn.execute(_TAKE_NUMBER, {"id": conversation_id})).scalar_one()
    return number


async def delete(conn: AsyncConnection, conversation_id: int, now: datetime) -> None:
    """Mark a conversation as deleted."""
    await conn.execute(_DELETE, {"id": conversation_id, "now": now})


def _row(values: tuple[object, ...]) -> ConversationRow:
    return ConversationRow(*values)  # type: ignore[arg-type]  # the columns of _SELECT, in order
