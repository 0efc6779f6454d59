"""Durations as people write them for `every` and `in`: "90m", "2h", "1d", "1h30m", "2 hours"."""

import re

from agentsched.core.problems import Problem, Refused

MINUTES_IN_HOUR = 60
MINUTES_IN_DAY = 24 * MINUTES_IN_HOUR
# Ten years; whoever writes more has a unit wrong.
LONGEST_MINUTES = 3650 * MINUTES_IN_DAY

_UNITS = {
    "m": 1,
    "min": 1,
    "mins": 1,
    "minute": 1,
    "minutes": 1,
    "h": MINUTES_IN_HOUR,
    "hr": MINUTES_IN_HOUR,
    "hrs": MINUTES_IN_HOUR,
    "hour": MINUTES_IN_HOUR,
    "hours": MINUTES_IN_HOUR,
    "d": MINUTES_IN_DAY,
    "day": MINUTES_IN_DAY,
    "days": MINUTES_IN_DAY,
    "w": 7 * MINUTES_IN_DAY,
    "week": 7 * MINUTES_IN_DAY,
    "weeks": 7 * MINUTES_IN_DAY,
}
_SECONDS = {"s", "sec", "secs", "second", "seconds"}
_MONTHS_AND_YEARS = {"mo", "mon", "month", "months", "y", "yr", "year", "years"}
_PART = re.compile(r"([0-9]+)\s*([a-z]+)\s*")
_WHOLE = re.compile(r"(?:[0-9]+\s*[a-z]+\s*)+")
_DECIMAL = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\s*([a-z]+)")
_LONGEST_TEXT = 60


def parse_duration(text: str, *, field: str) -> int:
    """The duration in whole minutes, at least one.

    Raises Refused for `field`: `duration_seconds`, `duration_zero`, `duration_too_long` or `duration_syntax`.
    """
    wanted = text.strip().lower()
    if len(wanted) > _LONGEST_TEXT or not _WHOLE.fullmatch(wanted):
        raise _refused("duration_syntax", field, text, "is not a duration", _syntax_fix(wanted))
    parts = [(int(count), unit) for count, unit in _PART.findall(wanted)]
    units = {unit for _, unit in parts}
    if units & _SECONDS:
        seconds = sum(count if unit in _SECONDS else count * 60 * _UNITS.get(unit, 0) for count, unit in parts)
        fix = f'Write "{format_minutes(max(1, -(-seconds // 60)))}".'
        raise _refused("duration_seconds", field, text, "counts seconds, and schedules count whole minutes", fix)
    if units & _MONTHS_AND_YEARS:
        fix = 'Use days or weeks, or `cron`, such as "0 9 1 * *" for the first of every month.'
        raise _refused("duration_syntax", field, text, "counts months or years, which differ in length", fix)
    if units - _UNITS.keys():
        raise _refused("duration_syntax", field, text, "is not a duration", _syntax_fix(wanted))
    minutes = sum(count * _UNITS[unit] for count, unit in parts)
    if minutes == 0:
        raise _refused("duration_zero", field, text, "is no time at all", 'Write at least "1m".')
    if minutes > LONGEST_MINUTES:
        fix = f'Write at most "{format_minutes(LONGEST_MINUTES)}".'
        raise _refused("duration_too_long", field, text, "is longer than ten years", fix)
    return minutes


def format_minutes(minutes: int) -> str:
    """The shortest way to write that many minutes, such as "1d", "1h30m" or "20m"."""
    days, rest = divmod(minutes, MINUTES_IN_DAY)
    hours, rest = divmod(rest, MINUTES_IN_HOUR)
    parts = ((days, "d"), (hours, "h"), (rest, "m"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0m"


def format_seconds(seconds: int) -> str:
    """The shortest way to write that many seconds, such as "1h5m" or "1m30s"."""
    minutes, rest = divmod(seconds, 60)
    return f"{format_minutes(minutes) if minutes else ''}{f'{rest}s' if rest or not minutes else ''}"


def in_words(minutes: int) -> str:
    """That many minutes in words, such as "1 day", "1 hour and 30 minutes" or "20 minutes"."""
    days, rest = divmod(minutes, MINUTES_IN_DAY)
    hours, rest = divmod(rest, MINUTES_IN_HOUR)
    parts = [
        f"{count} {unit}{'' if count == 1 else 's'}"
        for count, unit in ((days, "day"), (hours, "hour"), (rest, "minute"))
        if count
    ]
    if not parts:
        return "0 minutes"
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _syntax_fix(wanted: str) -> str:
    if re.fullmatch(r"[0-9]{1,6}", wanted):
        return f'Add the unit: "{wanted}m", "{wanted}h" or "{wanted}d".'
    decimal = _DECIMAL.fullmatch(wanted)
    if decimal is not None and decimal[3] in _UNITS:
        minutes = round(float(f"{decimal[1]}.{decimal[2]}") * _UNITS[decimal[3]])
        return f'Write it in whole units: "{format_minutes(max(1, minutes))}".'
    return 'Write a number with m, h, d or w, such as "90m", "2h", "1d" or "1h30m".'


def _refused(code: str, field: str, text: str, problem: str, fix: str) -> Refused:
    return Refused(Problem(code=code, field=field, got=text, problem=f'"{text[:80]}" {problem}.', fix=fix))
