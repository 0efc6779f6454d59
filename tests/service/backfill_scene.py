"""An hourly schedule at noon of a day, and somebody who backfills it and works it off."""

from datetime import timedelta
from typing import Any

from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.service import backfills, claim, finish, schedules
from agentsched.service.backfill_views import BackfillPreview, BackfillView
from agentsched.service.caller import Caller
from agentsched.service.claim import Claimed
from agentsched.service.requests import BackfillRequest
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from tests import people
from tests.clock import Clock, at

NOON = "2026-05-01T12:00:30Z"
COMPLETED = Report(End.COMPLETED)
FAILED = Report(End.FAILED, error_code="error", error="it failed")
STOPPED = Report(End.STOPPED)


class Scene:
    """One schedule and what people and workers do with it. Hours are of 2026-05-01 in UTC, negative ones before."""

    def __init__(self, db: Database, settings: Settings, clock: Clock, ada: Caller, schedule: ScheduleRow) -> None:
        self.db, self.settings, self.clock, self.ada = db, settings, clock, ada
        self.id = schedule.id
        self.owner = schedule.conversation_id

    @classmethod
    async def begin(cls, db: Database, settings: Settings, clock: Clock, **fields: object) -> "Scene":
        await clock.freeze(NOON)
        ada = await people.somebody(db)
        owner = await people.conversation(db, settings, ada)
        timed = {"at", "every", "webhook"} & fields.keys()
        asked = {"timeout_seconds": 86_400} | ({} if timed else {"cron": "0 * * * *"}) | fields
        return cls(db, settings, clock, ada, await people.schedule(db, settings, ada, owner, **asked))

    def request(self, after: int | str, until: int | str, **fields: object) -> BackfillRequest:
        return BackfillRequest.model_validate({"from": _hour(after), "to": _hour(until), **fields})

    async def backfill(
        self, after: int | str, until: int | str, *, key: str | None = None, by: Caller | None = None, **fields: object
    ) -> BackfillView:
        made, _ = await backfills.make(
            self.db, self.settings, by or self.ada, self.id, self.request(after, until, **fields), key=key
        )
        return made

    async def count(self, after: int | str, until: int | str, **fields: object) -> BackfillPreview:
        request = self.request(after, until, dry_run=True, **fields)
        return await backfills.preview(self.db, self.settings, self.ada, self.id, request)

    async def shown(self, backfill: BackfillView) -> BackfillView:
        return await backfills.get(self.db, self.ada, backfill.id)

    async def progress(self, backfill: BackfillView) -> tuple[str, dict[str, int]]:
        shown = await self.shown(backfill)
        return shown.status.value, {status.value: count for status, count in shown.progress.items()}

    async def schedule(self) -> ScheduleRow:
        return await schedules.get(self.db, self.ada, self.id)

    async def claim(self, worker: str = "w1", most: int = 1) -> list[Claimed]:
        return await claim.claim(self.db, self.settings, worker=worker, harnesses=[people.HARNESS], max_tasks=most)

    async def take(self, worker: str = "w1") -> Claimed:
        [task] = await self.claim(worker)
        return task

    async def beat(self, task: Claimed) -> None:
        await finish.heartbeat(self.db, self.settings, task_id=task.id, fence=task.fence)

    async def end(self, task: Claimed, report: Report = COMPLETED) -> None:
        await finish.report(self.db, self.settings, task_id=task.id, fence=task.fence, report=report)

    async def work(self, report: Report = COMPLETED) -> str:
        """Take the next task and end it; the hour of its slot."""
        task = await self.take()
        await self.end(task, report)
        return await self.hour_of(task)

    async def hour_of(self, task: Claimed) -> str:
        async with self.db.begin() as conn:
            found = await conn.execute(text("SELECT fire_at FROM runs WHERE id = :id"), {"id": task.run_id})
            return f"{found.scalar_one():%H:%M}"

    async def run_ids(self, trigger: str, status: str) -> list[int]:
        return [row[0] for row in await self._rows() if row[2:4] == (trigger, status)]

    async def ledger(self) -> list[tuple[str, str, str, str | None]]:
        """Slot, trigger, status and reason of every run, by (fire_at, id)."""
        return [row[1:] for row in await self._rows()]

    async def _rows(self) -> list[Any]:
        statement = text("SELECT id, fire_at, trigger, status, reason FROM runs WHERE schedule_id = :id ORDER BY 2, 1")
        async with self.db.begin() as conn:
            rows = await conn.execute(statement, {"id": self.id})
            return [(row[0], f"{row.fire_at:%H:%M}", *row[2:]) for row in rows]


def _hour(when: int | str) -> str:
    return when if isinstance(when, str) else (at("2026-05-01T00:00:00Z") + timedelta(hours=when)).isoformat()
