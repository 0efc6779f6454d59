"""How long a free slot stays empty: from the end of a run to the start of the next in line, over two worker processes.

Run by ``make bench-next``, on a durable PostgreSQL, by the database's clock: ``started_at`` of a task less
``finished_at`` of the run before it. The workers have no Redis and no tick, and their sweep does not come: what starts
is started by the finish, and heard from it. The median may be 400 ms (issue 3).

The line is run twice. First both processes serve every run, and whoever is quicker starts it. Then one serves the odd
runs and the other the even ones, so that each start is in the process that did not end the run before it.
"""

import argparse
import asyncio
import logging
import signal
import statistics
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

import structlog
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.runners.protocol import Assignment, Outcome
from agentsched.service import claim, finish, fire
from agentsched.service.caller import Caller
from agentsched.service.lifecycle import cancel
from agentsched.service.requests import AgentSpec, SchedulePatch
from agentsched.service.settle import Report
from agentsched.service.update import update
from agentsched.settings import Settings
from agentsched.store import clock
from agentsched.store.database import Database
from agentsched.worker.process import ProcessWaker, run_worker
from tests import people
from tests.benchmarks.fires import database
from tests.chaos import processes
from tests.clock import Clock

HARNESSES = ("odd", "even")
PERIOD = timedelta(minutes=5)
RUN_SECONDS = 0.15
"""How long a run takes: enough for everybody to have gone to sleep when it ends."""

START_SECONDS, END_SECONDS = 60.0, 30.0
POLL_SECONDS = 0.2

A_YEAR = 31_536_000

LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
ENDED = "SELECT count(*) FROM runs WHERE schedule_id = :schedule_id AND status = 'completed'"
LEDGER = """
SELECT t.worker, t.started_at, r.finished_at FROM runs r JOIN tasks t ON t.run_id = r.id
WHERE r.schedule_id = :schedule_id ORDER BY r.fire_at
"""


class Brief:
    """A runner whose runs take a moment."""

    async def run(self, _: Assignment) -> Outcome:
        await asyncio.sleep(RUN_SECONDS)
        return Outcome((), None, {})


async def work(url: str, name: str, harnesses: Sequence[str]) -> None:
    """What a worker process does, until SIGTERM."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    db = Database(url)
    waker = ProcessWaker(db)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings(database_url=url, sweep_seconds=3600)
    runners = dict.fromkeys(harnesses, Brief)
    await run_worker(settings, db, runners=runners, redis=None, waker=waker, stop=stop, name=name)
    await waker.close()
    await db.close()


class Gap(NamedTuple):
    """From the end of one run to the start of the next."""

    seconds: float
    crossed: bool
    """Whether another process started it."""


async def form_line(db: Database, settings: Settings, ada: Caller, waiting: int) -> int:
    """A schedule with runs in line, odd and even in turn, behind one that only this process serves."""
    async with db.begin() as conn:
        now = await clock.now(conn)
    first = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0) - waiting * PERIOD
    await Clock(db).freeze(first - timedelta(minutes=1))
    policies = {"mode": "fresh", "overlap": "queue", "queue_limit": None, "start_deadline_seconds": A_YEAR}
    schedule = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada), **policies)
    for number in range(waiting + 1):
        agent = AgentSpec(harness=HARNESSES[number % 2] if number else people.HARNESS)
        patch = SchedulePatch(agent=agent)
        schedule = await update(db, settings, ada, schedule.id, patch, version=schedule.version)
        await Clock(db).freeze(first + number * PERIOD)
        await fire.fire_due(db, settings)
    await Clock(db).shift(None)
    return schedule.id


async def run_line(db: Database, settings: Settings, served: Sequence[Sequence[str]], waiting: int) -> list[Gap]:
    """Let two worker processes run a line of so many; what passed between their runs."""
    ada = await people.somebody(db)
    schedule_id = await form_line(db, settings, ada, waiting)
    url = db.url.set(drivername="postgresql").render_as_string(hide_password=False)
    workers = [processes.start(work, url, f"w{number}", harnesses) for number, harnesses in enumerate(served, 1)]
    try:
        await until(db, LISTENING, len(workers), START_SECONDS)
        waker = ProcessWaker(db)
        [held] = await claim.claim(db, settings, worker="here", harnesses=[people.HARNESS], max_tasks=1)
        await finish.report(db, settings, task_id=held.id, fence=held.fence, report=Report(End.COMPLETED))
        waker.wake()
        await waker.close()
        await until(db, ENDED, waiting + 1, END_SECONDS + waiting, schedule_id=schedule_id)
        for worker in workers:
            worker.terminate()
        if await processes.ended(workers) != [0] * len(workers):
            raise SystemExit("a worker did not end well")
    finally:
        for worker in workers:
            worker.kill()
    await cancel(db, ada, schedule_id)
    async with db.begin() as conn:
        _, *ran = (await conn.execute(text(LEDGER), {"schedule_id": schedule_id})).all()
    return [
        Gap((after.started_at - before.finished_at).total_seconds(), after.worker != before.worker)
        for before, after in pairwise(ran)
    ]


async def until(db: Database, count: str, expected: int, seconds: float, **parameters: object) -> None:
    """Wait until something has been counted so many times."""
    async with asyncio.timeout(seconds), db.autocommit() as conn:
        while (await conn.execute(text(count), parameters)).scalar_one() < expected:  # noqa: ASYNC110 — nobody signals it
            await asyncio.sleep(POLL_SECONDS)


def show(what: str, gaps: Sequence[Gap]) -> None:
    took = sorted(1000 * gap.seconds for gap in gaps)
    p95 = took[max(0, -(-95 * len(took) // 100) - 1)]
    print(
        f"{what}: {len(gaps)} starts, {sum(gap.crossed for gap in gaps)} of them in the other process: "
        f"median {statistics.median(took):.0f} ms, p95 {p95:.0f} ms, max {took[-1]:.0f} ms"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--database-url", help="an empty, migrated database to use instead of an embedded one")
    arguments = parser.parse_args()
    settings = Settings(daily_run_limit=1_000_000, daily_run_limit_per_principal=1_000_000)
    odd, even = HARNESSES
    lines: dict[str, list[list[str]]] = {"either process": [[odd, even]] * 2, "the other process": [[odd], [even]]}
    async with database(arguments.database_url) as db:
        for what, served in lines.items():
            show(what, await run_line(db, settings, served, arguments.starts + 1))


if __name__ == "__main__":
    asyncio.run(main())
