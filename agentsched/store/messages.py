"""Persons' turns: tasks without a run."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_INSERT = text("""
INSERT INTO tasks (principal_id, kind, conversation_id, scheduled_run_id, agent_id, harness, prompt, priority, due_at,
                   status, attempt, timeout_seconds, claimable_at, created_at)
SELECT c.principal_id, 'message', c.id, c.scheduled_run_id, a.id, a.harness, :prompt, :priority, :now,
       'pending', 1, :timeout_seconds, :now, :now
FROM conversations c JOIN agents a ON a.id = c.agent_id WHERE c.id = :conversation_id
RETURNING id
""")

_CANCEL_PENDING = text("""
UPDATE tasks SET status = 'cancelled', finished_at = :now
WHERE conversation_id = :conversation_id AND kind = 'message' AND status = 'pending'
""")


async def insert_task(
    conn: AsyncConnection,
    conversation_id: int,
    prompt: str,
    *,
    priority: int,
    timeout_seconds: int,
    now: datetime,
) -> int:
    """Insert the pending task of what a person said, with the conversation's agent and lineage; its id."""
    parameters = {
        "conversation_id": conversation_id,
        "prompt": prompt,
        "priority": priority,
        "timeout_seconds": timeout_seconds,
        "now": now,
    }
    task_id: int = (await conn.execute(_INSERT, parameters)).scalar_one()
    return task_id


async def cancel_pending(conn: AsyncConnection, conversation_id: int, now: datetime) -> None:
    """pending → cancelled, for what persons said in a locked conversation."""
    await conn.execute(_CANCEL_PENDING, {"conversation_id": conversation_id, "now": now})
