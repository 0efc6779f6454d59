"""Delete what is no longer kept, in batches, each short enough for a transaction of its own (DESIGN §11, §12).

Any number of processes may delete at once: what another holds is passed over. Rows are locked FOR UPDATE, as a
deletion would lock them anyway, and never waited for.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.store.notes import INBOX

ROWS = 1000
"""The most rows that one batch deletes."""

RUNS = 500
"""Runs that a batch looks at: with a task each they are as many rows."""

CONVERSATIONS = 1000
"""Inboxes that a batch looks at."""

# By the primary key, because ids grow with creation: an index by finished_at would cost every run that ends.
LOCK_ENDED_RUNS = text("""
WITH page AS (
    SELECT id, created_at, finished_at FROM runs WHERE id > :after ORDER BY id LIMIT :limit
), ended AS (
    SELECT id FROM runs
    WHERE id = ANY(ARRAY(SELECT id FROM page WHERE finished_at < CAST(:before AS timestamptz)))
    ORDER BY id FOR UPDATE SKIP LOCKED
)
SELECT max(id), coalesce(bool_or(created_at < CAST(:before AS timestamptz)), false), ARRAY(SELECT id FROM ended)
FROM page
""")

# In what follows OFFSET 0 has each row looked up by its index. Without it the planner may hash the ledger for a few.

# The original goes before its requeues, or else it would be a dead letter (dead_letters.DEAD_LETTER) again.
DELETE_RUNS = text("""
WITH gone AS (
    SELECT r.id FROM runs r
    WHERE r.id = ANY(CAST(:ids AS bigint[]))
      AND (r.status <> 'failed' OR r.discarded_at IS NOT NULL
           OR EXISTS (SELECT FROM runs q WHERE q.requeue_of = r.id OFFSET 0))
      AND NOT EXISTS (SELECT FROM runs o WHERE o.id = r.requeue_of OFFSET 0)
      AND NOT EXISTS (SELECT FROM runs q WHERE q.requeue_of = r.id AND (q.finished_at < :before) IS NOT TRUE OFFSET 0)
      AND NOT EXISTS (SELECT FROM backfills b WHERE b.id = r.backfill_id AND b.status = 'running' OFFSET 0)
      AND r.id <> ALL(ARRAY(
          SELECT scheduled_run_id FROM tasks WHERE status = 'pending' AND kind <> 'run' AND scheduled_run_id IS NOT NULL
          UNION ALL
          SELECT scheduled_run_id FROM tasks WHERE status = 'running' AND kind <> 'run' AND scheduled_run_id IS NOT NULL
      ))
), their_tasks AS (
    DELETE FROM tasks WHERE run_id = ANY(ARRAY(SELECT id FROM gone))
)
DELETE FROM runs WHERE id = ANY(ARRAY(SELECT id FROM gone))
""")

DELETE_BACKFILLS = text("""
DELETE FROM backfills WHERE id = ANY(ARRAY(
    SELECT b.id FROM backfills b
    WHERE b.finished_at < :before AND NOT EXISTS (SELECT FROM runs WHERE backfill_id = b.id OFFSET 0)
    ORDER BY b.id LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_DELIVERIES = text("""
DELETE FROM deliveries WHERE id = ANY(ARRAY(
    SELECT d.id FROM deliveries d
    WHERE d.expires_at < :before AND NOT EXISTS (
        SELECT FROM runs r
        WHERE r.delivery_id = d.id AND r.status IN ('queued', 'pending', 'running', 'retry_wait', 'failed') OFFSET 0
    )
    ORDER BY d.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_IDEMPOTENCY_KEYS = text("""
DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
    SELECT k.ctid FROM idempotency_keys k
    WHERE k.created_at < :before
      AND NOT (k.operation LIKE 'run-now:%' AND EXISTS (SELECT FROM runs WHERE id = k.subject_id OFFSET 0))
    ORDER BY k.created_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_TICKS = text("""
DELETE FROM ticks WHERE minute = ANY(ARRAY(
    SELECT minute FROM ticks
    WHERE minute < :before AND minute < (SELECT max(minute) FROM ticks WHERE minute <= (SELECT clock_now()))
    ORDER BY minute LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_OUTAGES = text("""
DELETE FROM outages WHERE until_minute = ANY(ARRAY(
    SELECT until_minute FROM outages WHERE until_minute < :before
    ORDER BY until_minute LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_EVENTS = text("""
DELETE FROM events WHERE id = ANY(ARRAY(
    SELECT id FROM events WHERE created_at < :before ORDER BY created_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_WORKERS = text("""
DELETE FROM workers WHERE name = ANY(ARRAY(
    SELECT name FROM workers WHERE heard_at < :before ORDER BY heard_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

DELETE_REFUSED_CALLS = text("""
DELETE FROM refused_calls WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM refused_calls WHERE last_at < :before ORDER BY last_at LIMIT :limit FOR UPDATE SKIP LOCKED
))
""")

# From each conversation that has notes to the next one, which no plan for DISTINCT does.
TRIM_NOTES = text(f"""
WITH RECURSIVE inboxes AS (
    (SELECT conversation_id, 1 AS number FROM notes WHERE conversation_id > :after ORDER BY conversation_id LIMIT 1)
    UNION ALL
    SELECT n.conversation_id, i.number + 1
    FROM inboxes i CROSS JOIN LATERAL (
        SELECT conversation_id FROM notes WHERE conversation_id > i.conversation_id ORDER BY conversation_id LIMIT 1
    ) n
    WHERE i.number < :conversations
), older AS (
    SELECT n.id FROM inboxes i CROSS JOIN LATERAL (
        SELECT id FROM notes WHERE conversation_id = i.conversation_id ORDER BY id DESC OFFSET {INBOX} LIMIT :limit
    ) n LIMIT :limit
), trimmed AS (
    DELETE FROM notes WHERE id = ANY(ARRAY(
        SELECT id FROM notes WHERE id = ANY(ARRAY(SELECT id FROM older)) FOR UPDATE SKIP LOCKED
    )) RETURNING id
)
SELECT (SELECT max(conversation_id) FROM inboxes), (SELECT count(*) FROM older), (SELECT count(*) FROM trimmed)
""")


class Batch(NamedTuple):
    """What a batch of a walk deleted, and where the walk goes on; ``after`` is None at its end."""

    after: int | None
    deleted: int


async def runs(conn: AsyncConnection, before: datetime, after: int) -> Batch:
    """Runs that ended before an instant, with their tasks, by ids greater than ``after``.

    Kept are dead letters, and what rows that live still point at: a later requeue, a running backfill, a sub-task.
    """
    page = {"before": before, "after": after, "limit": RUNS}
    last, some_are_old, ids = (await conn.execute(LOCK_ENDED_RUNS, page)).one()
    deleted = (await conn.execute(DELETE_RUNS, {"ids": ids, "before": before})).rowcount if ids else 0
    return Batch(last if some_are_old else None, deleted)


async def notes(conn: AsyncConnection, after: int) -> Batch:
    """All but the newest notes (``notes.INBOX``) of conversations with ids greater than ``after``."""
    parameters = {"after": after, "conversations": CONVERSATIONS, "limit": ROWS}
    last, older, deleted = (await conn.execute(TRIM_NOTES, parameters)).one()
    return Batch(after if older == ROWS and deleted else last, deleted)


async def backfills(conn: AsyncConnection, before: datetime) -> int:
    """Backfills that ended before an instant and have no run left; how many."""
    return (await conn.execute(DELETE_BACKFILLS, {"before": before, "limit": ROWS})).rowcount


async def deliveries(conn: AsyncConnection, before: datetime) -> int:
    """Deliveries that expired before an instant; how many.

    Kept are those of runs that wait or are in flight, or have failed, because a requeue needs what came.
    """
    return (await conn.execute(DELETE_DELIVERIES, {"before": before, "limit": ROWS})).rowcount


async def idempotency_keys(conn: AsyncConnection, before: datetime) -> int:
    """Idempotency keys that were used first before an instant; how many.

    Kept is that of a run-now while its run is, which bears it: the ledger has one run a key.
    """
    return (await conn.execute(DELETE_IDEMPOTENCY_KEYS, {"before": before, "limit": ROWS})).rowcount


async def ticks(conn: AsyncConnection, before: datetime) -> int:
    """Recorded minutes before an instant; how many. The newest stays, or nobody would know of the outage after it."""
    return (await conn.execute(DELETE_TICKS, {"before": before, "limit": ROWS})).rowcount


async def outages(conn: AsyncConnection, before: datetime) -> int:
    """Outages that ended before an instant; how many."""
    return (await conn.execute(DELETE_OUTAGES, {"before": before, "limit": ROWS})).rowcount


async def events(conn: AsyncConnection, before: datetime) -> int:
    """Events that happened before an instant; how many."""
    return (await conn.execute(DELETE_EVENTS, {"before": before, "limit": ROWS})).rowcount


async def workers(conn: AsyncConnection, before: datetime) -> int:
    """Workers that were heard last before an instant; how many."""
    return (await conn.execute(DELETE_WORKERS, {"before": before, "limit": ROWS})).rowcount


async def refused_calls(conn: AsyncConnection, before: datetime) -> int:
    """Calls of tools that were refused last before an instant; how many."""
    return (await conn.execute(DELETE_REFUSED_CALLS, {"before": before, "limit": ROWS})).rowcount
