"""Many processes at once: nothing twice, nothing lost, no deadlock."""

import asyncio
import random
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from agentsched.core.attempt import End
from agentsched.core.problems import Refused
from agentsched.service import claim, finish, lifecycle, tick
from agentsched.service.caller import Caller
from agentsched.service.errors import ServiceError
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schema.schedules import schedule_versions
from tests import people
from tests.chaos import actions, processes
from tests.clock import Clock

pytestmark = pytest.mark.anyio

HAMMER_SECONDS = 60


async def one(db: Database, statement: str) -> Any:
    async with db.begin() as conn:
        return (await conn.execute(text(statement))).scalar_one()


async def test_ticks_from_four_processes_over_fifty_connections_fire_each_schedule_once(
    db: Database, database_url: str, settings: Settings, clock: Clock
) -> None:
    many = settings.model_copy(update={"schedules_per_conversation": 1000, "schedules_per_principal": 1000})
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    for _ in range(10):
        owner = await people.conversation(db, settings, ada)
        for _ in range(10):
            await people.schedule(db, many, ada, owner)
    own = ", ".join(column.name for column in schedule_versions.columns if column.name != "schedule_id")
    async with db.begin() as conn:  # the other nine hundred are copies
        await conn.execute(
            text(
                "WITH copies AS (INSERT INTO schedules (principal_id, conversation_id, number, kind, cron, timezone,"
                " status, next_fire_at, created_at, updated_at) SELECT principal_id, conversation_id, number + 10 * n,"
                " kind, cron, timezone, status, next_fire_at, created_at, updated_at"
                " FROM schedules, generate_series(1, 9) n RETURNING id)"
                f" INSERT INTO schedule_versions (schedule_id, {own}) SELECT c.id, {own} FROM copies c,"
                " (SELECT * FROM schedule_versions LIMIT 1) v"
            )
        )
    assert await one(db, "SELECT count(*) FROM schedules") == 1000
    await clock.freeze("2026-05-01T00:05:00Z")
    ready = processes.barrier(4)
    ticking = [processes.start(actions.fire_together, database_url, n, ready) for n in (13, 13, 12, 12)]

    assert await processes.ended(ticking) == [0, 0, 0, 0]

    assert await one(db, "SELECT count(*) FROM runs WHERE status = 'pending'") == 1000
    assert await one(db, "SELECT count(DISTINCT schedule_id) FROM runs") == 1000
    assert await one(db, "SELECT count(*) FROM tasks") == 1000
    assert await one(db, "SELECT count(*) FROM conversations WHERE parent_id IS NOT NULL") == 1000
    assert await one(db, "SELECT sum(runs) FROM principal_days") == 1000
    assert await one(db, "SELECT count(*) FROM schedules WHERE next_fire_at = '2026-05-01T00:10:00Z'") == 1000


async def test_workers_at_a_barrier_never_run_two_tasks_of_one_conversation(
    db: Database, database_url: str, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    for _ in range(3):
        owner = await people.conversation(db, settings, ada)
        for _ in range(10):
            schedule = await people.schedule(db, settings, ada, owner, mode="append")
            await people.run_now(db, ada, schedule.id)
    async with db.begin() as conn:
        await conn.execute(text("CREATE TABLE IF NOT EXISTS seen (conversation_id bigint, running bigint)"))
        await conn.execute(text("TRUNCATE seen"))
        await conn.execute(
            text(
                "CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " INSERT INTO seen SELECT NEW.conversation_id, count(*) FROM tasks"
                " WHERE conversation_id = NEW.conversation_id AND status = 'running'; RETURN NEW; END $$"
            )
        )
        await conn.execute(
            text("CREATE TRIGGER see AFTER UPDATE OF status ON tasks FOR EACH ROW EXECUTE FUNCTION see()")
        )
    try:
        ready = processes.barrier(2)
        pipes = [processes.context.Pipe(duplex=False) for _ in range(2)]
        working = [
            processes.start(actions.claim_together, database_url, f"w{n}", 60, ready, send)
            for n, (_, send) in enumerate(pipes)
        ]
        assert await processes.ended(working) == [0, 0]
        assert sum(receive.recv() for receive, _ in pipes) == 30
        assert await one(db, "SELECT max(running) FROM seen") == 1
        assert await one(db, "SELECT count(*) FROM runs WHERE status = 'completed'") == 30
    finally:
        async with db.begin() as conn:
            await conn.execute(text("DROP TRIGGER see ON tasks"))
            await conn.execute(text("DROP FUNCTION see()"))
            await conn.execute(text("DROP TABLE seen"))


async def test_tick_create_cancel_and_finish_hammered_together_give_no_deadlock(
    db: Database, database_url: str, settings: Settings, clock: Clock
) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    owners = [await people.conversation(db, settings, ada) for _ in range(3)]
    before = await one(db, DEADLOCKS)
    hammer = Hammer(Database(database_url, pool_size=20), settings, ada, owners)
    done = asyncio.get_running_loop().time() + HAMMER_SECONDS

    async def over_and_over(blow: Any) -> int:
        count = 0
        while asyncio.get_running_loop().time() < done:
            await blow()
            count += 1
        return count

    blows = [
        hammer.tick,
        hammer.tick,
        hammer.create,
        hammer.create,
        hammer.cancel,
        hammer.work,
        hammer.work,
        hammer.talk,
    ]
    counts = await asyncio.gather(*(over_and_over(blow) for blow in blows))
    await hammer.db.close()

    assert min(counts) > 5, counts
    assert await one(db, DEADLOCKS) == before
    assert await one(db, "SELECT count(*) FROM runs WHERE status = 'completed'") > 0


DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


class Hammer:
    """Random things that people, workers and ticks do, with time going on underneath."""

    def __init__(self, db: Database, settings: Settings, caller: Caller, owners: list[int]) -> None:
        self.db, self.settings, self.caller, self.owners = db, settings, caller, owners
        self._random = random.Random(1)

    async def tick(self) -> None:
        async with self.db.begin() as conn:
            await conn.execute(text("UPDATE clock SET frozen_at = frozen_at + interval '1 minute'"))
        await tick.tick(self.db, self.settings)

    async def create(self) -> None:
        fields = {"mode": self._random.choice(["fork", "append", "fresh"]), "overlap": self._random.choice(OVERLAPS)}
        try:
            await people.schedule(self.db, self.settings, self.caller, self._random.choice(self.owners), **fields)
        except Refused as refused:
            if {problem.code for problem in refused.problems} != {"too_many_schedules"}:
                raise

    async def cancel(self) -> None:
        async with self.db.begin() as conn:
            ids = list((await conn.execute(text("SELECT id FROM schedules WHERE status = 'active'"))).scalars())
        if len(ids) > 20:
            await lifecycle.cancel(self.db, self.caller, self._random.choice(ids), stop_running=True)
        elif ids:
            await self._run_now_pause_resume(self._random.choice(ids))

    async def _run_now_pause_resume(self, schedule_id: int) -> None:
        try:
            await people.run_now(self.db, self.caller, schedule_id)
            await lifecycle.pause(self.db, self.caller, schedule_id)
            await lifecycle.resume(self.db, self.settings, self.caller, schedule_id)
        except ServiceError:
            return

    async def work(self) -> None:
        claimed = await claim.claim(self.db, self.settings, worker="w", harnesses=[people.HARNESS], max_tasks=5)
        for task in claimed:
            end = self._random.choice([End.COMPLETED, End.COMPLETED, End.FAILED])
            try:
                await finish.report(
                    self.db, self.settings, task_id=task.id, fence=task.fence, report=Report(end, error="no")
                )
            except finish.StaleFence:
                continue

    async def talk(self) -> None:
        try:
            await people.say(self.db, self.settings, self.caller, self._random.choice(self.owners), "hello")
        except DBAPIError as error:
            raise AssertionError("a person was not heard") from error


OVERLAPS = ["skip", "queue", "queue_latest", "replace", "allow"]
