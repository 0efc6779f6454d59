"""Cron expressions as sets of minutes, hours and days (DESIGN §3). The only user of croniter.

`cron_dialect` checks and normalises the expression, croniter expands what is left, and the walk over the
expanded sets is done here, on a naive calendar. What a slot means at a change of the clocks is `localtime`'s.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import MAXYEAR, date
from functools import lru_cache

from croniter import croniter

from agentsched.core.cron_cycle import Gap, days_in_month, smallest_gap
from agentsched.core.cron_dialect import normalise, starts_with_star
from agentsched.core.localtime import EPOCH_DAY, MINUTES_IN_DAY
from agentsched.core.problems import Problem, Refused

_LAST_DAY = date(MAXYEAR, 12, 31).toordinal() - EPOCH_DAY
_SHORTEST_MONTH = 28
_SATURDAY, _SUNDAY = 5, 6


@dataclass(frozen=True)
class Cron:
    """A checked expression, equal and hashed by its normalised form. Bit n of a mask stands for value n."""

    normalised: str
    minutes: int = field(compare=False, repr=False)
    hours: int = field(compare=False, repr=False)
    months: int = field(compare=False, repr=False)
    days: tuple[int, ...] = field(compare=False, repr=False)
    """The days of a month that match, by 4 x (weekday of its 1st, Monday = 0) + (its length - 28)."""

    times: "array[int]" = field(compare=False, repr=False)
    """The slots of a day that matches, in minutes since midnight, ascending."""
    elapsed: bool = field(compare=False, repr=False)
    """Whether it follows elapsed time when the clocks change: its minute or hour starts with `*`."""
    either_day: bool = field(compare=False, repr=False)
    """Whether both day fields are restricted, so that a day needs to match only one of them."""

    def smallest_gap_minutes(self) -> int:
        """The smallest distance of two slots over the whole cycle of the calendar, on the wall clock."""
        return self.smallest_gap().minutes

    def smallest_gap(self) -> Gap:
        """The same distance, with the times of day of the two slots."""
        gap = _gap(self)
        if gap is None:
            raise ValueError(f"{self.normalised} never occurs, which parse refuses")
        return gap

    def days_of(self, year: int, month: int) -> int:
        """The days of that month that match, as a mask."""
        return self._days_of(month, date(year, month, 1).weekday(), days_in_month(year, month))

    def walls(self, first: int, before: int) -> Iterator[int]:
        """Every slot in [first, before) on the wall clock, ascending, in minutes since 1970-01-01 00:00."""
        day, minute = divmod(first, MINUTES_IN_DAY)
        passed = bisect_left(self.times, minute)
        last_day = min((before - 1) // MINUTES_IN_DAY, _LAST_DAY)
        while day <= last_day:
            at = date.fromordinal(day + EPOCH_DAY)
            in_month, length = at.day, days_in_month(at.year, at.month)
            ahead = self._days_of(at.month, (at.weekday() - in_month + 1) % 7, length) >> in_month
            while ahead:
                midnight = (day + _lowest(ahead)) * MINUTES_IN_DAY
                for time in self.times if midnight >= first else self.times[passed:]:
                    wall = midnight + time
                    if wall >= before:
                        return
                    yield wall
                ahead &= ahead - 1
            day += length - in_month + 1

    def _days_of(self, month: int, first_weekday: int, length: int) -> int:
        return self.days[4 * first_weekday + length - _SHORTEST_MONTH] if self.months >> month & 1 else 0


@lru_cache(maxsize=16_384)
def parse(expression: str) -> Cron:
    """The expression, checked and expanded.

    Raises Refused: `cron_six_fields`, `cron_random`, `cron_hash`, `cron_alias`, `cron_quartz`,
    `cron_step_too_wide`, `cron_day_conflict`, `cron_never_occurs` or `cron_syntax`.
    """
    normalised = normalise(expression)
    # A start time is given so that croniter does not read the clock; nothing that is used here depends on it.
    expanded = croniter(normalised, start_time=0.0)
    minutes, hours, days, months, weekdays = expanded.expanded
    minute_text, hour_text, day_text, _, weekday_text = normalised.split()
    either_day = not starts_with_star(day_text) and not starts_with_star(weekday_text)
    minute_mask, hour_mask = _mask(minutes, range(60)), _mask(hours, range(24))
    cron = Cron(
        normalised=normalised,
        minutes=minute_mask,
        hours=hour_mask,
        months=_mask(months, range(1, 13)),
        days=_days(
            days=days,
            nearest=expanded.nearest_weekday,
            weekdays=weekdays,
            nth={weekday: frozenset(which) for weekday, which in expanded.nth_weekday_of_month.items()},
            either=either_day,
        ),
        times=_times(hour_mask, minute_mask),
        elapsed=starts_with_star(minute_text) or starts_with_star(hour_text),
        either_day=either_day,
    )
    if _gap(cron) is None:
        raise Refused(_never_occurs(expression, normalised))
    return cron


@lru_cache(maxsize=16_384)
def _gap(cron: Cron) -> Gap | None:
    return smallest_gap(cron.times, cron.days_of)


def members(mask: int) -> list[int]:
    """The values in a mask, ascending."""
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def _times(hours: int, minutes: int) -> "array[int]":
    # An array, because a list of every minute of the day takes 50 KB, and thousands of expressions are kept.
    return array("H", (hour * 60 + minute for hour in members(hours) for minute in members(minutes)))


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _mask(values: Iterable[int | str], everything: range) -> int:
    wanted = set(values)
    return sum(1 << value for value in everything if "*" in wanted or value in wanted)


def _days(
    *,
    days: list[int | str],
    nearest: set[int],
    weekdays: list[int | str],
    nth: dict[int, frozenset[int | str]],
    either: bool,
) -> tuple[int, ...]:
    """The masks of `Cron.days`: seven weekdays for the 1st, four lengths of a month each."""
    masks = []
    for first in range(7):
        for length in range(_SHORTEST_MONTH, 32):
            mask = 0
            for day in range(1, length + 1):
                in_month = _is_day(day, days, nearest, first=first, length=length)
                in_week = _is_weekday(day, weekdays, nth, first=first, length=length)
                if (in_month or in_week) if either else (in_month and in_week):
                    mask |= 1 << day
            masks.append(mask)
    return tuple(masks)


def _is_day(day: int, days: list[int | str], nearest: set[int], *, first: int, length: int) -> bool:
    if nearest:
        return any(day == _nearest_workday(target, first=first, length=length) for target in nearest)
    return "*" in days or day in days or ("l" in days and day == length)


def _nearest_workday(day: int, *, first: int, length: int) -> int | None:
    """The Monday to Friday nearest that day within the month; None in a month without that day."""
    if day > length:
        return None
    weekday = (first + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _is_weekday(
    day: int, weekdays: list[int | str], nth: dict[int, frozenset[int | str]], *, first: int, length: int
) -> bool:
    weekday = (first + day) % 7  # cron's: Sunday = 0
    if not nth:
        return "*" in weekdays or weekday in weekdays
    which = nth.get(weekday, frozenset())
    return (day - 1) // 7 + 1 in which or ("l" in which and day + 7 > length)


def _never_occurs(expression: str, normalised: str) -> Problem:
    minute, hour, day, month, _ = normalised.split()
    last = max(days_in_month(2000, number) for number in range(1, 13) if _month_mask(month) >> number & 1)
    return Problem(
        code="cron_never_occurs",
        field="cron",
        got=expression,
        problem=f"`{expression.strip()}` never occurs: no month it names has a day {day} that matches.",
        fix=f"Write a day up to {last}, or `{minute} {hour} L {month} *` for the last day of the month.",
    )


def _month_mask(month: str) -> int:
    return _mask(croniter(f"0 0 1 {month} *", start_time=0.0).expanded[3], range(1, 13))
