"""The shared conformance scenarios: events in, ledger out."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.clock import Clock
from tests.conformance.scenarios import Scenario

pytestmark = pytest.mark.anyio

BESIDE_THE_CHECKOUT = Path(__file__).parents[3] / "shared" / "conformance"
FILE = Path(os.environ.get("AGENTSCHED_CONFORMANCE", BESIDE_THE_CHECKOUT)) / "scenarios.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []


def test_the_cases_are_there() -> None:
    assert len(CASES) == 57, (
        f"expected the conformance scenarios in {FILE}; AGENTSCHED_CONFORMANCE names their directory"
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
async def test_scenario(case: dict[str, Any], db: Database, settings: Settings, clock: Clock) -> None:
    scenario = Scenario(db, settings, clock)
    await scenario.begin(case)
    for step in case["steps"]:
        await scenario.step(step)
    await scenario.check(case)
