"""Give runs their place: the target conversation and the pending task, set-based."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.words import PRIORITY_BACKFILL, PRIORITY_LIVE, Mode
from agentsched.core.zones import zone


class Start(NamedTuple):
    """A run that starts. ``conversation_id`` is its target: the owner for append, a new id otherwise.

    ``start_deadline_seconds`` None: it may wait for a worker for ever.
    """

    run_id: int
    conversation_id: int
    task_id: int
    owner_id: int
    mode: Mode
    snapshot_id: int
    title: str
    timeout_seconds: int
    start_deadline_seconds: int | None


class IdStreams(NamedTuple):
    """New ids, to be taken one by one."""

    conversations: Iterator[int]
    runs: Iterator[int]
    tasks: Iterator[int]


def title(name: str | None, number: int, fire_at: datetime, timezone: str) -> str:
    """What a run's own conversation is called."""
    return f"{name or f'Schedule {number}'} · {_local_minute(fire_at, timezone)}"


@lru_cache(maxsize=4096)
def _local_minute(fire_at: datetime, timezone: str) -> str:
    return f"{fire_at.astimezone(zone(timezone)):%Y-%m-%d %H:%M}"


_ALLOCATE = text("""
SELECT ARRAY(SELECT nextval('conversations_id_seq') FROM generate_series(1, CAST(:conversations AS integer))),
       ARRAY(SELECT nextval('runs_id_seq') FROM generate_series(1, CAST(:runs AS integer))),
       ARRAY(SELECT nextval('tasks_id_seq') FROM generate_series(1, CAST(:tasks AS integer)))
""")

_OPEN_CONVERSATIONS = text("""
INSERT INTO conversations
    (id, principal_id, title, agent_id, timezone, parent_id, parent_seq, last_seq, run_id, created_at)
SELECT i.id, o.principal_id, i.title, coalesce(i.snapshot_id, o.agent_id), o.timezone,
       CASE WHEN i.snapshot_id IS NULL THEN o.id END,
       CASE WHEN i.snapshot_id IS NULL THEN o.last_seq END,
       CASE WHEN i.snapshot_id IS NULL THEN o.last_seq ELSE 0 END,
       i.run_id, :now
FROM unnest(CAST(:ids AS bigint[]), CAST(:owner_ids AS bigint[]), CAST(:snapshot_ids AS bigint[]),
            CAST(:titles AS text[]), CAST(:run_ids AS bigint[])) AS i(id, owner_id, snapshot_id, title, run_id)
JOIN conversations o ON o.id = i.owner_id
""")

_OPEN_TASKS = text(f"""
INSERT INTO tasks (id, principal_id, kind, conversation_id, run_id, scheduled_run_id, agent_id, harness, priority,
       due_at,
                   status, attempt, timeout_seconds, claimable_at, start_deadline_at, created_at)
SELECT i.id, r.principal_id, 'run', c.id, r.id, r.id, a.id, a.harness,
       CASE r.lane WHEN 'live' THEN {PRIORITY_LIVE} ELSE {PRIORITY_BACKFILL} END, r.fire_at,
       'pending', r.attempt, i.timeout_seconds, :now,
       CAST(:now AS timestamptz) + make_interval(secs => i.start_deadline_seconds), :now
FROM unnest(CAST(:ids AS bigint[]), CAST(:run_ids AS bigint[]), CAST(:timeouts AS integer[]),
            CAST(:start_deadlines AS integer[])) AS i(id, run_id, timeout_seconds, start_deadline_seconds)
JOIN runs r ON r.id = i.run_id
JOIN conversations c ON c.id = r.conversation_id
JOIN agents a ON a.id = c.agent_id
""")


async def allocate_ids(conn: AsyncConnection, *, conversations: int = 0, runs: int = 0, tasks: int = 0) -> IdStreams:
    """Take new ids, so that rows that point at each other go in with one statement a table."""
    row = (await conn.execute(_ALLOCATE, {"conversations": conversations, "runs": runs, "tasks": tasks})).one()
    return IdStreams(*(iter(ids) for ids in row))


async def open_conversations(conn: AsyncConnection, starts: Sequence[Start], now: datetime) -> None:
    """Insert the target conversations: a fork points at its owner, a fresh one has the snapshot, append needs none.

    They go in before the runs that name them.
    """
    new = [start for start in starts if start.mode is not Mode.APPEND]
    if not new:
        return
    parameters: dict[str, Any] = {
        "now": now,
        "ids": [start.conversation_id for start in new],
        "owner_ids": [start.owner_id for start in new],
        "snapshot_ids": [start.snapshot_id if start.mode is Mode.FRESH else None for start in new],
        "titles": [start.title for start in new],
        "run_ids": [start.run_id for start in new],
    }
    opened = await conn.execute(_OPEN_CONVERSATIONS, parameters)
    if opened.rowcount != len(new):
        raise RuntimeError(f"opened {opened.rowcount} of {len(new)} target conversations: an owner is gone")


async def open_tasks(conn: AsyncConnection, starts: Sequence[Start], now: datetime) -> None:
    """Insert the pending tasks of pending runs; lane, instant and attempt are the run's."""
    if not starts:
        return
    parameters: dict[str, Any] = {
        "now": now,
        "ids": [start.task_id for start in starts],
        "run_ids": [start.run_id for start in starts],
        "timeouts": [start.timeout_seconds for start in starts],
        "start_deadlines": [start.start_deadline_seconds for start in starts],
    }
    await conn.execute(_OPEN_TASKS, parameters)
