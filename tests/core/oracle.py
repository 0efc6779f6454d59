"""An independent judge of cron: every UTC minute walked, local wall clocks compared (DESIGN §3, cron(8)).

It knows fields by what they mean, parses nothing, and shares no code with `agentsched.core.cron` or croniter. The
wall clocks come from `zoneinfo` over the pinned tzdata.
"""

import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTES_IN_DAY = 24 * 60
EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Meaning:
    """What one field says: its plain values, whether it starts with `*`, and the special days it names."""

    text: str
    values: frozenset[int]
    star: bool = False
    last_day: bool = False
    nearest: int | None = None
    nth: frozenset[tuple[int, int]] = frozenset()
    """(weekday, n) for the nth one of a month, n = 0 for the last."""


@dataclass(frozen=True)
class Expression:
    minute: Meaning
    hour: Meaning
    day: Meaning
    month: Meaning
    weekday: Meaning

    @property
    def text(self) -> str:
        fields = (self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(field.text for field in fields)

    @property
    def elapsed(self) -> bool:
        return self.minute.star or self.hour.star

    @property
    def times(self) -> frozenset[int]:
        return frozenset(hour * 60 + minute for hour in self.hour.values for minute in self.minute.values)

    def on(self, at: date) -> bool:
        """Whether this day matches month, day and weekday."""
        if at.month not in self.month.values:
            return False
        in_month, in_week = _day_of_month(self.day, at), _day_of_week(self.weekday, at)
        either = not self.day.star and not self.weekday.star
        return (in_month or in_week) if either else (in_month and in_week)


def _day_of_month(day: Meaning, at: date) -> bool:
    if day.nearest is not None:
        return at == _nearest_workday(at, day.nearest)
    is_last = (at + timedelta(days=1)).month != at.month
    return at.day in day.values or (day.last_day and is_last)


def _nearest_workday(at: date, target: int) -> date | None:
    days = [at.replace(day=number) for number in range(1, _length(at) + 1)]
    if target > len(days):
        return None
    return min((day for day in days if day.isoweekday() <= 5), key=lambda day: abs(day.day - target))


def _length(at: date) -> int:
    return (at.replace(day=28) + timedelta(days=4)).replace(day=1).toordinal() - at.replace(day=1).toordinal()


def _day_of_week(weekday: Meaning, at: date) -> bool:
    number = at.isoweekday() % 7
    if not weekday.nth:
        return number in weekday.values
    is_last = (at + timedelta(days=7)).month != at.month
    return (number, (at.day + 6) // 7) in weekday.nth or (is_last and (number, 0) in weekday.nth)


@cache
def pinned_zone(name: str) -> ZoneInfo:
    with importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@lru_cache(maxsize=64)
def wall_clocks(zone: str, first: datetime, minutes: int) -> list[int]:
    """What the clocks show at each UTC minute from `first` on, in minutes of a naive calendar since 1970."""
    tz = pinned_zone(zone)
    start = int(first.timestamp()) // 60

    def wall(minute: int) -> int:
        at = datetime.fromtimestamp(minute * 60, tz)
        return (at.toordinal() - EPOCH_DAY) * MINUTES_IN_DAY + at.hour * 60 + at.minute

    walls: list[int] = []
    while len(walls) < minutes:
        minute = start + len(walls)
        shown = wall(minute)
        # Where the clocks run on through a quarter of an hour its minutes follow from the first: much quicker.
        steady = wall(minute + 14) == shown + 14
        walls += range(shown, shown + 15) if steady else map(wall, range(minute, minute + 15))
    return walls[:minutes]


def occurrences(expression: Expression, zone: str, after: datetime, until: datetime) -> list[datetime]:
    """Every occurrence in (after, until], both whole minutes in UTC."""
    # What a repeated hour has shown before the range counts, so the walk begins a good day earlier.
    lead = MINUTES_IN_DAY + 120
    first = after - timedelta(minutes=lead)
    count = lead + (until - after) // timedelta(minutes=1) + 1
    walls = wall_clocks(zone, first, count)
    hits = _fires(expression, walls)
    return [first + timedelta(minutes=index) for index in hits if index > lead]


def _fires(expression: Expression, walls: list[int]) -> Iterator[int]:
    times, days = expression.times, dict[int, bool]()

    def matches(wall: int) -> bool:
        if wall % MINUTES_IN_DAY not in times:
            return False
        day = wall // MINUTES_IN_DAY
        if day not in days:
            days[day] = expression.on(date.fromordinal(day + EPOCH_DAY))
        return days[day]

    fixed = not expression.elapsed
    newest = before = walls[0] - 1
    for index, wall in enumerate(walls):
        fires = wall % MINUTES_IN_DAY in times and matches(wall) and not (fixed and wall <= newest)
        if fixed and 0 < wall - before - 1 < 3 * 60:
            fires = fires or any(map(matches, range(before + 1, wall)))
        if fires:
            yield index
        before = wall
        newest = max(newest, wall)


def changes_of_clocks(zone: str, first: datetime, until: datetime) -> list[datetime]:
    """The whole hours (UTC) by which the offset has changed since the hour before."""
    tz = pinned_zone(zone)
    found = []
    at = first
    while at < until:
        later = at + timedelta(hours=1)
        if at.astimezone(tz).utcoffset() != later.astimezone(tz).utcoffset():
            found.append(later)
        at = later
    return found


def smallest_gap(expression: Expression) -> int | None:
    """The smallest gap in minutes, from every day of 400 years."""
    times = sorted(expression.times)
    days = [day.toordinal() for day in _cycle() if expression.on(day)]
    if not days:
        return None
    gaps = [later - earlier for earlier, later in pairwise(times)]
    around = [*days[1:], days[0] + len(_cycle())]
    closest = min(later - earlier for earlier, later in zip(days, around, strict=True))
    return min([*gaps, closest * MINUTES_IN_DAY - (times[-1] - times[0])])


@cache
def _cycle() -> list[date]:
    """Every day of 400 years, after which the calendar repeats."""
    start = date(2000, 1, 1).toordinal()
    return [date.fromordinal(day) for day in range(start, start + 146_097)]


def utc(text: str) -> datetime:
    """An instant from ISO text in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
