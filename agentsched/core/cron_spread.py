"""What to write instead of an expression whose slots are too close together."""

from collections.abc import Iterator

from agentsched.core.cron import Cron, members, parse

_MINUTES_IN_HOUR = 60
_HOURS_IN_DAY = 24


def spread_out(cron: Cron, minimum_minutes: int) -> str | None:
    """The nearest expression whose slots are never closer than that; None if nothing simple is."""
    for candidate in _candidates(cron, minimum_minutes):
        if parse(candidate).smallest_gap_minutes() >= minimum_minutes:
            return candidate
    return None


def _candidates(cron: Cron, minimum_minutes: int) -> Iterator[str]:
    minute, hour, *rest = cron.normalised.split()
    minutes, hours = members(cron.minutes), members(cron.hours)
    if minute.startswith("*"):
        for step in range(minimum_minutes, _MINUTES_IN_HOUR):
            # Only steps that divide the hour keep their distance across its end.
            if _MINUTES_IN_HOUR % step == 0:
                yield " ".join([f"*/{step}", hour, *rest])
    else:
        yield " ".join([",".join(map(str, _thinned(minutes, minimum_minutes))), hour, *rest])
    yield " ".join([str(minutes[0]), hour, *rest])
    for step in range(1, _HOURS_IN_DAY):
        if hour.startswith("*") and _HOURS_IN_DAY % step == 0:
            yield " ".join([str(minutes[0]), f"*/{step}", *rest])
    yield " ".join([str(minutes[0]), str(hours[0]), *rest])


def _thinned(values: list[int], distance: int) -> list[int]:
    """The values without those that come sooner than that after the one before."""
    kept = values[:1]
    for value in values[1:]:
        if value - kept[-1] >= distance:
            kept.append(value)
    return kept


def clock(minute_of_day: int) -> str:
    """A time of day such as "09:05"."""
    return f"{minute_of_day // _MINUTES_IN_HOUR:02}:{minute_of_day % _MINUTES_IN_HOUR:02}"
