"""One principal with a conversation, and what a test of the worker asks about it."""

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import text

from agentsched.runners.protocol import Runner
from agentsched.service import claim, conversations, tick
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.requests import NewMessage
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.entries import EntryRow
from agentsched.store.schedules import ScheduleRow
from agentsched.worker.attempt import Attempt
from tests import people
from tests.clock import Clock


class Scene:
    """Times are those of 2026-05-01, a Friday, in UTC; the clock is frozen at 08:58."""

    def __init__(self, db: Database, settings: Settings, clock: Clock) -> None:
        self.db, self.settings, self.clock = db, settings, clock
        self.caller: Caller
        self.conversation_id = 0

    async def begin(self, harness: str = people.HARNESS) -> "Scene":
        await self.at("08:58:00")
        self.caller = await people.somebody(self.db)
        self.conversation_id = await people.conversation(self.db, self.settings, self.caller, harness)
        return self

    async def at(self, time: str) -> None:
        await self.clock.freeze(f"2026-05-01T{time}Z")

    async def schedule(self, **fields: object) -> ScheduleRow:
        return await people.schedule(self.db, self.settings, self.caller, self.conversation_id, **fields)

    async def fire(self, time: str = "09:00:00", **fields: object) -> ScheduleRow:
        """A schedule that has fired at that time."""
        schedule = await self.schedule(**fields)
        await self.at(time)
        await tick.tick(self.db, self.settings)
        return schedule

    async def say(self, words: str, conversation_id: int | None = None) -> int:
        task_id, _ = await conversations.say(
            self.db, self.settings, self.caller, conversation_id or self.conversation_id, NewMessage(text=words)
        )
        return task_id

    async def claim(self, settings: Settings | None = None, worker: str = "w1") -> Claimed:
        [claimed] = await claim.claim(
            self.db, settings or self.settings, worker=worker, harnesses=[people.HARNESS], max_tasks=1
        )
        return claimed

    def attempt(
        self,
        claimed: Claimed,
        runner: Runner,
        *,
        settings: Settings | None = None,
        db: Database | None = None,
        beats: Database | None = None,
    ) -> Attempt:
        async def made() -> Runner:
            return runner

        return Attempt(
            db or self.db,
            beats or self.db,
            settings or self.settings,
            claimed,
            made,
            claimed_at=asyncio.get_running_loop().time(),
        )

    async def transcript(self, conversation_id: int | None = None) -> list[EntryRow]:
        return await conversations.transcript(
            self.db, self.caller, conversation_id or self.conversation_id, after=0, limit=1000
        )

    async def rows(self, statement: str, **parameters: object) -> list[Any]:
        async with self.db.begin() as conn:
            return list((await conn.execute(text(statement), parameters)).all())

    async def runs(self) -> list[Any]:
        return await self.rows("SELECT * FROM runs ORDER BY id")

    async def tasks(self) -> list[Any]:
        return await self.rows("SELECT * FROM tasks ORDER BY id")


Runners = dict[str, Callable[[], Runner]]
