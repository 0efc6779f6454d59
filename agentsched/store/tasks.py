"""Transitions of tasks: claim, heartbeat, hand back, finish. A worker owns a running task by its fence."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class Candidate(NamedTuple):
    """A pending task that may be claimed, seen without locks."""

    id: int
    conversation_id: int
    run_id: int | None
    principal_id: int


class TaskRow(NamedTuple):
    """A task with where it belongs, as the transitions need it. ``schedule_id`` is that of its lineage."""

    id: int
    kind: str
    principal_id: int
    conversation_id: int
    run_id: int | None
    schedule_id: int | None
    status: str
    attempt: int
    restarts: int
    fence: int
    prompt: str | None
    worker: str | None
    cancel_requested_at: datetime | None
    lease_expires_at: datetime | None
    deadline_at: datetime | None
    cancel_deadline_at: datetime | None
    start_deadline_at: datetime | None
    harness: str


CANDIDATES = text("""
SELECT t.id, t.conversation_id, t.run_id, t.principal_id
FROM unnest(CAST(:harnesses AS text[])) AS h(harness)
CROSS JOIN LATERAL (
    SELECT t.id, t.conversation_id, t.run_id, t.principal_id, t.priority, t.due_at
    FROM tasks t JOIN conversations c ON c.id = t.conversation_id
    WHERE t.harness = h.harness AND t.status = 'pending' AND c.active_task_id IS NULL
      AND NOT (t.principal_id = ANY(CAST(:full AS bigint[])))
    ORDER BY t.priority, t.due_at, t.id LIMIT :limit
) t
ORDER BY t.priority, t.due_at, t.id LIMIT :limit
""")

_LOCK_PRINCIPALS = text("""
SELECT id FROM principals WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")

_AWAIT_PRINCIPAL = text("SELECT id FROM principals WHERE id = :id FOR NO KEY UPDATE")

_COUNT_RUNNING = text("""
SELECT i.id, (SELECT count(*) FROM tasks WHERE principal_id = i.id AND status = 'running')
FROM unnest(CAST(:ids AS bigint[])) AS i(id)
""")

_LOCK_CONVERSATIONS = text("""
SELECT id FROM conversations WHERE id = ANY(CAST(:ids AS bigint[])) AND active_task_id IS NULL
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")

_LOCK_RUNS = text("""
SELECT id FROM runs WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'pending'
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")

_LOCK_PENDING = text("""
SELECT id FROM tasks
WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'pending'
  AND (start_deadline_at IS NULL OR start_deadline_at > (SELECT clock_now()))
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
""")

_CLAIM = text("""
UPDATE tasks t
SET status = 'running', fence = fence + 1, worker = :worker, token_hash = i.token_hash, heartbeat_at = :now,
    started_at = :now, lease_expires_at = CAST(:now AS timestamptz) + make_interval(secs => :lease_seconds),
    deadline_at = CAST(:now AS timestamptz) + make_interval(secs => timeout_seconds), start_deadline_at = NULL
FROM unnest(CAST(:ids AS bigint[]), CAST(:token_hashes AS bytea[])) AS i(id, token_hash)
WHERE t.id = i.id AND t.status = 'pending'
""")

_OCCUPY = text("""
UPDATE conversations c SET active_task_id = i.task_id
FROM unnest(CAST(:conversation_ids AS bigint[]), CAST(:ids AS bigint[])) AS i(conversation_id, task_id)
WHERE c.id = i.conversation_id AND c.active_task_id IS NULL
""")

_HEARTBEAT = text("""
UPDATE tasks
SET heartbeat_at = clock_now(), lease_expires_at = clock_now() + make_interval(secs => :lease_seconds)
WHERE id = :id AND fence = :fence AND status = 'running'
RETURNING cancel_requested_at IS NOT NULL, lease_expires_at, deadline_at
""")

_READ = text("""
SELECT t.id, t.kind, t.principal_id, t.conversation_id, t.run_id, r.schedule_id, t.status, t.attempt, t.restarts,
       t.fence,
       t.prompt, t.worker, t.cancel_requested_at, t.lease_expires_at, t.deadline_at, t.cancel_deadline_at,
       t.start_deadline_at, t.harness
FROM tasks t LEFT JOIN runs r ON r.id = t.scheduled_run_id WHERE t.id = :id
""")

_LOCK = text("SELECT FROM tasks WHERE id = :id FOR NO KEY UPDATE")

_RETURN_TO_PENDING = text("""
UPDATE tasks
SET status = 'pending', restarts = restarts + :restarts, worker = NULL, token_hash = NULL, heartbeat_at = NULL,
    lease_expires_at = NULL, deadline_at = NULL, cancel_requested_at = NULL, cancel_deadline_at = NULL,
    claimable_at = :now,
    start_deadline_at = CAST(:now AS timestamptz) + make_interval(secs => CAST(:start_deadline_seconds AS integer))
WHERE id = :id AND status = 'running' AND fence = :fence
""")

_FINISH = text("""
UPDATE tasks
SET status = :status, token_hash = NULL, lease_expires_at = NULL, deadline_at = NULL, cancel_deadline_at = NULL,
    start_deadline_at = NULL, error_code = :error_code, error = :error, result = :result,
    usage = CAST(:usage AS jsonb), finished_at = :now
WHERE id = :id AND fence = :fence AND status IN ('pending', 'running')
""")

_VACATE = text("""
UPDATE conversations SET active_task_id = NULL WHERE id = :conversation_id AND active_task_id = :id
""")

_FIND_BY_TOKEN = text("""
SELECT t.id, t.principal_id, t.conversation_id, t.scheduled_run_id, r.schedule_id, t.token_hash
FROM tasks t LEFT JOIN runs r ON r.id = t.scheduled_run_id
WHERE t.token_hash = :hash AND t.status = 'running'
""")

_LOSSES = text("""
SELECT count(*) FILTER (WHERE error_code = 'lost') + coalesce(sum(restarts), 0) FROM tasks WHERE run_id = :run_id
""")


class TokenTask(NamedTuple):
    """A running task as its token shows it. ``scheduled_by`` is None where the run of its lineage is kept no longer."""

    id: int
    principal_id: int
    conversation_id: int
    scheduled_run_id: int | None
    scheduled_by: int | None
    token_hash: bytes


async def find_by_token(conn: AsyncConnection, token_hash: bytes) -> TokenTask | None:
    """The running task whose current token has this hash."""
    row = (await conn.execute(_FIND_BY_TOKEN, {"hash": token_hash})).first()
    return None if row is None else TokenTask(*row)


async def find_candidates(
    conn: AsyncConnection, harnesses: Sequence[str], limit: int, *, full: Sequence[int]
) -> list[Candidate]:
    """Pending tasks of these harnesses whose conversations are idle, in the order of claims, without locks.

    ``full``: principals that run as many tasks as they may.
    """
    rows = await conn.execute(CANDIDATES, {"harnesses": harnesses, "limit": limit, "full": full})
    return [Candidate(*row) for row in rows]


async def lock_principals(conn: AsyncConnection, principal_ids: Sequence[int]) -> set[int]:
    """Lock principals so that their running tasks can be counted: those that nobody else holds, or wait for the first.

    Somebody who holds one for long keeps only that principal's tasks from being claimed.
    """
    free = set((await conn.execute(_LOCK_PRINCIPALS, {"ids": principal_ids})).scalars())
    return free or set((await conn.execute(_AWAIT_PRINCIPAL, {"id": principal_ids[0]})).scalars())


async def count_running(conn: AsyncConnection, principal_ids: Sequence[int]) -> dict[int, int]:
    """How many tasks of each principal run."""
    return {row[0]: row[1] for row in await conn.execute(_COUNT_RUNNING, {"ids": principal_ids})}


async def lock_claimable(conn: AsyncConnection, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Lock conversation, run and task of candidates that nobody else has locked and that are still claimable."""
    idle = set((await conn.execute(_LOCK_CONVERSATIONS, {"ids": [c.conversation_id for c in candidates]})).scalars())
    run_ids = [c.run_id for c in candidates if c.conversation_id in idle and c.run_id is not None]
    runs = set((await conn.execute(_LOCK_RUNS, {"ids": run_ids})).scalars())
    ready = [c for c in candidates if c.conversation_id in idle and (c.run_id is None or c.run_id in runs)]
    locked = set((await conn.execute(_LOCK_PENDING, {"ids": [c.id for c in ready]})).scalars())
    return [c for c in ready if c.id in locked]


async def claim(
    conn: AsyncConnection,
    claimed: Sequence[Candidate],
    token_hashes: Sequence[bytes],
    *,
    worker: str,
    lease_seconds: int,
    now: datetime,
) -> None:
    """pending → running for locked tasks: the fence grows, the lease begins, the conversation is occupied.

    ``token_hashes``: of each task's token, which is good for as long as the fence is current.
    """
    ids = [c.id for c in claimed]
    await conn.execute(_OCCUPY, {"ids": ids, "conversation_ids": [c.conversation_id for c in claimed]})
    parameters = {
        "ids": ids,
        "token_hashes": list(token_hashes),
        "worker": worker,
        "lease_seconds": lease_seconds,
        "now": now,
    }
    await conn.execute(_CLAIM, parameters)


class Beat(NamedTuple):
    """What a heartbeat brings back."""

    cancel_requested: bool
    lease_expires_at: datetime
    deadline_at: datetime


async def heartbeat(conn: AsyncConnection, task_id: int, fence: int, *, lease_seconds: int) -> Beat | None:
    """Extend the lease while the fence is current; None to whoever has lost the task."""
    row = (await conn.execute(_HEARTBEAT, {"id": task_id, "fence": fence, "lease_seconds": lease_seconds})).first()
    return None if row is None else Beat(*row)


async def read(conn: AsyncConnection, task_id: int) -> TaskRow | None:
    """Read a task; None if there is none."""
    row = (await conn.execute(_READ, {"id": task_id})).first()
    return None if row is None else TaskRow(*row)


async def lock(conn: AsyncConnection, task_id: int) -> None:
    """Lock one task."""
    await conn.execute(_LOCK, {"id": task_id})


async def return_to_pending(
    conn: AsyncConnection, task: TaskRow, *, lost: bool, start_deadline_seconds: int | None, now: datetime
) -> None:
    """running → pending, same row and attempt; only a loss counts as a restart. The conversation is free again."""
    await conn.execute(
        _RETURN_TO_PENDING,
        {
            "id": task.id,
            "fence": task.fence,
            "restarts": int(lost),
            "start_deadline_seconds": start_deadline_seconds,
            "now": now,
        },
    )
    await conn.execute(_VACATE, {"id": task.id, "conversation_id": task.conversation_id})


async def finish(
    conn: AsyncConnection,
    task: TaskRow,
    status: str,
    *,
    error_code: str | None = None,
    error: str | None = None,
    result: str | None = None,
    usage: str | None = None,
    now: datetime,
) -> None:
    """pending or running → a terminal status; the conversation is free again. ``usage`` is JSON."""
    await conn.execute(
        _FINISH,
        {
            "id": task.id,
            "fence": task.fence,
            "status": status,
            "error_code": error_code,
            "error": error,
            "result": result,
            "usage": usage,
            "now": now,
        },
    )
    await conn.execute(_VACATE, {"id": task.id, "conversation_id": task.conversation_id})


async def count_losses(conn: AsyncConnection, run_id: int) -> int:
    """How often a run has lost its worker, over all its attempts."""
    losses: int = (await conn.execute(_LOSSES, {"run_id": run_id})).scalar_one()
    return losses
