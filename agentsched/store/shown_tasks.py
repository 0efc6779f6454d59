"""Read tasks as people see them."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection


class ShownTask(NamedTuple):
    """A task as people see it. ``usage`` is a JSON value."""

    id: int
    kind: str
    conversation_id: int
    run_id: int | None
    parent_task_id: int | None
    status: str
    attempt: int
    restarts: int
    fence: int
    harness: str
    worker: str | None
    error_code: str | None
    error: str | None
    result: str | None
    usage: dict[str, Any] | None
    lease_expires_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


_SELECT = f"SELECT {', '.join(ShownTask._fields)} FROM tasks WHERE principal_id = :principal_id "

_READ = text(_SELECT + "AND id = :id").columns(usage=JSONB)

_OF_RUN = text(_SELECT + "AND run_id = :run_id ORDER BY id").columns(usage=JSONB)


async def read(conn: AsyncConnection, principal_id: int, task_id: int) -> ShownTask | None:
    """Read a principal's task; None for an absent and a foreign one alike."""
    row = (await conn.execute(_READ, {"principal_id": principal_id, "id": task_id})).first()
    return None if row is None else ShownTask(*row)


async def of_run(conn: AsyncConnection, principal_id: int, run_id: int) -> list[ShownTask]:
    """The attempts of a run, first to last."""
    rows = await conn.execute(_OF_RUN, {"principal_id": principal_id, "run_id": run_id})
    return [ShownTask(*row) for row in rows]
