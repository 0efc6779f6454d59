"""The Gregorian calendar as cron sees it: it repeats every 400 years, which is a whole number of weeks."""

from calendar import isleap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_YEARS = range(2000, 2400)
_DAYS_IN_CYCLE = 146_097
_MINUTES_IN_DAY = 24 * 60

DaysOf = Callable[[int, int], int]
"""(year, month) → the days of that month that match, as a mask: bit n stands for day n."""


@dataclass(frozen=True)
class Gap:
    """The distance of two neighbouring slots, and their times of day in minutes since midnight."""

    minutes: int
    first: int
    second: int


def days_in_month(year: int, month: int) -> int:
    """How many days this month has."""
    return _LENGTHS[month] + (month == 2 and isleap(year))


def smallest_gap(times: Sequence[int], days_of: DaysOf) -> Gap | None:
    """The smallest gap between slots at these ascending times of the days that match; None if no day does.

    Over the whole cycle, on the wall clock: changes of the clocks are not counted.
    """
    days = _smallest_distance(days_of)
    if days is None:
        return None
    within = [Gap(later - earlier, earlier, later) for earlier, later in pairwise(times)]
    across = Gap(days * _MINUTES_IN_DAY - (times[-1] - times[0]), times[-1], times[0])
    return min([*within, across], key=lambda gap: gap.minutes)


def _smallest_distance(days_of: DaysOf) -> int | None:
    """The smallest distance in days between two days that match; None if none ever does."""
    by_kind: dict[tuple[int, bool], list[int]] = {}
    smallest: int | None = None
    first = previous = None
    for year in _YEARS:
        new_year = date(year, 1, 1).toordinal()
        # There are only 14 kinds of years, so the days are looked up once for each.
        kind = (new_year % 7, isleap(year))
        days = by_kind.get(kind)
        if days is None:
            days = by_kind[kind] = _days_of_year(year, days_of)
            inside = [later - earlier for earlier, later in pairwise(days)]
            smallest = min([*inside, smallest]) if smallest is not None else min(inside, default=None)
        if not days:
            continue
        if previous is None:
            first = new_year + days[0]
        else:
            distance = new_year + days[0] - previous
            smallest = distance if smallest is None else min(smallest, distance)
        previous = new_year + days[-1]
    if first is None or previous is None:
        return None
    around = first + _DAYS_IN_CYCLE - previous
    return around if smallest is None else min(smallest, around)


def _days_of_year(year: int, days_of: DaysOf) -> list[int]:
    """The days that match, counted from the first of January."""
    found = []
    start = 0
    for month in range(1, 13):
        mask = days_of(year, month)
        length = days_in_month(year, month)
        found += [start + day - 1 for day in range(1, length + 1) if mask >> day & 1]
        start += length
    return found
