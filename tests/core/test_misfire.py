"""Late slots by policy: what runs, what is missed, in one stretch (DESIGN §8)."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.misfire import DEFAULT_GRACE_SECONDS, Sorted, Stretch, is_late, sort_due
from agentsched.core.words import Misfire
from tests.core.expressions import bounded
from tests.core.oracle import utc

SLOT = utc("2026-05-01T01:00")
HOUR = timedelta(hours=1)


def hourly(count: int) -> list[datetime]:
    return [SLOT + HOUR * number for number in range(count)]


def sort(slots: list[datetime], misfire: Misfire, now: str, *, grace: int = 120, keep: int = 1000) -> Sorted:
    return sort_due(slots, misfire=misfire, now=utc(now), grace_seconds=grace, keep=keep)


@pytest.mark.parametrize(
    ("now", "grace", "late"),
    [
        ("2026-05-01T01:00", 120, False),
        ("2026-05-01T01:02", 120, False),
        ("2026-05-01T01:02:59.999999", 120, False),
        ("2026-05-01T01:03", 120, True),
        ("2026-05-01T01:00:59", 0, False),
        ("2026-05-01T01:01", 0, True),
        ("2026-05-01T01:01:59", 60, False),
        ("2026-05-01T01:01", 59, True),
        ("2026-05-01T00:59:30", 0, False),
        ("2026-05-02T01:00", 86_400, False),
        ("2026-05-02T01:01", 86_400, True),
    ],
)
def test_lateness_counts_whole_minutes_and_the_grace_is_inclusive(now: str, grace: int, late: bool) -> None:
    assert is_late(SLOT, utc(now), grace) is late


def test_the_grace_is_two_minutes_unless_given() -> None:
    assert DEFAULT_GRACE_SECONDS == 120


@pytest.mark.parametrize("misfire", list(Misfire))
def test_slots_on_time_are_left_to_the_overlap_policy(misfire: Misfire) -> None:
    slots = [SLOT, SLOT + timedelta(minutes=1), SLOT + timedelta(minutes=2)]
    assert sort(slots, misfire, "2026-05-01T01:02:30", keep=1) == Sorted(None, (), tuple(slots))


@pytest.mark.parametrize("misfire", list(Misfire))
def test_nothing_is_due(misfire: Misfire) -> None:
    assert sort([], misfire, "2026-05-01T01:00") == Sorted(None, (), ())


class TestSkip:
    def test_one_late_slot_is_missed(self) -> None:
        assert sort([SLOT], Misfire.SKIP, "2026-05-01T01:03") == Sorted(Stretch(SLOT, SLOT, 1), (), ())

    def test_late_slots_are_one_stretch_and_those_on_time_stay(self) -> None:
        *late, punctual = hourly(5)
        expected = Sorted(Stretch(late[0], late[-1], 4), (), (punctual,))
        assert sort([*late, punctual], Misfire.SKIP, "2026-05-01T05:01") == expected

    def test_several_on_time_after_late_ones(self) -> None:
        slots = [SLOT + timedelta(minutes=5) * number for number in range(5)]
        got = sort(slots, Misfire.SKIP, "2026-05-01T01:20", grace=600)
        assert got == Sorted(Stretch(slots[0], slots[1], 2), (), tuple(slots[2:]))


class TestLatest:
    def test_the_newest_runs_and_the_older_are_missed(self) -> None:
        *older, newest = hourly(4)
        expected = Sorted(Stretch(older[0], older[-1], 3), (), (newest,))
        assert sort([*older, newest], Misfire.LATEST, "2026-05-01T04:30") == expected

    def test_a_single_late_slot_runs(self) -> None:
        assert sort([SLOT], Misfire.LATEST, "2026-05-01T09:00") == Sorted(None, (), (SLOT,))

    def test_one_late_slot_has_the_punctual_ones_judged_with_it(self) -> None:
        slots = [SLOT + timedelta(minutes=5) * number for number in range(4)]
        got = sort(slots, Misfire.LATEST, "2026-05-01T01:15", grace=600)
        assert got == Sorted(Stretch(slots[0], slots[2], 3), (), (slots[3],))


class TestAll:
    def test_every_slot_runs_in_order_the_punctual_ones_too(self) -> None:
        slots = hourly(3)
        assert sort(slots, Misfire.ALL, "2026-05-01T03:01") == Sorted(None, tuple(slots), ())

    @pytest.mark.parametrize(("due", "keep", "missed"), [(5, 3, 2), (4, 3, 1), (3, 3, 0), (2, 3, 0), (5, 1, 4)])
    def test_the_newest_are_kept_and_the_older_rest_is_one_stretch(self, due: int, keep: int, missed: int) -> None:
        slots = hourly(due)
        stretch = Stretch(slots[0], slots[missed - 1], missed) if missed else None
        got = sort(slots, Misfire.ALL, "2026-05-01T09:30", keep=keep)
        assert got == Sorted(stretch, tuple(slots[missed:]), ())


def test_slots_are_walked_one_by_one() -> None:
    """So that however long an outage was, only what runs is held in memory."""
    walked = 0

    def slots() -> Iterator[datetime]:
        nonlocal walked
        for slot in hourly(1000):
            walked += 1
            yield slot

    got = sort_due(slots(), misfire=Misfire.ALL, now=utc("2027-05-01T00:00"), grace_seconds=120, keep=2)
    assert walked == 1000
    assert got == Sorted(Stretch(SLOT, SLOT + HOUR * 997, 998), tuple(hourly(1000)[998:]), ())


@bounded(150)
@given(
    gaps=st.lists(st.integers(1, 90), min_size=1, max_size=20),
    late=st.integers(0, 600),
    grace=st.integers(0, 30_000),
    keep=st.integers(1, 6),
    misfire=st.sampled_from(Misfire),
)
def test_every_slot_goes_to_exactly_one_place(
    gaps: list[int], late: int, grace: int, keep: int, misfire: Misfire
) -> None:
    slots = [SLOT + timedelta(minutes=sum(gaps[:number])) for number in range(1, len(gaps) + 1)]
    now = slots[-1] + timedelta(minutes=late, seconds=17)
    got = sort_due(iter(slots), misfire=misfire, now=now, grace_seconds=grace, keep=keep)

    missed = got.missed.count if got.missed else 0
    assert [*slots[:missed], *got.overdue, *got.on_time] == slots
    assert got.missed is None or (got.missed.first, got.missed.last) == (slots[0], slots[missed - 1])

    too_late = [slot for slot in slots if now - slot > timedelta(seconds=grace + 17)]
    expected = {
        Misfire.SKIP: (len(too_late), 0, len(slots) - len(too_late)),
        Misfire.LATEST: (len(slots) - 1, 0, 1),
        Misfire.ALL: (max(0, len(slots) - keep), min(keep, len(slots)), 0),
    }
    split = (missed, len(got.overdue), len(got.on_time))
    assert split == (expected[misfire] if too_late else (0, 0, len(slots)))
