"""Local wall clocks and the DST rule (DESIGN §3, after Debian's cron(8)).

Inside this package instants and wall clocks are whole numbers of minutes: an instant counts UTC minutes since
1970-01-01T00:00Z, a wall clock counts the minutes of a naive calendar since 1970-01-01 00:00. Numbers compare
the way time passes, which two datetimes of one zone do not.

Offsets are whole minutes in every zone since 1972; older ones are cut to the minute.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from agentsched.core.zones import zone

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = EPOCH.toordinal()
MINUTES_IN_DAY = 24 * 60

# cron(8) makes up for changes of less than three hours; larger ones are corrections, whose slots are gone.
_LONGEST_BRIDGED_GAP = 3 * 60
# No zone changes its offset twice within this many minutes: a test asks the database.
PROBE = 3 * 24 * 60

Walls = Callable[[int, int], Iterator[int]]
"""(first, before) → the slots on the wall clock in [first, before), ascending."""


class Segment(NamedTuple):
    """A stretch of time with one offset: [start, end) in UTC minutes, its offset, and the one before."""

    start: int
    end: int
    offset: int
    offset_before: int


@dataclass(frozen=True)
class Gap:
    """A wall clock that no instant shows; `after` is the first instant after the gap (UTC)."""

    after: datetime


def to_minutes(instant: datetime) -> int:
    """The UTC minute that holds this aware instant."""
    return (instant - EPOCH) // MINUTE


def from_minutes(minutes: int) -> datetime:
    """The aware UTC instant at which this minute begins."""
    return EPOCH + minutes * MINUTE


def instants(walls: Walls, *, elapsed: bool, timezone: str, after: int) -> Iterator[int]:
    """Every occurrence strictly after the UTC minute `after` and before the year 9999, ascending.

    With `elapsed` every instant whose wall clock is a slot is an occurrence. Without, slots are fixed times:
    in a repeated hour the first instant only, in a gap of less than three hours the first instant after it.
    """
    for year in range(date.fromordinal(after // MINUTES_IN_DAY + EPOCH_DAY).year, MAXYEAR):
        for start, end, offset, offset_before in segments(timezone, year):
            if end <= after + 1:
                continue
            first = max(after + 1, start) + offset
            if not elapsed:
                shift = offset - offset_before
                if (
                    0 < shift < _LONGEST_BRIDGED_GAP
                    and after < start
                    and next(walls(start + offset_before, start + offset), None) is not None
                ):
                    yield start
                    first += 1
                first = max(first, start + offset_before)
            for slot in walls(first, end + offset):
                yield slot - offset
            after = end - 1


def instant_of(wall: datetime, timezone: str) -> datetime | Gap:
    """The first instant (UTC) at which the clocks of the zone show this naive wall clock.

    Raises OverflowError where the calendar ends.
    """
    instant = wall.replace(tzinfo=zone(timezone), fold=0).astimezone(UTC)
    if instant.astimezone(zone(timezone)).replace(tzinfo=None) == wall:
        return instant
    # In a gap fold=0 counts on from before it, so this lies in the segment that begins where the gap ends.
    minute = to_minutes(instant)
    start = max(s.start for s in segments(timezone, instant.year) if s.start <= minute)
    return Gap(from_minutes(start))


def wall_of(instant: datetime, timezone: str) -> datetime:
    """What the clocks of the zone show at this instant, as a naive datetime."""
    return instant.astimezone(zone(timezone)).replace(tzinfo=None)


@lru_cache(maxsize=4096)
def segments(timezone: str, year: int) -> tuple[Segment, ...]:
    """The stretches of constant offset that touch this UTC year, in order.

    The first keeps its true start if that lies in the year before; the last is cut where the year ends.
    """
    ends_at = to_minutes(datetime(year + 1, 1, 1, tzinfo=UTC))
    before = _transitions(timezone, year - 1) if year > 1 else ()
    starts = [*before[-1:], *_transitions(timezone, year)]
    if not before:
        begins_at = to_minutes(datetime(year, 1, 1, tzinfo=UTC))
        if not starts or starts[0] > begins_at:
            starts.insert(0, begins_at)
    return tuple(
        Segment(start, end, _offset(timezone, start), _offset(timezone, start - 1))
        for start, end in zip(starts, [*starts[1:], ends_at], strict=True)
    )


@lru_cache(maxsize=8192)
def _transitions(timezone: str, year: int) -> tuple[int, ...]:
    found = []
    low = to_minutes(datetime(year, 1, 1, tzinfo=UTC))
    ends_at = to_minutes(datetime(year + 1, 1, 1, tzinfo=UTC))
    offset = _offset(timezone, low - 1)
    low -= 1
    while low < ends_at - 1:
        high = min(low + PROBE, ends_at - 1)
        if _offset(timezone, high) != offset:
            at = _bisect(timezone, low, high, offset)
            found.append(at)
            offset = _offset(timezone, at)
            high = at
        low = high
    return tuple(found)


def _bisect(timezone: str, low: int, high: int, offset: int) -> int:
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(timezone, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def _offset(timezone: str, minute: int) -> int:
    offset = datetime.fromtimestamp(minute * 60, zone(timezone)).utcoffset()
    return 0 if offset is None else offset // MINUTE
