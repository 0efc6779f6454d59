"""How far away an instant is, in words."""

from datetime import datetime, timedelta

import pytest

from agentsched.core.relative_time import relative

NOW = datetime.fromisoformat("2026-10-24T16:00:00Z")


@pytest.mark.parametrize(
    ("away", "words"),
    [
        ({"seconds": 20}, "now"),
        ({"seconds": 40}, "in 1 minute"),
        ({"minutes": 20}, "in 20 minutes"),
        ({"hours": 1}, "in 1 hour"),
        ({"hours": 15}, "in 15 hours"),
        ({"hours": 24}, "in 1 day"),
        ({"days": 2}, "in 2 days"),
        ({"days": 60}, "in 60 days"),
        ({"days": 61}, "in about 2 months"),
        ({"days": 365}, "in about 12 months"),
        ({"days": 730}, "in about 2 years"),
        ({"minutes": -5}, "5 minutes ago"),
        ({"hours": -3}, "3 hours ago"),
        ({"days": -3}, "3 days ago"),
    ],
)
def test_words(away: dict[str, int], words: str) -> None:
    assert relative(NOW + timedelta(**away), NOW, "UTC") == words


def test_days_are_those_of_the_zones_calendar() -> None:
    friday_evening = datetime.fromisoformat("2026-05-01T18:00:00Z")
    monday_morning = datetime.fromisoformat("2026-05-04T07:00:00Z")
    assert relative(monday_morning, friday_evening, "UTC") == "in 3 days"
    assert relative(monday_morning, friday_evening, "Pacific/Auckland") == "in 2 days"


def test_a_day_of_25_hours_is_no_zero_days() -> None:
    start = datetime.fromisoformat("2026-10-25T00:10:00+02:00")
    assert relative(start + timedelta(hours=24), start, "Europe/Berlin") == "in 1 day"
