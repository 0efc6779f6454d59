"""What becomes of slots that are due: on time, late, or too late (DESIGN §8)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple, assert_never

from agentsched.core.words import Misfire

DEFAULT_GRACE_SECONDS = 120
NOTHING_IS_ON_TIME = -1
"""A grace for slots that passed in a pause: a resume that catches up takes them all as late."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Missed slots that follow each other: one row in the ledger."""

    first: datetime
    last: datetime
    count: int


class Sorted(NamedTuple):
    """Due slots, sorted by the misfire policy.

    ``missed`` come before the others. ``overdue``: all of them, where ``all`` runs late ones. ``on_time``: those
    that the overlap policy decides.
    """

    missed: Stretch | None
    overdue: tuple[datetime, ...]
    on_time: tuple[datetime, ...]


def is_late(fire_at: datetime, now: datetime, grace_seconds: int) -> bool:
    """Lateness is the minute of ``now`` minus ``fire_at``; on time up to the grace, inclusive."""
    return now.replace(second=0, microsecond=0) - fire_at > timedelta(seconds=grace_seconds)


def sort_due(slots: Iterable[datetime], *, misfire: Misfire, now: datetime, grace_seconds: int, keep: int) -> Sorted:
    """Sort due slots (oldest first) by policy. ``keep``: how many ``all`` runs at most; the older rest is missed.

    The slots are walked once and not kept, so that a year of missed minutes costs no memory.
    """
    walk = iter(slots)
    first = next(walk, None)
    if first is None:
        return Sorted(None, (), ())
    everything = chain((first,), walk)
    if not is_late(first, now, grace_seconds):
        return Sorted(None, (), tuple(everything))
    match misfire:
        case Misfire.SKIP:
            on_time: list[datetime] = []
            last, count = first, 0
            for slot in everything:
                if is_late(slot, now, grace_seconds):
                    last, count = slot, count + 1
                else:
                    on_time.append(slot)
            return Sorted(Stretch(first, last, count), (), tuple(on_time))
        case Misfire.LATEST:
            missed, newest = _newest(everything, 1)
            return Sorted(missed, (), newest)
        case Misfire.ALL:
            missed, newest = _newest(everything, keep)
            return Sorted(missed, newest, ())
        case _:
            assert_never(misfire)


def _newest(slots: Iterable[datetime], keep: int) -> tuple[Stretch | None, tuple[datetime, ...]]:
    newest: deque[datetime] = deque()
    missed: Stretch | None = None
    for slot in slots:
        newest.append(slot)
        if len(newest) > keep:
            last = newest.popleft()
            missed = Stretch(missed.first if missed else last, last, missed.count + 1 if missed else 1)
    return missed, tuple(newest)
