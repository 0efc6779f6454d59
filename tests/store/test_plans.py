"""The hot queries go by their indexes, on a young database as on an old one (DESIGN §6)."""

from typing import Any

import pytest
from sqlalchemy import TextClause, text

from agentsched.service import tick
from agentsched.settings import Settings
from agentsched.store import backfills, due, overdue, tasks
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock, at

pytestmark = pytest.mark.anyio


async def indexes(db: Database, statement: TextClause, **parameters: object) -> tuple[set[str], set[str]]:
    """The indexes that a statement's plan uses, and the tables that it reads from end to end."""
    async with db.begin() as conn:
        explained = await conn.execute(text(f"EXPLAIN (FORMAT JSON) {statement.text}"), parameters)
        [plan] = explained.scalar_one()
    used: set[str] = set()
    scanned: set[str] = set()
    nodes: list[dict[str, Any]] = [plan["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if "Index Name" in node:
            used.add(node["Index Name"])
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] != "clock":
            scanned.add(node["Relation Name"])
    return used, scanned


@pytest.fixture(params=["young", "used"])
async def used_db(request: pytest.FixtureRequest, db: Database, settings: Settings, clock: Clock) -> Database:
    """A database without a row and without statistics, and one that has both."""
    if request.param == "used":
        await clock.freeze("2026-05-01T00:00:30Z")
        ada = await people.somebody(db)
        owner = await people.conversation(db, settings, ada)
        for _ in range(5):
            await people.schedule(db, settings, ada, owner, overlap="allow")
        for _ in range(20):
            await clock.step(minutes=5)
            await tick.tick(db, settings)
        async with db.autocommit() as conn:
            await conn.execute(SPOKEN)
            await conn.execute(text("ANALYZE"))
    return db


SPOKEN = text("""
INSERT INTO tasks (principal_id, kind, conversation_id, agent_id, harness, prompt, priority, due_at, status, attempt,
                   fence, timeout_seconds, claimable_at, created_at, finished_at)
SELECT c.principal_id, 'message', c.id, c.agent_id, (ARRAY['echo', 'test'])[1 + n % 2], 'x', 0, now(),
       CASE WHEN n % 3 = 0 THEN 'pending' ELSE 'completed' END, 1, 1, 60, now(), now(),
       CASE WHEN n % 3 > 0 THEN now() END
FROM generate_series(1, 60) n, (SELECT * FROM conversations LIMIT 50) c
""")


async def test_the_due_query(used_db: Database) -> None:
    assert await indexes(used_db, due.LOCK_DUE, limit=500) == ({"schedules_due_idx"}, set())


async def test_the_claim_query(used_db: Database) -> None:
    used, scanned = await indexes(used_db, tasks.CANDIDATES, harnesses=["echo"], limit=10, full=[])
    assert "tasks_claim_idx" in used
    assert scanned == set()


@pytest.mark.parametrize(
    "statement",
    [overdue.LOST, overdue.TIMED_OUT, overdue.CANCEL_OVER, overdue.NOT_STARTED, overdue.RETRIES],
)
async def test_the_reapers_queries_scan_no_table(used_db: Database, statement: TextClause) -> None:
    used, scanned = await indexes(used_db, statement, limit=100)
    assert scanned == set()
    assert used


async def test_reading_due_schedules_and_their_lines_scans_no_table(used_db: Database) -> None:
    for statement, parameters in (
        (due.READ_DUE, {"ids": [1, 2, 3]}),
        (due.READ_LINES, {"ids": [1, 2], "waiting": [1, None]}),
    ):
        used, scanned = await indexes(used_db, statement, **parameters)
        assert scanned == set()
        assert "runs_in_flight_idx" in used


async def test_a_backfill_reads_its_range_of_the_ledger_and_ends_by_the_line(used_db: Database) -> None:
    span = {"after": at("2026-05-01T00:00:00Z"), "until": at("2026-05-01T01:00:00Z")}
    used, scanned = await indexes(used_db, backfills.READ_SLOTS, schedule_id=1, **span)
    assert "runs_schedule_id_fire_at_id_idx" in used
    assert scanned == set()
    used, scanned = await indexes(used_db, backfills.COMPLETE_ENDED, ids=[1], now=span["until"])
    assert {"runs_line_idx", "runs_one_backfill_in_flight_idx"} <= used
    assert scanned == set()
