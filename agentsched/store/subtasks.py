"""Sub-tasks: work that a running task asks for, in a conversation of its own, with the asker's lineage."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class Family(NamedTuple):
    """A running task: how deep it is itself, and how many sub-tasks it has asked for."""

    depth: int
    children: int


_READ_FAMILY = text("""
WITH RECURSIVE line AS (
    SELECT id, parent_task_id, 0 AS depth FROM tasks WHERE id = :id AND status = 'running'
    UNION ALL
    SELECT t.id, t.parent_task_id, line.depth + 1 FROM tasks t JOIN line ON t.id = line.parent_task_id
)
SELECT max(depth), (SELECT count(*) FROM tasks WHERE parent_task_id = :id) FROM line HAVING count(*) > 0
""")

_OPEN_CONVERSATION = text("""
INSERT INTO conversations (principal_id, title, agent_id, timezone, scheduled_run_id, created_at)
SELECT t.principal_id, 'Sub-task of task ' || t.id, coalesce(CAST(:agent_id AS bigint), t.agent_id), c.timezone,
       t.scheduled_run_id, :now
FROM tasks t JOIN conversations c ON c.id = t.conversation_id WHERE t.id = :parent_id
RETURNING id
""")

_INSERT = text("""
INSERT INTO tasks (principal_id, kind, conversation_id, parent_task_id, scheduled_run_id, agent_id, harness, prompt,
                   priority, due_at, status, attempt, timeout_seconds, claimable_at, created_at)
SELECT p.principal_id, 'subtask', c.id, p.id, p.scheduled_run_id, a.id, a.harness, :prompt, p.priority, :now,
       'pending', 1, p.timeout_seconds, :now, :now
FROM tasks p, conversations c JOIN agents a ON a.id = c.agent_id
WHERE p.id = :parent_id AND c.id = :conversation_id
RETURNING id
""")


async def read_family(conn: AsyncConnection, task_id: int) -> Family | None:
    """A locked task's place among sub-tasks; None if it runs no longer."""
    row = (await conn.execute(_READ_FAMILY, {"id": task_id})).first()
    return None if row is None else Family(*row)


async def insert(conn: AsyncConnection, parent_id: int, prompt: str, *, agent_id: int | None, now: datetime) -> int:
    """Insert a pending sub-task with a conversation of its own; the parent's agent unless another is given; its id."""
    parameters = {"parent_id": parent_id, "agent_id": agent_id, "now": now}
    conversation_id = (await conn.execute(_OPEN_CONVERSATION, parameters)).scalar_one()
    task = {"parent_id": parent_id, "conversation_id": conversation_id, "prompt": prompt, "now": now}
    task_id: int = (await conn.execute(_INSERT, task)).scalar_one()
    return task_id
