"""The shared conformance cases for occurrences, refusals and smallest gaps."""

import json
import os
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from agentsched.core.cron import parse
from agentsched.core.problems import Refused
from agentsched.core.timing import Kind, Timing, build_timing, occurrences
from agentsched.core.zones import tzdata_version

Case = dict[str, Any]

BESIDE_THE_CHECKOUT = Path(__file__).parents[3] / "shared" / "conformance"
FILE = Path(os.environ.get("AGENTSCHED_CONFORMANCE", BESIDE_THE_CHECKOUT)) / "occurrences.json"
CASES: dict[str, list[Case]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
EXPECTED = {"next": 55, "range": 3, "span": 200, "refused": 28, "smallest_gap": 20}


# IANA 2026f withdrew the end of Cuba's summer time on 2026-11-01; these six cases were computed with it.
BEFORE_2026F = {"generated-26", "generated-31", "generated-42", "generated-109", "generated-146", "generated-165"}


def of_kind(kind: str) -> list[Any]:
    return [
        pytest.param(case, id=f"{case.get('id', kind)}-{case['cron'] or 'empty'}", marks=marks(case))
        for case in CASES.get(kind, [])
    ]


def marks(case: Case) -> list[pytest.MarkDecorator]:
    if case.get("id") not in BEFORE_2026F or tzdata_version() < "2026f":
        return []
    return [pytest.mark.xfail(strict=True, reason="computed before IANA 2026f changed America/Havana for 2026-11-01")]


def timing(case: Case) -> Timing:
    return Timing(
        kind=Kind.CRON,
        cron=case["cron"],
        every_minutes=None,
        anchor_at=None,
        at=None,
        timezone=case["timezone"],
    )


def instants(texts: list[str]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


def test_all_cases_are_there() -> None:
    assert CASES, (
        f"{FILE} does not exist: lay `shared/` beside the checkout, or name the folder that holds "
        "occurrences.json in AGENTSCHED_CONFORMANCE"
    )
    counts = {kind: len(CASES[kind]) for kind in EXPECTED}
    assert all(counts[kind] >= EXPECTED[kind] for kind in EXPECTED), counts


@pytest.mark.parametrize("case", of_kind("next"))
def test_next(case: Case) -> None:
    expected = instants(case["next"])
    after = datetime.fromisoformat(case["after"])
    assert list(islice(occurrences(timing(case), after), len(expected))) == expected


@pytest.mark.parametrize("case", of_kind("range"))
def test_range(case: Case) -> None:
    # Both ends belong to a range; occurrences are asked for after an instant.
    before_first = datetime.fromisoformat(case["first"]) - timedelta(minutes=1)
    slots = list(occurrences(timing(case), before_first, datetime.fromisoformat(case["last"])))
    if "slots" in case:
        assert slots == instants(case["slots"])
    if "count" in case:
        assert len(slots) == case["count"]


@pytest.mark.parametrize("case", of_kind("span"))
def test_span(case: Case) -> None:
    after, until = datetime.fromisoformat(case["after"]), datetime.fromisoformat(case["until"])
    assert list(occurrences(timing(case), after, until)) == instants(case["occurrences"])


@pytest.mark.parametrize("case", of_kind("refused"))
def test_refused(case: Case) -> None:
    with pytest.raises(Refused) as refused:
        build_timing(cron=case["cron"], timezone="UTC", now=datetime.fromisoformat("2026-01-01T00:00:00Z"))
    for problem in refused.value.problems:
        assert problem.code.startswith("cron_")
        assert problem.field == "cron"
        assert problem.fix


@pytest.mark.parametrize("case", of_kind("smallest_gap"))
def test_smallest_gap(case: Case) -> None:
    assert parse(case["cron"]).smallest_gap_minutes() == case["minutes"]
