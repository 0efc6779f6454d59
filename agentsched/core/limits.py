"""Numbers that bound what a schedule may do."""

from datetime import datetime, timedelta

from agentsched.core.timing import Timing, next_occurrence

DEFAULT_TIMEOUT_SECONDS = 1800
PERIODS_OF_A_TIMEOUT = 5
LONGEST_TIMEOUT_SECONDS = 2**31 - 1
"""What an integer column holds; five times the period of `0 0 29 2 */7` is more."""


def attempt_timeout(timeout_seconds: int, timing: Timing, fire_at: datetime) -> int:
    """Seconds an attempt may take: as given, or for 0 five times the period; without a period 1,800 (DESIGN §9).

    The period is the time between the first slot at or after the minute ``fire_at`` and the one that follows it: a
    manual run fires between two slots, and the rest until the next one says nothing about how long it may take.
    """
    if timeout_seconds > 0:
        return timeout_seconds
    slot = next_occurrence(timing, fire_at - timedelta(minutes=1))
    following = None if slot is None else next_occurrence(timing, slot)
    if slot is None or following is None:
        return DEFAULT_TIMEOUT_SECONDS
    return min(PERIODS_OF_A_TIMEOUT * int((following - slot).total_seconds()), LONGEST_TIMEOUT_SECONDS)
