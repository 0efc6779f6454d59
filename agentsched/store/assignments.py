"""Read what a claimed task brings to its worker."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection


class AssignmentRow(NamedTuple):
    """A running task with prompt and agent.

    The schedule's columns are None for a person's turn, the delivery's for runs that no webhook call has made.
    """

    task_id: int
    fence: int
    run_id: int | None
    attempt: int
    conversation_id: int
    last_seq: int
    prompt: str
    fire_at: datetime | None
    schedule_number: int | None
    schedule_name: str | None
    timezone: str | None
    max_history_entries: int | None
    harness: str
    model: str | None
    instructions: str | None
    tools: list[str]
    settings: dict[str, Any]
    lease_expires_at: datetime
    deadline_at: datetime
    delivery_body: bytes | None
    delivery_content_type: str | None
    delivery_source: str | None
    delivery_received_at: datetime | None


_READ = text("""
SELECT t.id, t.fence, t.run_id, t.attempt, t.conversation_id, c.last_seq, coalesce(v.prompt, t.prompt) AS prompt,
       r.fire_at, s.number, s.name, s.timezone, v.max_history_entries,
       a.harness, a.model, a.instructions, a.tools, a.settings, t.lease_expires_at, t.deadline_at,
       d.body, d.content_type, d.source, d.received_at
FROM tasks t
JOIN conversations c ON c.id = t.conversation_id
JOIN agents a ON a.id = t.agent_id
LEFT JOIN runs r ON r.id = t.run_id
LEFT JOIN schedules s ON s.id = r.schedule_id
LEFT JOIN schedule_versions v ON v.schedule_id = r.schedule_id AND v.version = r.version
LEFT JOIN deliveries d ON d.id = r.delivery_id
WHERE t.id = ANY(CAST(:ids AS bigint[])) AND t.status = 'running'
ORDER BY t.priority, t.due_at, t.id
""").columns(tools=JSONB, settings=JSONB)


async def read(conn: AsyncConnection, task_ids: Sequence[int]) -> list[AssignmentRow]:
    """Read running tasks as their workers need them, in the order of claims."""
    return [AssignmentRow(*row) for row in await conn.execute(_READ, {"ids": task_ids})]
