"""The sentence that says why a run did not run (DESIGN §7)."""

from datetime import datetime

import pytest

from agentsched.core.reasons import Holder, overlap_text, reason_text
from agentsched.core.words import Reason, RunStatus
from tests.core.oracle import utc

NOW = utc("2026-05-01T09:15:00")


def running(run_id: int = 41, *, since: str = "2026-05-01T09:00:02", heard: str = "2026-05-01T09:14:57") -> Holder:
    return Holder(run_id, RunStatus.RUNNING, utc(since), "w-2", utc(heard))


def text(holder: Holder, *, slots: int = 1, timezone: str = "UTC", now: datetime = NOW) -> str:
    return overlap_text(holder, slots=slots, timezone=timezone, now=now)


def test_who_holds_the_only_slot() -> None:
    expected = "skipped: run 41 has held the only slot since 09:00 (worker w-2, last heard 3 s ago)"
    assert text(running()) == expected


@pytest.mark.parametrize("slots", [2, 3])
def test_one_of_several_slots(slots: int) -> None:
    expected = f"skipped: run 7 has held one of the {slots} slots since 09:00 (worker w-2, last heard 3 s ago)"
    assert text(running(7), slots=slots) == expected


@pytest.mark.parametrize(
    ("zone", "since"),
    [
        ("Europe/Berlin", "11:00"),
        ("Asia/Kathmandu", "14:45"),
        ("America/New_York", "05:00"),
        ("Pacific/Auckland", "21:00"),
    ],
)
def test_the_time_is_that_of_the_schedule(zone: str, since: str) -> None:
    assert f"since {since} (" in text(running(), timezone=zone)


@pytest.mark.parametrize(
    ("since", "zone", "shown"),
    [
        ("2026-04-30T09:00", "UTC", "2026-04-30 09:00"),
        ("2026-04-30T23:59", "UTC", "2026-04-30 23:59"),
        ("2026-05-01T00:00", "UTC", "00:00"),
        # Today in Berlin already, while it was yesterday in UTC, and the other way round in New York.
        ("2026-04-30T22:00", "Europe/Berlin", "00:00"),
        ("2026-05-01T03:59", "America/New_York", "2026-04-30 23:59"),
    ],
)
def test_a_slot_held_since_another_day_says_which(since: str, zone: str, shown: str) -> None:
    assert f"since {shown} (" in text(running(since=since), timezone=zone)


@pytest.mark.parametrize(
    ("heard", "ago"),
    [
        ("2026-05-01T09:15:00", 0),
        ("2026-05-01T09:14:59.6", 0),
        ("2026-05-01T09:14:59.4", 1),
        ("2026-05-01T09:14:31", 29),
        ("2026-05-01T08:15:00", 3600),
        # The heartbeat came while the fire waited for its lock, after `now` was taken.
        ("2026-05-01T09:15:01", 0),
    ],
)
def test_how_long_ago_it_was_heard(heard: str, ago: int) -> None:
    assert text(running(heard=heard)).endswith(f"(worker w-2, last heard {ago} s ago)")


@pytest.mark.parametrize(
    ("status", "who"),
    [(RunStatus.PENDING, "no worker has taken it yet"), (RunStatus.RETRY_WAIT, "waiting for its next attempt")],
)
def test_a_holder_without_a_worker(status: RunStatus, who: str) -> None:
    holder = Holder(41, status, utc("2026-05-01T09:00"), None, None)
    assert text(holder) == f"skipped: run 41 has held the only slot since 09:00 ({who})"


MISSED = {Reason.MISFIRE, Reason.STRANDED, Reason.NOT_STARTED}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_sentence_with_the_outcome_in_front(reason: Reason) -> None:
    outcome, _, why = reason_text(reason).partition(": ")
    assert outcome == ("missed" if reason in MISSED else "skipped")
    assert len(why.split()) >= 4
    assert not why.endswith(".")
    assert "_" not in why


def test_no_two_reasons_read_alike() -> None:
    assert len({reason_text(reason) for reason in Reason}) == len(Reason)


def test_what_is_known_of_the_case_replaces_the_general_half() -> None:
    known = "no worker serves the harness `crew`"
    assert reason_text(Reason.NOT_STARTED, detail=known) == "missed: no worker serves the harness `crew`"
