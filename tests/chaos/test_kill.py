"""A process killed with SIGKILL at any point of a fire or a finish leaves all of it or none (DESIGN §5)."""

from multiprocessing.connection import Connection
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.service import claim, fire
from agentsched.service.claim import Claimed
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.chaos import actions, processes
from tests.clock import Clock

pytestmark = pytest.mark.anyio


async def rows(db: Database, statement: str) -> list[Any]:
    async with db.begin() as conn:
        return list((await conn.execute(text(statement))).all())


async def due_schedule(db: Database, settings: Settings, clock: Clock, **fields: object) -> int:
    await clock.freeze("2026-05-01T00:00:30Z")
    ada = await people.somebody(db)
    schedule = await people.schedule(db, settings, ada, await people.conversation(db, settings, ada), **fields)
    await clock.freeze("2026-05-01T00:05:00Z")
    return schedule.id


async def kill(action: processes.Action, url: str, *arguments: object) -> tuple[int, int | None]:
    """Run an action to its death; its exit code, and the number of points if it survived."""
    receive, send = processes.context.Pipe(duplex=False)
    process = processes.start(action, url, *arguments, send)
    send.close()
    [code] = await processes.ended([process])
    return code, _sent(receive)


def _sent(receive: Connection) -> int | None:
    try:
        return int(receive.recv()) if receive.poll() else None
    except EOFError:
        return None


async def test_a_fire_killed_anywhere_leaves_all_or_none(
    db: Database, database_url: str, settings: Settings, clock: Clock
) -> None:
    schedule_id = await due_schedule(db, settings, clock)
    point, died_before, died_after = 0, 0, 0
    while True:
        async with db.begin() as conn:
            for table in ("tasks", "runs", "principal_days"):
                await conn.execute(text(f"DELETE FROM {table}"))
            await conn.execute(text("DELETE FROM conversations WHERE parent_id IS NOT NULL"))
            await conn.execute(
                text(
                    "UPDATE schedules SET next_fire_at = '2026-05-01T00:05:00Z', accounted_until = NULL,"
                    " runs_admitted = 0"
                )
            )
        code, points = await kill(actions.fire_and_die, database_url, point)
        if points is not None:
            assert code == 0
            break
        assert code == -9
        async with db.begin() as conn:  # waits until PostgreSQL has noticed the death
            await conn.execute(text("SELECT FROM schedules WHERE id = :id FOR UPDATE"), {"id": schedule_id})
        [state] = await rows(
            db,
            "SELECT (SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM tasks) AS tasks,"
            " (SELECT count(*) FROM conversations WHERE parent_id IS NOT NULL) AS forks,"
            " (SELECT coalesce(sum(runs), 0) FROM principal_days) AS spent, runs_admitted,"
            " next_fire_at > '2026-05-01T00:05:00Z' AS moved FROM schedules",
        )
        assert tuple(state) in ((0, 0, 0, 0, 0, False), (1, 1, 1, 1, 1, True)), f"torn at point {point}"
        died_before += not state.moved
        died_after += state.moved
        await fire.fire_due(db, settings)
        assert len(await rows(db, "SELECT 1 FROM runs")) == 1
        point += 1
    assert died_before > 8, "hardly any statement was hit"
    assert died_after > 0, "it never died behind the COMMIT"


async def test_a_finish_that_starts_the_next_run_killed_anywhere_leaves_all_or_none(
    db: Database, database_url: str, settings: Settings, clock: Clock
) -> None:
    await due_schedule(db, settings, clock, overlap="queue", queue_limit=None)
    died_before = died_after = point = 0
    while True:
        task = await one_running_one_waiting(db, settings, clock)
        code, points = await kill(actions.finish_and_die, database_url, task.id, task.fence, point)
        if points is not None:
            assert code == 0
            break
        assert code == -9
        async with db.begin() as conn:  # waits until PostgreSQL has noticed the death
            await conn.execute(text("SELECT FROM schedules FOR UPDATE"))
        [state] = await rows(
            db,
            f"""SELECT (SELECT status FROM runs WHERE id = {task.run_id}) AS run,
                (SELECT status FROM tasks WHERE id = {task.id}) AS task,
                (SELECT count(*) FROM entries WHERE task_id = {task.id}) AS entries,
                (SELECT active_task_id IS NULL FROM conversations WHERE id = {task.conversation_id}) AS idle,
                (SELECT status FROM runs WHERE id > {task.run_id} ORDER BY id LIMIT 1) AS next,
                (SELECT count(*) FROM tasks WHERE run_id > {task.run_id}) AS next_tasks""",
        )
        assert tuple(state) in (
            ("running", "running", 0, False, "queued", 0),
            ("completed", "completed", 2, True, "pending", 1),
        ), f"torn at point {point}"
        died_before += state.run == "running"
        died_after += state.run == "completed"
        point += 1
    assert died_before > 8, "hardly any statement was hit"
    assert died_after > 0, "it never died behind the COMMIT"


async def one_running_one_waiting(db: Database, settings: Settings, clock: Clock) -> Claimed:
    """Begin with a run that a worker holds and one in line behind it."""
    async with db.begin() as conn:
        await conn.execute(text("UPDATE conversations SET active_task_id = NULL"))
        for table in ("entries", "tasks", "runs"):
            await conn.execute(text(f"DELETE FROM {table}"))
    await fire.fire_due(db, settings)
    [task] = await claim.claim(db, settings, worker="w", harnesses=[people.HARNESS], max_tasks=1)
    await clock.step(minutes=5)
    await fire.fire_due(db, settings)
    await clock.step(minutes=5)
    return task
