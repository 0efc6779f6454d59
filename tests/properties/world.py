"""The real services on a real database, called from plain code: one event loop, one frozen clock."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import structlog
from sqlalchemy import text

from agentsched.service.caller import Caller
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock
from tests.properties.model import Step
from tests.properties.snapshot import Snapshot, take

T = TypeVar("T")

TABLES = text("""
SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables
WHERE schemaname = 'public' AND tablename NOT IN ('clock', 'alembic_version')
""")
SWALLOWED = ("row.left", "fire.batch_retried_by_row", "fire.locked")
"""Log events by which a service says that it went on after an error: here nothing may fail and nobody holds a lock."""

SMALL = {"misfire_all_keep": 4, "daily_run_limit_per_principal": 40, "running_per_principal": 5, "fire_connections": 1}
"""Limits that a short walk can reach; and nothing goes on beside anything else."""


class World:
    """An empty service with a principal, made anew by ``reset``."""

    def __init__(self, database_url: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.settings = Settings(database_url=database_url, **SMALL)  # type: ignore[arg-type]  # whole numbers
        self.db = Database(database_url, pool_size=5)
        self.clock = Clock(self.db)
        self.caller = self.call(people.somebody(self.db))
        self.reached: Counter[str] = Counter()
        """What walks have done and what runs have become, and how often."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end what is asynchronous. An error that the service swallowed is an error here."""
        with structlog.testing.capture_logs() as said:
            result = self._runner.run(work)
        swallowed = [line for line in said if line["event"] in SWALLOWED]
        assert not swallowed, swallowed
        return result

    @property
    def parts(self) -> tuple[Database, Settings, Caller]:
        """What services ask for first."""
        return self.db, self.settings, self.caller

    def reset(self, now: datetime) -> None:
        self.call(self._empty())
        self.call(self.clock.freeze(now))
        self.caller = self.call(people.somebody(self.db))

    def conversation(self) -> int:
        return self.call(people.conversation(self.db, self.settings, self.caller))

    def snapshot(self) -> Snapshot:
        return self.call(take(self.db))

    def remember(self, step: Step, before: Snapshot, after: Snapshot) -> None:
        """Count what was done, and what runs have become by it."""
        self.reached[f"{step.do} refused" if step.refused else step.do] += 1
        for run in after.runs.values():
            if run.id not in before.runs or before.runs[run.id].status != run.status:
                self.reached[f"{run.status} {run.reason or run.error_code or ''}".strip()] += 1

    async def _empty(self) -> None:
        async with self.db.begin() as conn:
            names = (await conn.execute(TABLES)).scalar_one()
            await conn.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))

    def close(self) -> None:
        self._runner.run(self.db.close())
        self._runner.close()


@contextmanager
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    try:
        yield made
    finally:
        made.close()
