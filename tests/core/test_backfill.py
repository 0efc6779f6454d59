"""Which slots a backfill runs, and how many it may have."""

from datetime import datetime, timedelta

import pytest

from agentsched.core.backfill import qualifying, refusal, runs_again
from agentsched.core.occurrence_keys import backfill_key
from agentsched.core.words import Reprocess, RunStatus
from tests.clock import at

S = RunStatus
NINE = at("2026-05-01T09:00:00Z")


@pytest.mark.parametrize(
    ("had", "missing", "failed"),
    [
        ([], True, False),
        ([S.SKIPPED], True, False),
        ([S.MISSED], True, False),
        ([S.CANCELLED], True, False),
        ([S.ABANDONED], True, False),
        ([S.SKIPPED, S.MISSED, S.CANCELLED, S.ABANDONED], True, False),
        ([S.COMPLETED], False, False),
        ([S.FAILED], False, True),
        ([S.QUEUED], False, False),
        ([S.PENDING], False, False),
        ([S.RUNNING], False, False),
        ([S.RETRY_WAIT], False, False),
        ([S.SKIPPED, S.COMPLETED], False, False),
        ([S.FAILED, S.SKIPPED], False, True),
        ([S.FAILED, S.CANCELLED, S.ABANDONED], False, True),
        ([S.FAILED, S.COMPLETED], False, False),
        ([S.FAILED, S.QUEUED], False, False),
        ([S.FAILED, S.PENDING], False, False),
        ([S.FAILED, S.RUNNING], False, False),
        ([S.FAILED, S.RETRY_WAIT], False, False),
    ],
)
def test_a_slot_by_the_runs_that_it_had(had: list[RunStatus], missing: bool, failed: bool) -> None:
    assert runs_again(had, Reprocess.MISSING) is missing
    assert runs_again(had, Reprocess.FAILED) is failed
    assert runs_again(had, Reprocess.ALL)


def test_every_status_says_whether_its_slot_is_missing() -> None:
    assert {status for status in RunStatus if runs_again([status], Reprocess.MISSING)} == {
        S.SKIPPED,
        S.MISSED,
        S.CANCELLED,
        S.ABANDONED,
    }


def test_what_qualifies_stays_in_order_and_a_missed_stretch_takes_no_slot_away() -> None:
    slots = [NINE + timedelta(hours=hour) for hour in range(5)]
    had = {slots[0]: [S.COMPLETED], slots[1]: [S.MISSED], slots[4]: [S.FAILED]}
    assert qualifying(slots, had, Reprocess.MISSING) == slots[1:4]
    assert qualifying(slots, had, Reprocess.FAILED) == slots[4:]
    assert qualifying(slots, had, Reprocess.ALL) == slots


@pytest.mark.parametrize(
    ("count", "cap", "confirmed", "code"),
    [
        (0, 1000, False, None),
        (25, 1000, False, None),
        (26, 1000, False, "confirmation_required"),
        (26, 1000, True, None),
        (1000, 1000, True, None),
        (1001, 1000, True, "too_many_slots"),
        (1001, 1000, False, "too_many_slots"),
        (1001, 1001, True, None),
        (11, 10, False, "too_many_slots"),
    ],
)
def test_how_many_slots_are_refused(count: int, cap: int, confirmed: bool, code: str | None) -> None:
    assert refusal(count, cap=cap, confirmed=confirmed) == code


@pytest.mark.parametrize("instant", [NINE, datetime.fromisoformat("2026-05-01T11:00:00+02:00")])
def test_the_key_names_the_backfill_and_the_slot_in_utc(instant: datetime) -> None:
    assert backfill_key(7, instant) == "backfill:7:2026-05-01T09:00:00Z"
