"""The simulation foretells the real ledger, slot by slot: the same schedule is simulated and then lived."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from agentsched.core.simulation import SimulatedRun
from agentsched.core.uptime import Down
from agentsched.service import schedules, simulate
from agentsched.service.requests import Supposition
from agentsched.settings import Settings
from agentsched.store import ledger
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from tests import people
from tests.clock import Clock, at
from tests.service.world import World

pytestmark = pytest.mark.anyio

START = at("2026-05-01T00:00:00Z")
OUTAGE = ("2026-05-01T00:11:20Z", "2026-05-01T00:34:00Z")
"""Two slots are in line when it begins, and it is longer than twice the period of five minutes."""

Foretold = tuple[Any, ...]


def foretold(run: SimulatedRun) -> Foretold:
    worked = run.started_at is not None
    return (
        *(_clock(run.fire_at), run.status.value, run.reason and run.reason.value, _clock(run.missed_until)),
        *(run.missed_count, _clock(run.started_at), _clock(run.ended_at)),
        *((run.attempts, run.restarts, run.error_code) if worked else ()),
    )


def lived(row: RunRow) -> Foretold:
    worked = row.started_at is not None
    return (
        *(_clock(row.fire_at), row.status, row.reason, _clock(row.missed_until)),
        *(row.missed_count, _clock(row.started_at), _clock(row.finished_at)),
        *((row.attempt, row.restarts, row.error_code) if worked else ()),
    )


def _clock(instant: datetime | None) -> str | None:
    return None if instant is None else f"{instant:%H:%M:%S}"


CASES: dict[str, dict[str, Any]] = {
    "skip-two-slots": {"overlap": "skip", "max_concurrency": 2, "run": 720},
    "queue": {"overlap": "queue", "queue_limit": 2, "run": 720},
    "queue-latest": {"overlap": "queue_latest", "run": 720},
    "replace-two-slots": {"overlap": "replace", "max_concurrency": 2, "run": 720, "stop": 10},
    "replace-who-does-not-stop": {"overlap": "replace", "cancel_grace_seconds": 45, "run": 720, "stop": 3600},
    "allow-two-slots": {"overlap": "allow", "max_concurrency": 2, "run": 720},
    "retry": {"overlap": "queue", "retry": {"max_attempts": 3}, "run": 100, "fails_every": 2},
    "retry-and-replace": {
        "overlap": "replace",
        "retry": {"max_attempts": 2, "initial_delay_seconds": 400},
        "run": 100,
        "fails_every": 2,
    },
    "failures-pause": {"overlap": "queue", "run": 400, "fails_every": 1},
    "timeout": {"overlap": "queue", "timeout_seconds": 500, "retry": {"max_attempts": 2}, "run": 600},
    "daily-run-limit": {"overlap": "skip", "daily_run_limit": 3, "run": 60},
    "down-queue-skip": {"overlap": "queue", "misfire": "skip", "run": 720, "down": OUTAGE},
    "down-queue-skip-shorter": {
        "overlap": "queue",
        "misfire": "skip",
        "run": 720,
        "down": ("2026-05-01T00:11:20Z", "2026-05-01T00:20:00Z"),
    },
    "down-skip-all": {"overlap": "skip", "misfire": "all", "run": 400, "down": OUTAGE},
    "down-retries": {"overlap": "queue", "retry": {"max_attempts": 2}, "run": 720, "down": OUTAGE},
    "down-replace": {"overlap": "replace", "run": 720, "stop": 120, "down": OUTAGE},
    "down-while-a-retry-waits": {
        "overlap": "skip",
        "retry": {"max_attempts": 2, "initial_delay_seconds": 120},
        "run": 60,
        "fails_every": 1,
        "down": ("2026-05-01T00:06:30Z", "2026-05-01T00:34:00Z"),
    },
    "down-within-the-lease": {
        "overlap": "skip",
        "run": 200,
        "down": ("2026-05-01T00:06:50Z", "2026-05-01T00:07:00Z"),
    },
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
async def test_what_is_foretold_happens(case: dict[str, Any], db: Database, settings: Settings, clock: Clock) -> None:
    policies = dict(case)
    run, stop, fails = policies.pop("run"), policies.pop("stop", 5), policies.pop("fails_every", 0)
    down = policies.pop("down", None)
    span = 40
    await clock.freeze(START)
    caller = await people.somebody(db)
    owner = await people.conversation(db, settings, caller)
    schedule = await people.schedule(db, settings, caller, owner, timezone="UTC", **policies)
    supposed = Supposition(
        span=f"{span}m",
        run_seconds=run,
        stop_seconds=stop,
        fails_every=fails,
        down=[] if down is None else [{"from": down[0], "until": down[1]}],
    )

    simulation = (await simulate.simulate_saved(db, settings, caller, schedule.id, supposed)).simulation
    world = World(db, settings, clock, run, stop, fails, None if down is None else Down(*map(at, down)))
    await world.live(START, START + timedelta(minutes=span))

    async with db.begin() as conn:
        rows = await ledger.list_page(
            conn,
            caller.principal_id,
            schedule_id=schedule.id,
            conversation_id=None,
            statuses=None,
            ledger_order=True,
            after=None,
            limit=1000,
        )
    assert [lived(row) for row in rows] == [foretold(row) for row in simulation.runs]
    after = await schedules.get(db, caller, schedule.id)
    assert (after.status, after.next_fire_at, after.paused_at) == (
        simulation.status,
        simulation.next_fire_at,
        simulation.paused_at,
    )
