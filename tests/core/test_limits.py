"""How long an attempt may take (DESIGN §9)."""

from datetime import UTC, datetime, timedelta

import pytest

from agentsched.core.limits import DEFAULT_TIMEOUT_SECONDS, attempt_timeout
from agentsched.core.timing import Kind, Timing, build_timing
from tests.core.oracle import utc

NOW = utc("2026-05-01T00:00:30")
HOUR = 3600


def cron(expression: str, zone: str = "UTC") -> Timing:
    return build_timing(cron=expression, timezone=zone, now=NOW)


TIMINGS = [
    cron("0 * * * *"),
    build_timing(every="15m", timezone="UTC", now=NOW),
    build_timing(in_="20m", timezone="UTC", now=NOW),
    build_timing(webhook=True, timezone="UTC", now=NOW),
]


def test_half_an_hour_unless_given() -> None:
    assert DEFAULT_TIMEOUT_SECONDS == 1800


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("seconds", [1, 1800, 31_536_000])
def test_as_given(timing: Timing, seconds: int) -> None:
    assert attempt_timeout(seconds, timing, utc("2026-05-01T01:00")) == seconds


@pytest.mark.parametrize(
    ("timing", "fire_at", "expected"),
    [
        (cron("0 * * * *"), "2026-05-01T01:00", 5 * HOUR),
        (cron("*/5 * * * *"), "2026-05-01T01:05", 25 * 60),
        # Where periods differ it is that of the slot: from Friday to Monday, from Monday to Tuesday.
        (cron("0 9 * * 1-5"), "2026-05-01T09:00", 5 * 72 * HOUR),
        (cron("0 9 * * 1-5"), "2026-05-04T09:00", 5 * 24 * HOUR),
        # The day on which the clocks of Berlin go forward has 23 hours.
        (cron("0 9 * * *", "Europe/Berlin"), "2026-03-28T08:00", 5 * 23 * HOUR),
        (build_timing(every="15m", timezone="UTC", now=NOW), "2026-05-01T00:15", 75 * 60),
    ],
)
def test_zero_is_five_times_the_period(timing: Timing, fire_at: str, expected: int) -> None:
    assert attempt_timeout(0, timing, utc(fire_at)) == expected


@pytest.mark.parametrize("minutes", [1, 30, 59])
def test_zero_is_five_periods_for_a_run_between_two_slots_too(minutes: int) -> None:
    """A manual run fires at the minute of its acceptance: a minute before nine it may take as long as at nine."""
    fire_at = utc("2026-05-01T09:00") - timedelta(minutes=minutes)
    assert attempt_timeout(0, cron("0 9 * * *"), fire_at) == 5 * 24 * HOUR
    assert attempt_timeout(0, build_timing(every="1h", timezone="UTC", now=NOW), fire_at) == 5 * HOUR


@pytest.mark.parametrize(
    "timing",
    [
        Timing(Kind.WEBHOOK, None, None, None, None, "UTC"),
        Timing(Kind.ONCE, None, None, None, utc("2026-05-01T09:00"), "UTC"),
    ],
)
@pytest.mark.parametrize("fire_at", ["2026-05-01T08:59", "2026-05-01T09:00", "2026-05-01T09:01"])
def test_zero_is_half_an_hour_where_there_is_no_period(timing: Timing, fire_at: str) -> None:
    assert attempt_timeout(0, timing, utc(fire_at)) == 1800


def test_zero_fits_the_database_for_the_longest_period() -> None:
    """29 February on a Sunday comes after 40 years; five times that is more seconds than an integer column holds."""
    leap_sunday = datetime(2088, 2, 29, tzinfo=UTC)
    assert attempt_timeout(0, cron("0 0 29 2 */7"), leap_sunday) == 2**31 - 1
