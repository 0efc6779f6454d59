"""A world in which one schedule runs for real: ticks at its slots, and workers that behave as they are told to."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.core.uptime import Down
from agentsched.service import claim, finish, tick
from agentsched.service.claim import Claimed
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.clock import Clock

BETWEEN_TICKS = timedelta(minutes=5)
"""Ticks between two slots would find nothing to do, and so many of them take their time."""

NEXT_DEADLINE = text("""
SELECT min(at) FROM (
    SELECT least(deadline_at, cancel_deadline_at, CASE WHEN id = ANY(:lost) THEN lease_expires_at END) AS at
    FROM tasks WHERE status = 'running'
    UNION ALL SELECT retry_at FROM runs WHERE status = 'retry_wait'
) AS deadlines
""")


@dataclass
class Held:
    """A task that a worker has. ``stops_at``: once it knows that it is asked to stop."""

    claimed: Claimed
    ends_at: datetime
    fails: bool
    stops_at: datetime | None = None

    @property
    def reports_at(self) -> datetime:
        return self.ends_at if self.stops_at is None else min(self.ends_at, self.stops_at)

    def report(self) -> Report:
        if self.stops_at is not None and self.stops_at < self.ends_at:
            return Report(End.STOPPED)
        return Report(End.FAILED, error_code="error", error="it failed") if self.fails else Report(End.COMPLETED)


@dataclass
class World:
    """Everything that happens between two instants, on the one clock."""

    db: Database
    settings: Settings
    clock: Clock
    run_seconds: int
    stop_seconds: int
    fails_every: int
    down: Down | None
    held: dict[int, Held] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    attempts: dict[tuple[int | None, int], bool] = field(default_factory=dict)

    async def live(self, start: datetime, until: datetime) -> None:
        """From the tick at ``start`` to the one at ``until``."""
        now, next_tick = start, start
        while now <= until:
            await self.clock.freeze(now)
            if self.down is not None and self.down.since <= now < self.down.until:
                await self._beat()
                self.lost += list(self.held)
                self.held.clear()
                now = next_tick = self.down.until
                continue
            await self._report(now)
            await self._beat()
            if now == next_tick:
                await tick.tick(self.db, self.settings)
                next_tick = _later_tick(now)
            else:
                await tick.sweep(self.db, self.settings)
            await self._claim(now)
            await self._beat(now)
            now = await self._next(now, next_tick)

    async def _next(self, now: datetime, next_tick: datetime) -> datetime:
        """When something happens next: a tick, a report, a deadline that a sweep finds, the end of all workers."""
        async with self.db.begin() as conn:
            deadline = (await conn.execute(NEXT_DEADLINE, {"lost": self.lost})).scalar_one()
        instants = [next_tick, *(held.reports_at for held in self.held.values())]
        instants += [each for each in (deadline, self.down and self.down.since) if each is not None]
        return min(each for each in instants if each > now)

    async def _report(self, now: datetime) -> None:
        """What is over by now, and what the reports let start, until nothing more is over."""
        while over := [task_id for task_id, held in self.held.items() if held.reports_at <= now]:
            held = self.held.pop(over[0])
            try:
                await finish.report(
                    self.db, self.settings, task_id=held.claimed.id, fence=held.claimed.fence, report=held.report()
                )
            except finish.StaleFence:
                continue
            await self._claim(now)

    async def _claim(self, now: datetime) -> None:
        found = await claim.claim(self.db, self.settings, worker="w", harnesses=[people.HARNESS], max_tasks=100)
        for claimed in found:
            attempt = (claimed.run_id, claimed.attempt)
            number = len(self.attempts) + 1
            fails = self.attempts.setdefault(attempt, self.fails_every > 0 and number % self.fails_every == 0)
            self.held[claimed.id] = Held(claimed, now + timedelta(seconds=self.run_seconds), fails)
            if claimed.id in self.lost:
                self.lost.remove(claimed.id)

    async def _beat(self, now: datetime | None = None) -> None:
        """All live workers say so; with ``now`` they hear that they are asked to stop."""
        for task_id, held in list(self.held.items()):
            try:
                beat = await finish.heartbeat(self.db, self.settings, task_id=task_id, fence=held.claimed.fence)
            except finish.StaleFence:
                del self.held[task_id]
                continue
            if now is not None and beat.cancel_requested and held.stops_at is None:
                held.stops_at = now + timedelta(seconds=self.stop_seconds)


def _later_tick(now: datetime) -> datetime:
    return now.replace(minute=now.minute - now.minute % 5) + BETWEEN_TICKS
