"""Numbers that bound what a schedule may do."""

from datetime import datetime

from agentsched.core.timing import Timing, next_occurrence

DEFAULT_TIMEOUT_SECONDS = 1800
PERIODS_OF_A_TIMEOUT = 5


def attempt_timeout(timeout_seconds: int, timing: Timing, fire_at: datetime) -> int:
    """Seconds an attempt may take: as given, or for 0 five times the period; without a period 1,800 (DESIGN §9)."""
    if timeout_seconds > 0:
        return timeout_seconds
    following = next_occurrence(timing, fire_at)
    if following is None:
        return DEFAULT_TIMEOUT_SECONDS
    return PERIODS_OF_A_TIMEOUT * int((following - fire_at).total_seconds())
