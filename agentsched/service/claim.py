"""A worker takes pending tasks (DESIGN §9): one at a time in a conversation, in the order of claims."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.credentials import RANDOM_BYTES, Prefix, compose, digest
from agentsched.core.payload import payload_part
from agentsched.runners.protocol import Agent
from agentsched.service.preamble import preamble
from agentsched.settings import Settings
from agentsched.store import assignments, clock, runs, tasks, workers
from agentsched.store.assignments import AssignmentRow
from agentsched.store.database import LOCK_NOT_AVAILABLE, Database, sqlstate
from agentsched.store.tasks import Candidate

LOCK_TIMEOUT_MS = 2000
"""A claim that waits for longer finds nothing this time."""

CANDIDATES_A_TASK = 4
"""How many candidates are looked at for each task that is wanted, because others may be faster."""


@dataclass(frozen=True)
class Claimed:
    """A task that a worker owns for as long as its fence is current. Instants are UTC by the database's clock.

    ``token`` lets the work itself ask the service, within what its lineage allows.
    """

    id: int
    fence: int
    run_id: int | None
    attempt: int
    conversation_id: int
    last_seq: int
    prompt: str
    preamble: str | None
    payload: str | None
    agent: Agent
    max_history_entries: int | None
    idempotency_key: str | None
    token: str
    claimed_at: datetime
    lease_expires_at: datetime
    deadline_at: datetime


async def claim(
    db: Database, settings: Settings, *, worker: str, harnesses: Sequence[str], max_tasks: int
) -> list[Claimed]:
    """Claim up to ``max_tasks`` tasks of these harnesses; none are claimed twice, however many workers ask at once."""
    try:
        async with db.begin(lock_timeout_ms=LOCK_TIMEOUT_MS) as conn:
            return await _claim(conn, settings, worker, harnesses, max_tasks)
    except DBAPIError as error:
        if sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        return []


async def _claim(
    conn: AsyncConnection, settings: Settings, worker: str, harnesses: Sequence[str], max_tasks: int
) -> list[Claimed]:
    await workers.hear(conn, worker, harnesses)
    found = await _candidates(conn, settings, harnesses, max_tasks * CANDIDATES_A_TASK)
    if not found:
        return []
    free = await tasks.lock_principals(conn, sorted({c.principal_id for c in found}))
    running = await tasks.count_running(conn, sorted(free))
    chosen: list[Candidate] = []
    for candidate in await tasks.lock_claimable(conn, [c for c in found if c.principal_id in free]):
        if len(chosen) < max_tasks and running[candidate.principal_id] < settings.running_per_principal:
            running[candidate.principal_id] += 1
            chosen.append(candidate)
    if not chosen:
        return []
    now = await clock.now(conn)
    tokens = {c.id: compose(Prefix.TASK_TOKEN, secrets.token_bytes(RANDOM_BYTES)) for c in chosen}
    hashes = [digest(tokens[c.id]) for c in chosen]
    await tasks.claim(conn, chosen, hashes, worker=worker, lease_seconds=settings.lease_seconds, now=now)
    await runs.mark_claimed(conn, [c.run_id for c in chosen if c.run_id is not None], now)
    rows = await assignments.read(conn, [c.id for c in chosen])
    return [_claimed(row, tokens[row.task_id], now) for row in rows]


async def _candidates(
    conn: AsyncConnection, settings: Settings, harnesses: Sequence[str], limit: int
) -> list[Candidate]:
    """The first candidate of each conversation, without those of principals that run as much as they may."""
    found = await tasks.find_candidates(conn, harnesses, limit, full=[])
    crowd = await tasks.count_running(conn, sorted({c.principal_id for c in found}))
    full = [principal for principal, running in crowd.items() if running >= settings.running_per_principal]
    if full:
        found = await tasks.find_candidates(conn, harnesses, limit, full=full)
    return _one_a_conversation(found)


def _one_a_conversation(found: Sequence[Candidate]) -> list[Candidate]:
    first: dict[int, Candidate] = {}
    for candidate in found:
        first.setdefault(candidate.conversation_id, candidate)
    return list(first.values())


def _claimed(row: AssignmentRow, token: str, now: datetime) -> Claimed:
    return Claimed(
        id=row.task_id,
        fence=row.fence,
        run_id=row.run_id,
        attempt=row.attempt,
        conversation_id=row.conversation_id,
        last_seq=row.last_seq,
        prompt=row.prompt,
        preamble=preamble(row),
        payload=_payload(row),
        agent=Agent(row.harness, row.model, row.instructions, tuple(row.tools), dict(row.settings)),
        max_history_entries=row.max_history_entries,
        idempotency_key=None if row.run_id is None else f"run-{row.run_id}-attempt-{row.attempt}",
        token=token,
        claimed_at=now,
        lease_expires_at=row.lease_expires_at,
        deadline_at=row.deadline_at,
    )


def _payload(row: AssignmentRow) -> str | None:
    if row.delivery_body is None or row.delivery_content_type is None or row.delivery_received_at is None:
        return None
    return payload_part(
        row.delivery_body,
        content_type=row.delivery_content_type,
        source=row.delivery_source,
        received_at=row.delivery_received_at,
    )
