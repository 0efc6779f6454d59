"""The `at` of a once schedule: a local wall clock, or an instant if it brings an offset (DESIGN §3)."""

import re
from datetime import UTC, datetime, timedelta

from agentsched.core.localtime import MINUTE, Gap, instant_of, wall_of
from agentsched.core.problems import Problem, Refused

_EXAMPLE = 'Write a date and a time, such as "2026-12-03T09:00".'
_DATE_AND_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}.*", re.ASCII)
# Somebody who is off by less meant another day, by more another year.
_ANOTHER_YEAR = timedelta(days=30)
_LAST_YEAR = 9998


def parse_at(text: str, *, timezone: str, now: datetime, field: str = "at") -> datetime:
    """The instant (UTC) of that text, which lies after `now`.

    Raises Refused for `field` (`at_syntax`, `at_not_whole_minute`, `at_in_gap`, `at_in_past`, whose `at` is the
    name of the field) with the nearest sensible reading. A wall clock that occurs twice means its first instant.
    """
    written = text.strip()
    moment = _moment(text, written, field)
    if moment.second or moment.microsecond:
        fix = f'Write "{_iso(moment.replace(second=0, microsecond=0))}".'
        raise _refused(field, "not_whole_minute", text, "is not a whole minute", fix)
    if not 1970 <= moment.year <= _LAST_YEAR:
        raise _refused(field, "syntax", text, "is in a year that no schedule can have", _EXAMPLE)
    if moment.tzinfo is None:
        found = instant_of(moment, timezone)
        if isinstance(found, Gap):
            after = wall_of(found.after, timezone)
            problem = f"does not exist in {timezone}: the clocks skip it and go on at {after:%H:%M}"
            raise _refused(field, "in_gap", text, problem, f'Write "{_iso(after)}".')
        instant, wall = found, moment
    else:
        instant = moment.astimezone(UTC)
        if instant != instant.replace(second=0, microsecond=0):
            raise _refused(field, "not_whole_minute", text, "is not a whole minute in UTC", _EXAMPLE)
        wall = wall_of(instant, timezone)
    if instant <= now:
        here = wall_of(now, timezone)
        problem = f"is in the past: it is now {here:%Y-%m-%d %H:%M} in {timezone}"
        raise _refused(field, "in_past", text, problem, f'Write "{_iso(_sensible(wall, timezone, now))}".')
    return instant


def _moment(text: str, written: str, field: str) -> datetime:
    try:
        moment = datetime.fromisoformat(written.replace("z", "Z")) if _DATE_AND_TIME.match(written) else None
    except ValueError as error:
        raise _refused(field, "syntax", text, f"is not a date and time ({error})", _EXAMPLE) from error
    if moment is None:
        fix = _EXAMPLE
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", written):
            fix = f'Add the time of day, such as "{written}T09:00".'
        raise _refused(field, "syntax", text, "is not a date and time", fix)
    return moment


def _sensible(wall: datetime, timezone: str, now: datetime) -> datetime:
    """The wall clock ahead of `now` that somebody who wrote this past one probably meant."""
    here = wall_of(now, timezone)
    if here - wall < _ANOTHER_YEAR:
        meant = here.replace(hour=wall.hour, minute=wall.minute, second=0, microsecond=0)
        if not _ahead(meant, timezone, now):
            meant += timedelta(days=1)
    else:
        years = (wall.month, wall.day) != (2, 29)
        year = here.year
        meant = wall
        while not _ahead(meant, timezone, now):
            meant = wall.replace(year=year) if years or _is_leap(year) else meant
            year += 1
    found = instant_of(meant, timezone)
    return wall_of(found.after, timezone) if isinstance(found, Gap) else meant


def _ahead(wall: datetime, timezone: str, now: datetime) -> bool:
    found = instant_of(wall, timezone)
    return (found.after if isinstance(found, Gap) else found) > now


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="minutes")


def _refused(field: str, fault: str, text: str, problem: str, fix: str) -> Refused:
    return Refused(
        Problem(code=f"{field}_{fault}", field=field, got=text, problem=f'"{text[:80]}" {problem}.', fix=fix)
    )


def round_up_to_minute(instant: datetime) -> datetime:
    """The first whole minute that is not before this instant."""
    cut = instant.replace(second=0, microsecond=0)
    return cut if cut == instant else cut + MINUTE
