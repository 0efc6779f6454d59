"""The key of an occurrence: the same for the same slot, whoever works it out (DESIGN §5)."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.occurrence_keys import hook_key, manual_key, slot_key
from agentsched.core.zones import zone
from tests.core.expressions import bounded

MINUTES = st.integers(0, 60 * 24 * 365 * 130).map(lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=n))


def test_the_key_of_a_slot() -> None:
    assert slot_key(datetime(2026, 5, 1, 9, 5, tzinfo=UTC)) == "slot:2026-05-01T09:05:00Z"


@pytest.mark.parametrize(("fold", "key"), [(0, "slot:2026-10-25T00:30:00Z"), (1, "slot:2026-10-25T01:30:00Z")])
def test_both_passes_of_a_repeated_hour_have_keys_of_their_own(fold: int, key: str) -> None:
    assert slot_key(datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=zone("Europe/Berlin"))) == key


@bounded(100)
@given(MINUTES, st.integers(-12 * 60, 14 * 60))
def test_one_instant_has_one_key_in_every_zone(instant: datetime, offset: int) -> None:
    elsewhere = instant.astimezone(timezone(timedelta(minutes=offset)))
    assert slot_key(elsewhere) == slot_key(instant)


@bounded(100)
@given(MINUTES, MINUTES)
def test_keys_sort_as_slots_do_and_collide_never(one: datetime, other: datetime) -> None:
    assert (slot_key(one) < slot_key(other)) == (one < other)


def test_the_key_of_a_manual_run_is_that_of_its_request() -> None:
    assert manual_key("3f2a") == "manual:3f2a"
    assert manual_key("slot:2026-05-01T09:05:00Z") != slot_key(datetime(2026, 5, 1, 9, 5, tzinfo=UTC))


def test_the_key_of_a_delivery_is_its_id() -> None:
    assert hook_key(7) == "hook:7"
