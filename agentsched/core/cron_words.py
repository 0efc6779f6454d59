"""Cron expressions in 24-hour English, such as "Every weekday at 09:00".

Days, months and times of day are worded here, because cron-descriptor words `0 9 */2 * 1` as "or", takes
wraps for lists of hours and follows the locale of the process; the minutes of an hour are cron-descriptor's.
"""

from collections.abc import Sequence
from functools import lru_cache

from cron_descriptor import DescriptionTypeEnum, ExpressionDescriptor, Options  # type: ignore[import-untyped]

from agentsched.core.cron import Cron, members
from agentsched.core.cron_dialect import starts_with_star
from agentsched.core.cron_spread import clock

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH = ("first", "second", "third", "fourth", "fifth")
_MOST_TIMES = 6
_SHORTEST_RUN = 3


def cron_words(cron: Cron) -> tuple[str, bool]:
    """The expression in words, and whether it has a time of day or a day, which the zone decides."""
    day, plain = _day(cron)
    listed = _listed_times(cron)
    if listed:
        return f"{_capital(day)}{',' if cron.either_day else ''} at {join(listed)}", True
    rhythm, any_hour = _rhythm(cron)
    return _capital(rhythm if plain else f"{rhythm}, {day}"), not (plain and any_hour)


def join(parts: Sequence[str], word: str = "and") -> str:
    """The parts as a list in a sentence: "a, b and c"."""
    return f" {word} ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _listed_times(cron: Cron) -> list[str]:
    """The times of day one by one, if they are few and no rhythm says it better."""
    minute, hour, *_ = cron.normalised.split()
    hours, minutes = members(cron.hours), members(cron.minutes)
    if starts_with_star(minute) or len(hours) * len(minutes) > _MOST_TIMES:
        return []
    if len(minutes) == 1 and len(hours) > 1 and (_every_nth_hour(hour) or len(_cyclic_run(hours, 24)) > 3):
        return []
    return [clock(time) for time in cron.times]


def _rhythm(cron: Cron) -> tuple[str, bool]:
    """How it repeats within a day, and whether it does so at any hour."""
    minute, hour, *_ = cron.normalised.split()
    hours, minutes = members(cron.hours), members(cron.minutes)
    any_hour = len(hours) == 24
    if len(minutes) == 1:
        return _hourly(hour, hours, minutes[0]), any_hour
    words = _minutes(minute, tuple(minutes))
    if any_hour:
        return words, True
    step, run = _every_nth_hour(hour), _cyclic_run(hours, 24)
    if step:
        return f"{words} in every {_ordinal(step)} hour", False
    if run:
        return f"{words} between {clock(run[0] * 60)} and {clock(run[-1] * 60 + 59)}", False
    return f"{words} in the hours of {join([clock(value * 60) for value in hours])}", False


def _hourly(hour: str, hours: list[int], minute: int) -> str:
    """One minute of several hours."""
    past = f" at {minute} minute{'' if minute == 1 else 's'} past" if minute else ""
    if len(hours) == 24:
        return f"every hour{past}"
    step, run = _every_nth_hour(hour), _cyclic_run(hours, 24)
    if step:
        return f"every {step} hours{past}"
    if run:
        return f"every hour from {clock(run[0] * 60 + minute)} to {clock(run[-1] * 60 + minute)}"
    return "at " + join([clock(value * 60 + minute) for value in hours])


def _every_nth_hour(hour: str) -> int:
    """n for an hour field `*/n` that keeps its distance over midnight, else 0."""
    step = int(hour.removeprefix("*/")) if hour.startswith("*/") and "," not in hour else 0
    return step if step and 24 % step == 0 and step < 24 else 0


@lru_cache(maxsize=1024)
def _minutes(minute: str, minutes: tuple[int, ...]) -> str:
    step = int(minute.removeprefix("*/")) if minute.startswith("*/") and "," not in minute else 0
    uneven = bool(step) and 60 % step != 0
    if "," in minute or ("/" in minute and not step) or (uneven and len(minutes) <= _SHORTEST_RUN):
        minute = ",".join(map(str, minutes))
        uneven = False
    options = Options(locale_code="en_US", use_24hour_time_format=True)
    words = ExpressionDescriptor(f"{minute} * * * *", options).get_description(DescriptionTypeEnum.MINUTES)
    return f"{words} from the full hour on" if uneven else words


def _day(cron: Cron) -> tuple[str, bool]:
    """The days in words, and whether they are simply all."""
    _, _, day, _, weekday = cron.normalised.split()
    months = _months(cron.months)
    in_months = f" in {months}" if months else ""
    if day == "*" and weekday == "*":
        return f"every day{in_months}", not months
    if day == "*":
        return f"{_every_weekday(weekday)}{in_months}", False
    of_months = f" of {months or 'every month'}"
    if weekday == "*":
        return f"on {_days(day)}{of_months}", False
    if cron.either_day:
        of_months = f" of {months}" if months else ""
        return f"on {_days(day)}{of_months}, and also {_every_weekday(weekday)}{in_months}", False
    if starts_with_star(day):
        return f"{_every_weekday(weekday)}{in_months} that falls on {_days(day, 'or')}", False
    falls = join([_WEEKDAYS[value] for value in _monday_first(_values(weekday, 0, 6))], "or")
    return f"on {_days(day)}{of_months} that falls on a {falls}", False


def _every_weekday(field: str) -> str:
    if "#" in field or "L" in field:
        return f"on {join([_nth(item) for item in field.split(',')])} of the month"
    values = set(_values(field, 0, 6))
    if len(values) == 7:
        return "every day"
    if values == {1, 2, 3, 4, 5}:
        return "every weekday"
    return f"every {join([_WEEKDAYS[value] for value in _monday_first(values)])}"


def _nth(item: str) -> str:
    if item.startswith("L"):
        return f"the last {_WEEKDAYS[int(item[1:])]}"
    weekday, _, nth = item.partition("#")
    return f"the {_NTH[int(nth) - 1]} {_WEEKDAYS[int(weekday)]}"


def _monday_first(values: set[int] | list[int]) -> list[int]:
    return sorted(values, key=lambda value: (value - 1) % 7)


def _days(field: str, word: str = "and") -> str:
    if field.endswith("W"):
        return f"the weekday nearest the {_ordinal(int(field[:-1]))}"
    values = sorted(set(_values(",".join(item for item in field.split(",") if item != "L"), 1, 31)))
    parts: list[str] = []
    if len(values) > _SHORTEST_RUN and values == list(range(values[0], 32, 2)) and values[0] <= 2:
        parts = ["an odd day" if values[0] == 1 else "an even day"]
        if word == "and":
            parts = ["odd days" if values[0] == 1 else "even days"]
    else:
        for run in _runs(values):
            if len(run) >= _SHORTEST_RUN:
                parts.append(f"the {_ordinal(run[0])} to {_ordinal(run[-1])}")
            else:
                parts += [f"the {_ordinal(value)}" for value in run]
    if "L" in field.split(","):
        parts.append("the last day")
    return join(parts, word)


def _months(mask: int) -> str:
    values = members(mask)
    if len(values) == 12:
        return ""
    run = _cyclic_run(values, 12, low=1)
    if len(run) >= _SHORTEST_RUN:
        return f"{_MONTHS[run[0] - 1]} to {_MONTHS[run[-1] - 1]}"
    return join([_MONTHS[value - 1] for value in values])


def _runs(values: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _cyclic_run(values: list[int], width: int, low: int = 0) -> list[int]:
    """The values in order if they follow each other without a hole, if need be over the end; else []."""
    runs = _runs(values)
    if len(runs) == 1:
        return runs[0]
    if len(runs) == 2 and runs[0][0] == low and runs[1][-1] == low + width - 1:
        return runs[1] + runs[0]
    return []


def _values(field: str, low: int, high: int) -> list[int]:
    """The values of a normalised day or weekday field of numbers."""
    found: list[int] = []
    for item in filter(None, field.split(",")):
        base, _, step = item.partition("/")
        first, _, last = base.partition("-")
        if base == "*":
            first, last = str(low), str(high)
        found += range(int(first), int(last or first) + 1, int(step or 1))
    return found


def _ordinal(value: int) -> str:
    ending = "th" if value // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"
