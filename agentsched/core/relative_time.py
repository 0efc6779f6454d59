"""How far away an instant is, in words for people and models, such as "in 2 days" (DESIGN §10)."""

from datetime import datetime, timedelta

from agentsched.core.localtime import wall_of

_MOST_DAYS = 60
_DAYS_IN_MONTH = 30
_MOST_MONTHS = 24
_MONTHS_IN_YEAR = 12


def relative(instant: datetime, now: datetime, timezone: str) -> str:
    """ "in 20 minutes", "in 2 days", "3 hours ago", "now" for an aware instant as seen at ``now``.

    Up to a day in elapsed hours; beyond it in days of the zone's calendar, as people count them.
    """
    distance = _distance(min(instant, now), max(instant, now), timezone)
    if distance is None:
        return "now"
    return f"in {distance}" if instant > now else f"{distance} ago"


def _distance(earlier: datetime, later: datetime, timezone: str) -> str | None:
    elapsed = later - earlier
    if elapsed < timedelta(days=1):
        minutes = round(elapsed / timedelta(minutes=1))
        if minutes == 0:
            return None
        return _counted(minutes, "minute") if minutes < 60 else _counted(round(minutes / 60), "hour")
    # A day on which the clocks are set back has more than 24 hours.
    days = max(1, (wall_of(later, timezone).date() - wall_of(earlier, timezone).date()).days)
    if days <= _MOST_DAYS:
        return _counted(days, "day")
    months = round(days / _DAYS_IN_MONTH)
    if months < _MOST_MONTHS:
        return f"about {_counted(months, 'month')}"
    return f"about {_counted(round(months / _MONTHS_IN_YEAR), 'year')}"


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"
