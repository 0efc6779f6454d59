"""A schedule's timing and its instants, in words for people and models (DESIGN §13)."""

from datetime import UTC, datetime
from typing import TypedDict, assert_never

from agentsched.core.cron import parse
from agentsched.core.cron_words import cron_words
from agentsched.core.durations import MINUTES_IN_DAY, in_words
from agentsched.core.timing import Kind, Timing
from agentsched.core.zones import zone

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class RunView(TypedDict):
    """One instant twice: on the clocks of a zone with weekday and offset, and in UTC."""

    local: str
    utc: str


def summary(timing: Timing) -> str:
    """The timing in one line, such as "Every weekday at 09:00 (Europe/Berlin)"."""
    match timing.kind:
        case Kind.CRON:
            words, local = cron_words(parse(timing.cron or ""))
            return f"{words} ({timing.timezone})" if local else words
        case Kind.INTERVAL:
            return f"Every {_interval(timing.every_minutes or 0)}"
        case Kind.ONCE:
            view = run_view(timing.at or datetime.max.replace(tzinfo=UTC), timing.timezone)["local"]
            weekday, date, time, _ = view.split()
            return f"Once on {weekday} {date} at {time} ({timing.timezone})"
        case Kind.WEBHOOK:
            return "On a webhook call"
        case _ as never:
            assert_never(never)


def run_view(instant: datetime, timezone: str) -> RunView:
    """{"local": "Mon 2026-10-26 09:00 +01:00", "utc": "2026-10-26T08:00:00Z"} for an aware instant."""
    local = instant.astimezone(zone(timezone))
    iso = local.isoformat(timespec="minutes")
    return RunView(
        local=f"{_WEEKDAYS[local.weekday()]} {iso[:10]} {iso[11:16]} {iso[16:]}",
        utc=f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )


def _interval(minutes: int) -> str:
    if minutes == MINUTES_IN_DAY:
        # A day of elapsed time, which drifts against the clocks when these change.
        return "24 hours"
    return {1: "minute", 60: "hour"}.get(minutes, in_words(minutes))
