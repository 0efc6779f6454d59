"""What the processes of the chaos tests do."""

import asyncio
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from agentsched.core.attempt import End
from agentsched.runners.protocol import Entry
from agentsched.service import claim, finish, fire
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.chaos.processes import with_point


async def fire_and_die(url: str, at: int, answer: Connection) -> None:
    """Fire everything over one connection; sends the number of points where it could have died."""
    db = Database(url, pool_size=1)
    settings = Settings(fire_connections=1)
    answer.send(await with_point(db, at, lambda: fire.fire_due(db, settings)))
    await db.close()


async def finish_and_die(url: str, task_id: int, fence: int, at: int, answer: Connection) -> None:
    """Complete a task; sends the number of points where it could have died."""
    db = Database(url, pool_size=1)
    report = Report(End.COMPLETED, entries=[Entry("assistant", "done")], result="done")
    answer.send(
        await with_point(db, at, lambda: finish.report(db, Settings(), task_id=task_id, fence=fence, report=report))
    )
    await db.close()


async def fire_together(url: str, connections: int, ready: Barrier) -> None:
    """Fire everything from many connections at once, when everybody is there."""
    db = Database(url, pool_size=connections)
    settings = Settings(fire_connections=connections, fire_batch=20)

    async def connect() -> None:
        async with db.begin():
            await asyncio.sleep(0)

    await asyncio.gather(*(connect() for _ in range(connections)))
    ready.wait()
    await fire.fire_due(db, settings)
    await db.close()


async def claim_together(url: str, worker: str, rounds: int, ready: Barrier, answer: Connection) -> None:
    """Claim and finish until nothing is left, several claims at once; sends how many tasks it ran."""
    db = Database(url, pool_size=5)
    settings = Settings()
    ready.wait()
    ran = 0

    async def drain() -> None:
        nonlocal ran
        for _ in range(rounds):
            for task in await claim.claim(db, settings, worker=worker, harnesses=[people.HARNESS], max_tasks=3):
                await finish.report(db, settings, task_id=task.id, fence=task.fence, report=Report(End.COMPLETED))
                ran += 1

    await asyncio.gather(*(drain() for _ in range(4)))
    answer.send(ran)
    await db.close()
