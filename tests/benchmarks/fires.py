"""Fires per second of the full tick, beside the same writes as one bare SQL statement on the same database.

Run by ``make bench``: distinct crons and zones, all modes, 1,000 conversations of 100 principals, a durable PostgreSQL.
The two take turns; every round starts from the same rows, vacuumed, and with no occurrence memoised.
"""

import argparse
import asyncio
import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import text

from agentsched.core import timing
from agentsched.core.zones import zone, zone_names
from agentsched.embedded.postgres import EmbeddedPostgres
from agentsched.service.tick import tick
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.migrate import migrate
from agentsched.worker.collector import calm_collector
from tests.clock import Clock, at

NOW = at("2026-05-01T12:00:00Z")
PRINCIPALS, CONVERSATIONS = 100, 1000

SEED = """
INSERT INTO principals (name, timezone, created_at) SELECT 'p' || n, 'UTC', :now FROM generate_series(1, :principals) n;
INSERT INTO agents (principal_id, digest, harness, tools, settings)
SELECT id, 'x', 'echo', '[]', '{}' FROM principals;
INSERT INTO conversations (principal_id, title, agent_id, created_at)
SELECT a.principal_id, 'c' || n, a.id, :now FROM generate_series(0, :conversations - 1) n
JOIN agents a ON a.principal_id = 1 + n % :principals;
INSERT INTO schedules (principal_id, conversation_id, number, name, kind, cron, timezone, status, next_fire_at,
       created_at,
                       updated_at)
SELECT c.principal_id, c.id, i.n, 'schedule ' || i.n, 'cron', i.cron, i.zone, 'active', :now, :now, :now
FROM unnest(CAST(:crons AS text[]), CAST(:zones AS text[])) WITH ORDINALITY AS i(cron, zone, n)
JOIN conversations c ON c.id = 1 + i.n % :conversations;
INSERT INTO schedule_versions (schedule_id, version, prompt, mode, agent_id, overlap, max_concurrency, queue_limit,
    cancel_grace_seconds, misfire, misfire_grace_seconds, start_deadline_seconds, timeout_seconds, retry_max_attempts,
    retry_initial_delay_seconds, retry_max_delay_seconds, pause_after_failures, notify, daily_run_limit, created_at)
SELECT s.id, 1, 'Check my open pull requests.', (ARRAY['fork', 'append', 'fresh'])[1 + s.id % 3], c.agent_id, 'skip',
       1, 100,
    30, 'skip', 120, 900, 1800, 1, 30, 900, 3, 'failures', 300, :now
FROM schedules s JOIN conversations c ON c.id = s.conversation_id;
CREATE TABLE bench_next (schedule_id bigint PRIMARY KEY, next_fire_at timestamptz NOT NULL);
INSERT INTO bench_next
SELECT i.n, i.next FROM unnest(CAST(:nexts AS timestamptz[])) WITH ORDINALITY AS i(next, n)
"""

RESET = """
TRUNCATE runs, tasks, principal_days, notes, ticks, provisional_entries;
DELETE FROM conversations WHERE id > :conversations;
UPDATE schedules SET next_fire_at = :now, accounted_until = NULL, last_fire_at = NULL, runs_admitted = 0, day = NULL,
       day_runs = 0
"""

BARE = """
WITH due AS (
    SELECT s.id, s.principal_id, s.conversation_id AS owner_id, s.version, s.kind, s.name, s.next_fire_at,
           v.mode, v.agent_id, v.timeout_seconds, v.start_deadline_seconds, b.next_fire_at AS following,
           nextval('runs_id_seq') AS run_id, nextval('tasks_id_seq') AS task_id,
           CASE WHEN v.mode = 'append' THEN s.conversation_id ELSE nextval('conversations_id_seq') END AS target_id
    FROM schedules s
    JOIN schedule_versions v ON v.schedule_id = s.id AND v.version = s.version
    JOIN bench_next b ON b.schedule_id = s.id
    WHERE s.status = 'active' AND s.next_fire_at <= :now
), targets AS (
    INSERT INTO conversations (id, principal_id, title, agent_id, timezone, parent_id, parent_seq, last_seq, run_id,
    created_at)
    SELECT d.target_id, o.principal_id, d.name || ' · 2026-05-01 12:00',
           CASE WHEN d.mode = 'fresh' THEN d.agent_id ELSE o.agent_id END, o.timezone,
           CASE WHEN d.mode = 'fork' THEN o.id END, CASE WHEN d.mode = 'fork' THEN o.last_seq END, o.last_seq,
           d.run_id, :now
    FROM due d JOIN conversations o ON o.id = d.owner_id WHERE d.mode <> 'append'
), ledger AS (
    INSERT INTO runs (id, principal_id, schedule_id, version, trigger, lane, fire_at, occurrence_key, status,
                      conversation_id, attempt, counted, created_at)
    SELECT run_id, principal_id, id, version, kind, 'live', next_fire_at,
           'slot:' || to_char(next_fire_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'pending', target_id, 1,
           true, :now
    FROM due
), pending AS (
    INSERT INTO tasks (id, principal_id, kind, conversation_id, run_id, scheduled_run_id, agent_id, harness, priority,
                       due_at, status, attempt, timeout_seconds, claimable_at, start_deadline_at, created_at)
    SELECT d.task_id, d.principal_id, 'run', d.target_id, d.run_id, d.run_id, a.id, a.harness, 1, d.next_fire_at,
           'pending', 1, d.timeout_seconds, :now, :now + make_interval(secs => d.start_deadline_seconds), :now
    FROM due d JOIN conversations o ON o.id = d.owner_id
    JOIN agents a ON a.id = CASE WHEN d.mode = 'fresh' THEN d.agent_id ELSE o.agent_id END
), days AS (
    INSERT INTO principal_days (principal_id, day, runs)
    SELECT principal_id, CAST(:now AS date), count(*) FROM due GROUP BY principal_id
)
UPDATE schedules s
SET next_fire_at = d.following, accounted_until = d.next_fire_at, last_fire_at = d.next_fire_at,
    runs_admitted = s.runs_admitted + 1, day = CAST(:now AS date), day_runs = 1, updated_at = :now
FROM due d WHERE s.id = d.id AND s.status = 'active' AND s.version = d.version AND s.next_fire_at = d.next_fire_at
"""


def timings(count: int) -> list[timing.Timing]:
    """Crons that fire at noon UTC, in every zone there is and in as many shapes as it takes to make them distinct."""
    zones, found = zone_names(), []
    for number in range(count):
        name = zones[number % len(zones)]
        local = NOW.astimezone(zone(name))
        shape = number // len(zones)
        minutes = f"{local.minute},{(local.minute + 5 + shape % 50) % 60}"
        hours = ("*", f"{local.hour}", f"{local.hour},{(local.hour + 7) % 24}")[shape % 3]
        found.append(timing.Timing(timing.Kind.CRON, f"{minutes} {hours} * * *", None, None, None, name))
    return found


async def run(db: Database, settings: Settings, schedules: int, rounds: int) -> None:
    """Print the rate of the tick and of the bare statement, round by round, and the ratio of their medians."""
    wanted = timings(schedules)
    distinct = len({(each.cron, each.timezone) for each in wanted})
    await execute(
        db,
        SEED,
        now=NOW,
        principals=PRINCIPALS,
        conversations=CONVERSATIONS,
        crons=[each.cron for each in wanted],
        zones=[each.timezone for each in wanted],
        nexts=[timing.next_occurrence(each, NOW) for each in wanted],
    )
    await Clock(db).freeze(NOW)
    calm_collector()
    print(
        f"{schedules} due schedules, {distinct} distinct crons and zones, "
        f"batches of {settings.fire_batch} over {settings.fire_connections} connections"
    )
    ticks, bares = [], []
    for number in range(1, rounds + 1):
        await reset(db)
        timing._next_of_cron.cache_clear()
        began = time.perf_counter()
        report = await tick(db, settings)
        ticks.append(schedules / (time.perf_counter() - began))
        await check(db, schedules, report.fired)
        await reset(db)
        began = time.perf_counter()
        await execute(db, BARE, now=NOW)
        bares.append(schedules / (time.perf_counter() - began))
        await check(db, schedules, schedules)
        print(f"round {number}: tick {ticks[-1]:8,.0f} fires/s   bare {bares[-1]:8,.0f} fires/s")
    tick_rate, bare_rate = statistics.median(ticks), statistics.median(bares)
    share = tick_rate / bare_rate
    print(f"median:  tick {tick_rate:8,.0f} fires/s   bare {bare_rate:8,.0f} fires/s   {share:.0%} of bare")


async def reset(db: Database) -> None:
    await execute(db, RESET, now=NOW, conversations=CONVERSATIONS)
    async with db.autocommit() as conn:
        await conn.execute(text("VACUUM (ANALYZE)"))
        await conn.execute(text("CHECKPOINT"))


async def check(db: Database, schedules: int, fired: int) -> None:
    async with db.begin() as conn:
        counted = (
            await conn.execute(
                text(
                    "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM tasks), "
                    "(SELECT sum(runs) FROM principal_days)"
                )
            )
        ).one()
    if (fired, *counted) != (schedules,) * 4:
        raise SystemExit(f"expected {schedules} fires, runs, tasks and spent runs, got {(fired, *counted)}")


async def execute(db: Database, script: str, **parameters: object) -> None:
    async with db.begin() as conn:
        for statement in script.split(";\n"):
            await conn.execute(text(statement), {k: v for k, v in parameters.items() if f":{k}" in statement})


@contextlib.asynccontextmanager
async def database(url: str | None) -> AsyncIterator[Database]:
    """The database named by ``url``, or an embedded one that goes away again."""
    if url is not None:
        db = Database(url, pool_size=4)
        yield db
        await db.close()
        return
    directory = Path(tempfile.mkdtemp(prefix="agentsched-bench-"))
    try:
        with EmbeddedPostgres.start(directory) as server:
            db = Database(server.url, pool_size=4)
            await migrate(db)
            yield db
            await db.close()
    finally:
        shutil.rmtree((directory / "postgres").resolve(), ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=Settings().fire_batch)
    parser.add_argument("--connections", type=int, default=Settings().fire_connections)
    parser.add_argument("--database-url", help="an empty, migrated database to use instead of an embedded one")
    arguments = parser.parse_args()
    settings = Settings(
        fire_batch=arguments.batch, fire_connections=arguments.connections, daily_run_limit_per_principal=1_000_000
    )
    async with database(arguments.database_url) as db:
        await run(db, settings, arguments.schedules, arguments.rounds)


if __name__ == "__main__":
    asyncio.run(main())
