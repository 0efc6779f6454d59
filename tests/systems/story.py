"""A scenario in short words: what happens to one schedule on 2026-05-01, a Friday, in UTC."""

import re

from agentsched.service import tick
from agentsched.service.schedules import get
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow
from tests.conformance.scenarios import Scenario

LedgerRow = tuple[str, str, str | None]
"""The clock of a run's fire_at, its status, and its reason."""

INSTANTS = ("run", "expect_run", "expect_retry_at")
TIME = re.compile(r"\d\d:\d\d(:\d\d)?")


def instant(time: str) -> str:
    """The instant of a time such as ``09:00`` or ``09:00:30``; a label stays what it is."""
    if not TIME.fullmatch(time):
        return time
    return f"2026-05-01T{time}Z" if time.count(":") == 2 else f"2026-05-01T{time}:00Z"


class Story(Scenario):
    """The steps are those of the conformance scenarios; runs are named by their times."""

    async def made(self, time: str = "00:00:30", **fields: object) -> None:
        """A schedule every five minutes, unless the fields say otherwise."""
        await self.begin({"created_at": instant(time), "schedule": fields})

    async def at(self, time: str, do: str, **more: object) -> None:
        given = {key: instant(str(value)) if key in INSTANTS else value for key, value in more.items()}
        await self.step({"at": instant(time), "do": do, **given})

    async def fires(self, *times: str) -> None:
        """Ticks, each on its minute."""
        for time in times:
            await self.at(time, "tick")

    async def sweeps(self, time: str) -> None:
        """A sweep at this time, which is a tick where the minute has none yet."""
        await self.clock.freeze(instant(time))
        await tick.sweep(self.db, self.settings)

    async def runs(self, time: str, run: str, worker: str = "w1") -> None:
        """A worker takes this run, which is the next one, and completes it."""
        await self.at(time, "claim", worker=worker, expect_run=run)
        await self.at(time, "complete", run=run)

    async def outcome(self) -> list[LedgerRow]:
        """The whole ledger in its order."""
        return [(f"{row.fire_at:%H:%M}", row.status, row.reason) for row in await self.ledger()]

    async def row_of(self, name: str) -> RunRow:
        """The run with this label, or the last one of this time."""
        return await self._run(await self._run_id(instant(name)))

    async def schedule(self) -> ScheduleRow:
        return await get(self.db, self.caller, self.schedule_id)
