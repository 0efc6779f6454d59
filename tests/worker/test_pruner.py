"""The pruner by the one clock, beside the other duties (DESIGN §5, §12)."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from agentsched.core.attempt import End
from agentsched.core.words import NoteKind
from agentsched.service import finish, lifecycle, tick
from agentsched.service.settle import Report
from agentsched.store.database import Database
from agentsched.store.notes import Note, insert_notes
from agentsched.worker.process import run_worker, worker_name
from agentsched.worker.pruner import Pruner
from agentsched.worker.waker import ProcessWaker
from tests import people
from tests.worker.scene import Scene

pytestmark = pytest.mark.anyio


async def work(scene: Scene) -> None:
    """Take the next task and complete it."""
    task = await scene.claim()
    await finish.report(scene.db, scene.settings, task_id=task.id, fence=task.fence, report=Report(End.COMPLETED))


async def left(scene: Scene) -> dict[str, int]:
    tables = ("runs", "tasks", "ticks", "outages", "idempotency_keys", "events", "workers", "conversations", "entries")
    return {table: (await scene.rows(f"SELECT count(*) FROM {table}"))[0][0] for table in tables}


async def a_past(scene: Scene) -> None:
    """A fired run that completed, one started by hand with a key, an outage, an event and a worker."""
    await scene.fire("09:00:00")
    await work(scene)
    await people.run_now(scene.db, scene.caller, 1, key="k")
    await work(scene)
    await scene.at("09:03:00")
    await tick.tick(scene.db, scene.settings)
    await scene.rows(
        "INSERT INTO events (principal_id, kind, data, created_at) VALUES (1, 'x', '{}', clock_now()) RETURNING id"
    )


@pytest.mark.parametrize(
    ("days", "deleted"),
    [
        (0.9, {}),
        (1.1, {"workers": 1}),
        (7.1, {"workers": 1, "events": 1}),
        (89.9, {"workers": 1, "events": 1}),
        (90.1, {"runs": 2, "idempotency_keys": 1, "ticks": 1, "outages": 1, "events": 1, "workers": 1}),
    ],
)
async def test_each_kind_of_row_has_its_time(days: float, deleted: dict[str, int], scene: Scene) -> None:
    await a_past(scene)
    before = await left(scene)
    await scene.clock.step(days=days)

    pruner = Pruner(scene.db, scene.settings)
    assert await pruner.run_once() == deleted
    assert await pruner.run_once() == {}
    gone = {**deleted, "tasks": deleted.get("runs", 0)}
    assert await left(scene) == {table: count - gone.get(table, 0) for table, count in before.items()}


async def test_the_retention_of_runs_is_a_setting_and_time_is_the_databases(scene: Scene) -> None:
    await scene.clock.shift(None)
    await scene.schedule()
    await people.run_now(scene.db, scene.caller, 1)
    await work(scene)
    pruner = Pruner(scene.db, scene.settings.model_copy(update={"run_retention_days": 2}))

    await scene.clock.shift(timedelta(days=1, hours=23))
    assert "runs" not in await pruner.run_once()
    await scene.clock.shift(timedelta(days=2, hours=1))
    assert (await pruner.run_once())["runs"] == 1


async def test_no_slot_repeats_when_its_run_is_pruned_and_the_clock_steps_back(scene: Scene) -> None:
    schedule = await scene.fire("09:00:00")
    await work(scene)
    await scene.at("09:05:00")
    await tick.tick(scene.db, scene.settings)
    await work(scene)
    await scene.clock.step(days=100)
    assert (await Pruner(scene.db, scene.settings).run_once())["runs"] == 2

    await scene.at("08:59:30")
    await lifecycle.pause(scene.db, scene.caller, schedule.id)
    await lifecycle.resume(scene.db, scene.settings, scene.caller, schedule.id)
    for time in ("09:00:00", "09:05:00", "09:09:00"):
        await scene.at(time)
        await tick.tick(scene.db, scene.settings)
    assert await scene.runs() == []
    await scene.at("09:10:00")
    await tick.tick(scene.db, scene.settings)
    assert [f"{run.fire_at:%H:%M}" for run in await scene.runs()] == ["09:10"]


async def test_several_pruners_share_the_work(scene: Scene) -> None:
    await a_past(scene)
    await scene.clock.step(days=100)
    shares = await asyncio.gather(*(Pruner(scene.db, scene.settings).run_once() for _ in range(3)))
    assert sum(share.get("runs", 0) for share in shares) == 2
    assert await scene.runs() == []


async def test_a_worker_prunes(scene: Scene, background: Any, database_url: str) -> None:
    async with scene.db.begin() as conn:
        notes = [Note(scene.conversation_id, NoteKind.BUDGET, str(number), None, None) for number in range(60)]
        await insert_notes(conn, notes, (await scene.rows("SELECT clock_now()"))[0][0])
    db = Database(database_url)
    waker = ProcessWaker(db)
    stop, pruned = asyncio.Event(), asyncio.Event()

    @event.listens_for(db.engine.sync_engine, "after_cursor_execute")
    def see(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if "DELETE FROM workers" in statement:
            pruned.set()

    running = background(
        run_worker(scene.settings, db, runners={}, redis=None, waker=waker, stop=stop, name=worker_name())
    )
    async with asyncio.timeout(20):
        await pruned.wait()
        stop.set()
        await running
    await waker.close()
    await db.close()
    assert (await scene.rows("SELECT count(*) FROM notes"))[0][0] == 50
