"""What waits in line when the service goes down is not run hours later (DESIGN §8)."""

from typing import Any

import pytest
from sqlalchemy import event, text

from agentsched.service import tick
from agentsched.settings import Settings
from agentsched.store import line
from agentsched.store.database import Database
from tests.clock import Clock
from tests.conformance.scenarios import Scenario, Step

pytestmark = pytest.mark.anyio


def step(at: str, do: str, **more: object) -> Step:
    return {"at": f"2026-05-01T{at}:00Z" if at.count(":") == 1 else f"2026-05-01T{at}Z", "do": do, **more}


def run(at: str) -> str:
    return f"2026-05-01T{at}:00Z"


BEFORE = [
    step("00:05", "tick"),
    step("00:05:01", "claim", worker="w1"),
    step("00:10", "tick"),
    step("00:15", "tick"),
]


async def play(
    db: Database, settings: Settings, clock: Clock, steps: list[Step], **fields: object
) -> list[tuple[str, str, str | None]]:
    """The first rows of the ledger of a schedule every five minutes with a line."""
    scenario = Scenario(db, settings, clock)
    await scenario.begin({"created_at": "2026-05-01T00:00:30Z", "schedule": {"overlap": "queue", **fields}})
    for each in steps:
        await scenario.step(each)
    return [(f"{row.fire_at:%H:%M}", row.status, row.reason) for row in await scenario.ledger()]


async def test_a_finish_before_the_first_tick_starts_nothing_that_is_stranded(
    db: Database, settings: Settings, clock: Clock
) -> None:
    steps = [*BEFORE, step("00:46", "complete", run=run("00:05"))]
    assert await play(db, settings, clock, steps) == [
        ("00:05", "completed", None),
        ("00:10", "missed", "stranded"),
        ("00:15", "missed", "stranded"),
    ]


async def test_a_line_is_written_off_while_its_slot_is_held_still(
    db: Database, settings: Settings, clock: Clock
) -> None:
    rows = await play(db, settings, clock, [*BEFORE, step("00:46", "tick")])
    assert rows[:3] == [("00:05", "running", None), ("00:10", "missed", "stranded"), ("00:15", "missed", "stranded")]
    async with db.begin() as conn:
        texts = set((await conn.execute(text("SELECT reason_text FROM runs WHERE reason = 'stranded'"))).scalars())
    assert texts == {
        "missed: it was still in line when the service was down from 00:15 to 00:46, longer than twice its period"
    }


async def test_the_sweep_writes_off_before_it_reaps(db: Database, settings: Settings, clock: Clock) -> None:
    steps = [*BEFORE, step("00:15:01", "lose_worker", worker="w1")]
    await play(db, settings, clock, steps)
    await clock.freeze("2026-05-01T00:46:03Z")
    await tick.sweep(db, settings)
    async with db.begin() as conn:
        rows = await conn.execute(text("SELECT status FROM runs ORDER BY fire_at"))
        assert list(rows.scalars()) == ["abandoned", "missed", "missed"]


async def test_an_outage_as_long_as_twice_the_period_strands_nothing(
    db: Database, settings: Settings, clock: Clock
) -> None:
    steps = [*BEFORE, step("00:25", "complete", run=run("00:05"))]
    rows = await play(db, settings, clock, steps)
    assert rows == [("00:05", "completed", None), ("00:10", "pending", None), ("00:15", "queued", None)]


async def test_a_deep_line_without_an_outage_is_kept_however_old(
    db: Database, settings: Settings, clock: Clock
) -> None:
    ticks = [step(f"{minute // 60:02}:{minute % 60:02}", "tick") for minute in range(16, 130)]
    rows = await play(db, settings, clock, [*BEFORE, *ticks, step("02:09:30", "complete", run=run("00:05"))])
    assert rows[:3] == [("00:05", "completed", None), ("00:10", "pending", None), ("00:15", "queued", None)]
    assert {status for _, status, _ in rows} == {"completed", "pending", "queued"}


async def test_without_an_outage_nobody_looks_at_each_run_of_a_line(
    db: Database, settings: Settings, clock: Clock
) -> None:
    walked: list[bool] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        walked.append(statement.startswith("\nSELECT r.id, r.fire_at, r.created_at"))

    assert line.READ_STRANDABLE.text.startswith("\nSELECT r.id, r.fire_at, r.created_at")
    engine = db.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        ticks = [step(f"00:{minute:02}", "tick") for minute in range(6, 16)]
        ended = step("00:15:30", "complete", run=run("00:05"))
        rows = await play(db, settings, clock, [*BEFORE[:2], *ticks, ended])
        assert rows[1][1] == "pending"
        assert not any(walked)
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize(
    ("window_seconds", "status"), [(60, "missed"), (599, "missed"), (600, "pending"), (86_400, "pending")]
)
async def test_the_window_replaces_twice_the_period(
    window_seconds: int, status: str, db: Database, settings: Settings, clock: Clock
) -> None:
    settings = settings.model_copy(update={"queue_adoption_window_seconds": window_seconds})
    rows = await play(db, settings, clock, [*BEFORE, step("00:25", "complete", run=run("00:05"))])
    assert rows[1][1] == status


@pytest.mark.parametrize("fields", [{"misfire": "latest"}, {"misfire": "all"}])
async def test_other_misfire_policies_run_what_waited(
    fields: dict[str, Any], db: Database, settings: Settings, clock: Clock
) -> None:
    rows = await play(db, settings, clock, [*BEFORE, step("00:46", "complete", run=run("00:05"))], **fields)
    assert rows[:3] == [("00:05", "completed", None), ("00:10", "pending", None), ("00:15", "queued", None)]


async def test_what_fires_in_the_tick_that_ends_the_outage_is_not_stranded_by_it(
    db: Database, settings: Settings, clock: Clock
) -> None:
    rows = await play(
        db,
        settings,
        clock,
        [
            *BEFORE,
            step("00:45", "tick"),
            step("00:46", "tick"),
            step("00:46:10", "complete", run=run("00:05")),
        ],
    )
    assert rows[-1] == ("00:45", "pending", None)
