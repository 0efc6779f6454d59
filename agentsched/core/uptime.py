"""When the service of a simulation is up: windows in which neither ticks nor workers live (DESIGN §6, §8)."""

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from agentsched.core.localtime import MINUTE
from agentsched.core.stranding import Outage
from agentsched.core.wall_clock import round_up_to_minute


class Down(NamedTuple):
    """Neither ticks nor workers live from ``since`` (inclusive) to ``until`` (exclusive), both UTC."""

    since: datetime
    until: datetime


class Uptime:
    """Windows in order, those that touch as one; ticks, and all else, resume at the first whole minute after each."""

    def __init__(self, windows: Iterable[Down]) -> None:
        merged: list[Down] = []
        for since, until in sorted(windows):
            up_at = round_up_to_minute(until)
            if merged and since <= merged[-1].until:
                merged[-1] = Down(merged[-1].since, max(merged[-1].until, up_at))
            else:
                merged.append(Down(since, up_at))
        self._windows = tuple(merged)
        self._starts = [window.since for window in merged]

    @property
    def outages(self) -> tuple[Outage, ...]:
        """The holes that the windows leave between two ticks."""
        holes = (Outage(round_up_to_minute(window.since) - MINUTE, window.until) for window in self._windows)
        return tuple(hole for hole in holes if hole.until_minute - hole.last_minute > MINUTE)

    def up_from(self, instant: datetime) -> datetime:
        """The instant itself, or the end of the window in which it lies."""
        position = bisect_right(self._starts, instant)
        return max(instant, self._windows[position - 1].until) if position else instant

    def down_after(self, instant: datetime) -> datetime | None:
        """When the next window after this instant begins; None if there is none."""
        position = bisect_right(self._starts, instant)
        return self._starts[position] if position < len(self._starts) else None
