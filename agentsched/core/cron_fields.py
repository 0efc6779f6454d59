"""The five fields of a cron expression: what each accepts and normalises to (DESIGN §3).

What a field refuses is collected as faults, with what to write in its place, for `cron_dialect` to report.
"""

import re
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


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


class Fault(Exception):  # noqa: N818  # a finding about one item, not an error of the program
    """One item of a field is refused. `instead` is what that item should read, `advice` what to do else."""

    def __init__(self, code: str, problem: str, *, instead: str | None = None, advice: str = "") -> None:
        super().__init__(problem)
        self.code = code
        self.problem = problem
        self.instead = instead
        self.advice = advice


def normalise_field(field: Field, text: str) -> tuple[str, str, list[Fault]]:
    """(normalised, repaired, faults): the field as it will be stored, or as it should have been written."""
    items: list[str] = []
    repaired: list[str] = []
    faults: list[Fault] = []
    written = text.split(",")
    for item in written:
        try:
            items += _item(field, item.upper(), alone=len(written) == 1)
            repaired.append(item)
        except Fault as fault:
            faults.append(fault)
            repaired.append(item if fault.instead is None else fault.instead)
    nth = [item for item in items if is_special_weekday(item)]
    if field.is_weekday and not faults and nth and len(nth) < len(items):
        faults.append(
            Fault(
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
    if field.is_day and is_special_day(item):
        return [_last_or_nearest(item, alone=alone)]
    if field.is_weekday and is_special_weekday(item):
        return [_nth_weekday(item)]
    base, slash, step_text = item.partition("/")
    step = 1
    if slash:
        step = _step(field, step_text)
        if step == 0:
            raise Fault("cron_syntax", f"The step of `{item}` is 0.", instead=base or None)
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
        raise Fault(
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
    raise Fault(
        "cron_syntax",
        f"{shown} is not a value of the {field.name} field.",
        instead=instead,
        advice=""
        if instead
        else f"Use a number from {field.low} to {field.high}{names}, or a list, range or step of them.",
    )


def _step(field: Field, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise Fault(
            "cron_syntax",
            f"The step `{text}` in the {field.name} field is not a number.",
            advice="Write the step as a number, such as `*/5`.",
        )
    return int(text)


def _refuse_foreign(field: Field, item: str) -> None:
    """Tokens of other schedulers, each with its counterpart here."""
    if "~" in item:
        low = item.partition("~")[0]
        raise Fault(
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
        raise Fault(
            kind,
            f"`{item}` stands for {what} {field.name}; a schedule has one definite time.",
            instead=instead,
        )
    if "?" in item:
        raise Fault(
            "cron_quartz",
            "`?` is Quartz's sign for any day.",
            instead="*",
            advice="(Weekdays count from Sunday = 0 here; names such as `mon-fri` are safest.)",
        )


def _last_or_nearest(item: str, *, alone: bool) -> str:
    if item == "L":
        return item
    if item.startswith("L-"):
        raise Fault(
            "cron_quartz",
            f"`{item}`, Quartz's days before the last of the month, does not exist here.",
            advice="Write `L` for the last day of the month, or a fixed day such as `28`.",
        )
    if item in {"LW", "WL"}:
        raise Fault(
            "cron_quartz",
            f"`{item}`, Quartz's last working day of the month, does not exist here.",
            instead="L",
            advice="That is the last day of the month, whichever weekday it is.",
        )
    match = re.fullmatch(r"(\d{1,2})W|W(\d{1,2})", item)
    if match is None:
        raise Fault(
            "cron_syntax",
            f"`{item}` is not a day of the month.",
            advice="Write `15W` for the working day nearest the 15th.",
        )
    day = _value(DAY, match[1] or match[2], item)
    if not alone:
        raise Fault(
            "cron_syntax",
            f"`{item}` cannot be part of a list.",
            advice=f"Write `{day}W` as the whole day field and make a second schedule for the other days.",
        )
    return f"{day}W"


def _nth_weekday(item: str) -> str:
    if "#" in item:
        day_text, _, nth = item.partition("#")
        if nth not in {"1", "2", "3", "4", "5"} or not day_text:
            raise Fault(
                "cron_syntax",
                f"`{item}` names no weekday of a month: there are a first to a fifth.",
                advice="Write `5#1` for the first Friday to `5#5` for the fifth, or `L5` for the last.",
            )
        if "-" in day_text:
            raise Fault(
                "cron_syntax",
                f"`{item}` combines a range with `#`.",
                advice="Write a list such as `1#1,2#1` instead.",
            )
        return f"{_value(WEEKDAY, day_text, item) % 7}#{nth}"
    if item == "L":
        raise Fault(
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
        raise Fault(
            "cron_quartz",
            f"`{item}` is Quartz's form of the last weekday of the month.",
            instead=f"L{day}",
            advice=f"(`L{day}` is the last {_WEEKDAY_NAMES[day]} of the month.)",
        )
    raise Fault("cron_syntax", f"`{item}` is not a weekday.", advice="Write `L5` for the last Friday of the month.")


_WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def _too_wide(field: Field, item: str, base: str, step: int) -> Fault:
    problem = f"The step of `{item}` is wider than the {field.name} field, which has {field.width} values."
    if field.every_unit is not None:
        advice = f'Use `every: "{step}{field.every_unit}"` in place of `cron`.'
    else:
        advice = f"Write a step of at most {field.width}, or name the {field.name}s."
    return Fault("cron_step_too_wide", problem, advice=advice)


def is_special_day(item: str) -> bool:
    return "L" in item or "W" in item


def is_special_weekday(item: str) -> bool:
    # No weekday's name begins or ends with an L.
    return "#" in item or item.startswith("L") or item.endswith("L")
