"""The cron dialect (DESIGN §3): what is accepted, what it normalises to, and what to write instead.

A normalised expression has five fields of numbers, in which no range wraps, repeats or overshoots. Whether a
field starts with `*` carries meaning (day fields combine by it, the DST rule asks for it) and is preserved.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

from agentsched.core.problems import Problem, Refused

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = 1000


@dataclass(frozen=True)
class Field:
    """One of the five fields: its name, its range, the names of its values, and how `every` counts it."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    every_unit: str | None = None

    @property
    def width(self) -> int:
        return self.high - self.low + 1

    @property
    def is_weekday(self) -> bool:
        return self.name == "weekday"

    @property
    def is_day(self) -> bool:
        return self.name == "day of the month"


MINUTE = Field("minute", 0, 59, every_unit="m")
HOUR = Field("hour", 0, 23, every_unit="h")
DAY = Field("day of the month", 1, 31, every_unit="d")
MONTH = Field("month", 1, 12, names=_MONTHS)
WEEKDAY = Field("weekday", 0, 6, names=_WEEKDAYS)
FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class _Fault(Exception):  # noqa: N818  # a finding about one item, not an error of the program
    """One item of a field is refused. `instead` is what that item should read, `advice` what to do else."""

    def __init__(self, code: str, problem: str, *, instead: str | None = None, advice: str = "") -> None:
        super().__init__(problem)
        self.code = code
        self.problem = problem
        self.instead = instead
        self.advice = advice


def normalise(expression: str) -> str:
    """The normalised form of the expression, which is a valid expression itself.

    Raises Refused with every fault found, each with what to write instead. That the expression ever occurs is
    not checked here.
    """
    if len(expression) > _LONGEST:
        raise Refused(
            _problem(
                "cron_syntax",
                f"{expression[:40]}…",
                f"The expression is {len(expression)} characters long.",
                f"Write at most {_LONGEST} characters; ranges and steps are shorter than lists.",
            )
        )
    wanted = expression.strip()
    if wanted.startswith("@"):
        return _alias(expression, wanted)
    texts = wanted.split()
    if len(texts) != len(FIELDS):
        _refuse_field_count(expression, texts)

    normalised, repaired, faults = _fields(texts)
    if faults:
        raise Refused(*_problems(expression, repaired, faults))
    conflict = _day_conflict(expression, texts)
    if conflict is not None:
        raise Refused(conflict)
    return normalised


def _fields(texts: list[str]) -> tuple[str, str, list[_Fault]]:
    """(normalised, repaired, faults) of five fields."""
    normalised: list[str] = []
    repaired: list[str] = []
    faults: list[_Fault] = []
    for field, text in zip(FIELDS, texts, strict=True):
        values, repair, found = _field(field, text)
        normalised.append(values)
        repaired.append(repair)
        faults += found
    return " ".join(normalised), " ".join(repaired), faults


def starts_with_star(field_text: str) -> bool:
    """Whether the field restricts nothing by itself (days) or follows elapsed time (minute, hour)."""
    return field_text.startswith("*")


def _alias(expression: str, wanted: str) -> str:
    name = wanted.casefold()
    if name in ALIASES:
        return ALIASES[name]
    if name.startswith("@every"):
        interval = name.removeprefix("@every").strip() or "15m"
        fix = f'Use `every: "{interval}"` in place of `cron`.'
    elif name == "@reboot":
        fix = "A schedule outlives restarts; give it a time, such as `@daily` or `0 9 * * *`."
    else:
        fix = f"Write one of {', '.join(ALIASES)}, or five fields such as `0 9 * * *`."
    raise Refused(_problem("cron_alias", expression, f"`{wanted}` is not one of the names in use.", fix))


def _refuse_field_count(expression: str, texts: list[str]) -> NoReturn:
    count = len(texts)
    if count in {6, 7}:
        raise Refused(
            _problem(
                "cron_six_fields",
                expression,
                f"The expression has {count} fields; there are five, without seconds or years: "
                "minute, hour, day of the month, month, weekday.",
                _five_of(texts),
            )
        )
    got = "is empty" if not count else f"has {count} field{'s' if count > 1 else ''}"
    fix = "Write five fields: minute, hour, day of the month, month, weekday, such as `0 9 * * 1-5`."
    raise Refused(_problem("cron_syntax", expression, f"The expression {got}.", fix))


def _five_of(texts: list[str]) -> str:
    """What the person who wrote six or seven fields may have meant."""
    if len(texts) == 7:
        readings = [texts[1:6]]
    else:
        # Seconds come first wherever there are six fields, but for croniter, which has them last.
        readings = [texts[1:], texts[:5]] if texts[-1].isdecimal() else [texts[1:]]
    valid = list(dict.fromkeys(repair for reading in readings if (repair := _repaired(reading))))
    year = (
        " For a date in one year only, use `at`."
        if len(texts) == 7 or re.fullmatch(r"\d{4}", texts[-1])
        else ""
    )
    if not valid:
        return f"Write minute, hour, day of the month, month and weekday, such as `0 9 * * 1-5`.{year}"
    if texts[0] not in {"0", "00"} and valid[0] == "* * * * *":
        return "Nothing runs more often than every minute: write `*/5 * * * *`, or use `every`."
    second = f", or `{valid[1]}` if the last field counted the seconds or the year" if len(valid) > 1 else ""
    return f"Write `{valid[0]}`{second}.{year}"


def _repaired(texts: list[str]) -> str | None:
    """The five fields, with whatever in them can be repaired; None if that does not make them valid."""
    _, repaired, _ = _fields(texts)
    _, _, faults = _fields(repaired.split())
    return repaired if not faults and _day_conflict(repaired, repaired.split()) is None else None


def _problems(expression: str, repaired: str, faults: list[_Fault]) -> list[Problem]:
    whole = _repaired(repaired.split()) if all(fault.instead is not None for fault in faults) else None
    by_code: dict[str, Problem] = {}
    for fault in faults:
        fix = f"Write `{whole}`." if whole else ""
        fix = " ".join(part for part in (fix, fault.advice) if part)
        if not fix and fault.instead is not None:
            fix = f"Write `{fault.instead}` there."
        known = by_code.get(fault.code)
        problem = f"{known.problem} {fault.problem}" if known else fault.problem
        by_code[fault.code] = _problem(fault.code, expression, problem, fix or "Write `*` or a number there.")
    return list(by_code.values())


def _problem(code: str, expression: str, problem: str, fix: str) -> Problem:
    return Problem(code=code, field="cron", got=expression, problem=problem, fix=fix)


def _day_conflict(expression: str, texts: list[str]) -> Problem | None:
    day, weekday = texts[2].upper(), texts[4].upper()
    if starts_with_star(day) or starts_with_star(weekday):
        return None
    special = [day] if any(map(_is_special_day, day.split(","))) else []
    special += [weekday] if any(map(_is_special_weekday, weekday.split(","))) else []
    if not special:
        return None
    only_day = " ".join([*texts[:4], "*"])
    only_weekday = " ".join([*texts[:2], "*", *texts[3:]])
    return _problem(
        "cron_day_conflict",
        expression,
        f"`{special[0]}` cannot be combined with the other day field: "
        "two restricted day fields would mean either of the two.",
        f"Write `{only_weekday}` or `{only_day}`, or make two schedules for both.",
    )


def _is_special_day(item: str) -> bool:
    return "L" in item or "W" in item


def _is_special_weekday(item: str) -> bool:
    # No weekday's name begins or ends with an L.
    return "#" in item or item.startswith("L") or item.endswith("L")


def _field(field: Field, text: str) -> tuple[str, str, list[_Fault]]:
    """(normalised, repaired, faults): the field as it will be stored, or as it should have been written."""
    items: list[str] = []
    repaired: list[str] = []
    faults: list[_Fault] = []
    written = text.split(",")
    for item in written:
        try:
            items += _item(field, item.upper(), alone=len(written) == 1)
            repaired.append(item)
        except _Fault as fault:
            faults.append(fault)
            repaired.append(item if fault.instead is None else fault.instead)
    nth = [item for item in items if _is_special_weekday(item)]
    if field.is_weekday and not faults and nth and len(nth) < len(items):
        faults.append(
            _Fault(
                "cron_syntax",
                f"The weekday field `{text}` mixes every week with `#` or `L`.",
                advice=f"Write `{','.join(nth)}` there and make a second schedule for the rest.",
            )
        )
    if "*" in items:
        # Where `*` is not the first item the field has all values, but does not start with a `*`.
        items = ["*"] if items[0].startswith("*") else [f"{field.low}-{field.high}"]
    return ",".join(dict.fromkeys(items)), ",".join(dict.fromkeys(repaired)), faults


def _item(field: Field, item: str, *, alone: bool) -> list[str]:
    """The normalised items that one item of a list stands for."""
    _refuse_foreign(field, item)
    if field.is_day and _is_special_day(item):
        return [_last_or_nearest(item, alone=alone)]
    if field.is_weekday and _is_special_weekday(item):
        return [_nth_weekday(item)]
    base, slash, step_text = item.partition("/")
    step = 1
    if slash:
        step = _step(field, step_text)
        if step == 0:
            raise _Fault("cron_syntax", f"The step of `{item}` is 0.", instead=base)
        if step > field.width:
            raise _too_wide(field, item, base, step)
    if base == "*":
        return ["*" if step == 1 else f"*/{step}"]
    low_text, dash, high_text = base.partition("-")
    low = _value(field, low_text, item)
    if dash:
        high = _value(field, high_text, item)
    else:
        high = field.high if slash else low
        if field.is_weekday and low == 7:
            low, high = 0, (field.high if slash else 0)
    return _range(field, low, high, step)


def _range(field: Field, low: int, high: int, step: int) -> list[str]:
    if field.is_weekday:
        # Sunday is 0 and 7: as the start of a range it is 0, as its end 7, unless both ends are Sunday.
        if low == 7:
            low = 0
            high = 0 if high == 7 else high
        elif high == 0 and low > 0:
            high = 7
        elif low == 0 and high == 7:
            high = 6
    beyond = high if high >= low else high + field.width
    values = [(value - field.low) % field.width + field.low for value in range(low, beyond + 1, step)]
    if len(values) == 1:
        return [str(values[0])]
    if beyond <= field.high:
        return [f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}"]
    if step > 1:
        return [str(value) for value in dict.fromkeys(values)]
    last = (beyond - field.low) % field.width + field.low
    return [_span(low, field.high), _span(field.low, last)]


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _value(field: Field, text: str, item: str) -> int:
    if text.isascii() and text.isdecimal():
        value = int(text)
        if field.low <= value <= (7 if field.is_weekday else field.high):
            return value
        raise _Fault(
            "cron_syntax",
            f"`{text}` is outside the {field.name} field, which goes from {field.low} to {field.high}.",
            advice=f"Use a {field.name} from {field.low} to {field.high}.",
        )
    if text.casefold() in field.names:
        return field.names.index(text.casefold()) + field.low
    long_name = len(text) > 3 and text.casefold()[:3] in field.names
    instead = re.sub(r"[A-Z]{4,}", lambda name: name[0][:3], item).lower() if long_name else None
    shown = f"`{text}`" if text else "An empty item"
    names = f" or a name such as `{field.names[0]}`" if field.names else ""
    raise _Fault(
        "cron_syntax",
        f"{shown} is not a value of the {field.name} field.",
        instead=instead,
        advice=""
        if instead
        else f"Use a number from {field.low} to {field.high}{names}, or a list, range or step of them.",
    )


def _step(field: Field, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise _Fault(
            "cron_syntax",
            f"The step `{text}` in the {field.name} field is not a number.",
            advice="Write the step as a number, such as `*/5`.",
        )
    return int(text)


def _refuse_foreign(field: Field, item: str) -> None:
    """Tokens of other schedulers, each with its counterpart here."""
    if "~" in item:
        low = item.partition("~")[0]
        raise _Fault(
            "cron_random",
            f"`{item}` draws a random {field.name}; a schedule has one definite time.",
            instead=low if low.isdecimal() else str(field.low),
        )
    token = re.fullmatch(r"([RH])(?:\((\d+)-(\d+)\))?(?:/(\d+))?", item)
    if token is not None:
        letter, first, last, step = token.groups()
        around = f"{first}-{last}" if first else "*"
        instead = f"{around}/{step}" if step else first or str(field.low)
        kind, what = ("cron_random", "a random") if letter == "R" else ("cron_hash", "a hashed")
        raise _Fault(
            kind,
            f"`{item}` stands for {what} {field.name}; a schedule has one definite time.",
            instead=instead,
        )
    if "?" in item:
        raise _Fault("cron_quartz", "`?` is Quartz's sign for any day.", instead="*")


def _last_or_nearest(item: str, *, alone: bool) -> str:
    if item == "L":
        return item
    if item.startswith("L-"):
        raise _Fault(
            "cron_quartz",
            f"`{item}`, Quartz's days before the last of the month, does not exist here.",
            advice="Write `L` for the last day of the month, or a fixed day such as `28`.",
        )
    if item in {"LW", "WL"}:
        raise _Fault(
            "cron_quartz",
            f"`{item}`, Quartz's last working day of the month, does not exist here.",
            instead="L",
            advice="That is the last day of the month, whichever weekday it is.",
        )
    match = re.fullmatch(r"(\d{1,2})W|W(\d{1,2})", item)
    if match is None:
        raise _Fault(
            "cron_syntax",
            f"`{item}` is not a day of the month.",
            advice="Write `15W` for the working day nearest the 15th.",
        )
    day = _value(DAY, match[1] or match[2], item)
    if not alone:
        raise _Fault(
            "cron_syntax",
            f"`{item}` cannot be part of a list.",
            advice=f"Write `{day}W` as the whole day field and make a second schedule for the other days.",
        )
    return f"{day}W"


def _nth_weekday(item: str) -> str:
    if "#" in item:
        day_text, _, nth = item.partition("#")
        if nth not in {"1", "2", "3", "4", "5"} or not day_text:
            raise _Fault(
                "cron_syntax",
                f"`{item}` names no weekday of a month: there are a first to a fifth.",
                advice="Write `5#1` for the first Friday to `5#5` for the fifth, or `L5` for the last.",
            )
        if "-" in day_text:
            raise _Fault(
                "cron_syntax",
                f"`{item}` combines a range with `#`.",
                advice="Write a list such as `1#1,2#1` instead.",
            )
        return f"{_value(WEEKDAY, day_text, item) % 7}#{nth}"
    if item == "L":
        raise _Fault(
            "cron_quartz",
            "`L` alone in the weekday field is Quartz's Saturday.",
            instead="6",
            advice="Or write `L5` for the last Friday of the month.",
        )
    last = re.fullmatch(r"L(\d|[A-Z]{3})", item)
    if last is not None:
        return f"L{_value(WEEKDAY, last[1], item) % 7}"
    quartz = re.fullmatch(r"(\d|[A-Z]{3})L", item)
    if quartz is not None:
        day = _value(WEEKDAY, quartz[1], item) % 7
        raise _Fault(
            "cron_quartz",
            f"`{item}` is Quartz's form of the last weekday of the month.",
            instead=f"L{day}",
            advice=f"(`L{day}` is the last {_WEEKDAY_NAMES[day]} of the month.)",
        )
    raise _Fault(
        "cron_syntax", f"`{item}` is not a weekday.", advice="Write `L5` for the last Friday of the month."
    )


_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def _too_wide(field: Field, item: str, base: str, step: int) -> _Fault:
    problem = f"The step of `{item}` is wider than the {field.name} field, which has {field.width} values."
    if field.every_unit is not None:
        advice = f'Use `every: "{step}{field.every_unit}"` in place of `cron`.'
    else:
        advice = f"Write a step of at most {field.width}, or name the {field.name}s."
    return _Fault("cron_step_too_wide", problem, advice=advice)
