"""The cron dialect (DESIGN §3): what is accepted, what it normalises to, and what to write instead.

A normalised expression has five fields of numbers, in which no range wraps, repeats or overshoots. Whether a
field starts with `*` carries meaning (day fields combine by it, the DST rule asks for it) and is preserved.
"""

import re
from typing import NoReturn

from agentsched.core.cron_fields import FIELDS, Fault, is_special_day, is_special_weekday, normalise_field
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

_LONGEST = 1000


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


def _fields(texts: list[str]) -> tuple[str, str, list[Fault]]:
    """(normalised, repaired, faults) of five fields."""
    normalised: list[str] = []
    repaired: list[str] = []
    faults: list[Fault] = []
    for field, text in zip(FIELDS, texts, strict=True):
        values, repair, found = normalise_field(field, text)
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
    # Seconds come first wherever there are six fields, but for croniter, which has them last.
    readings = [texts[1:6]]
    if len(texts) == 6 and texts[-1].isdecimal():
        readings.append(texts[:5])
    valid = list(dict.fromkeys(repair for reading in readings if (repair := _repaired(reading))))
    year = " For a date in one year only, use `at`." if len(texts) == 7 or re.fullmatch(r"\d{4}", texts[-1]) else ""
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


def _problems(expression: str, repaired: str, faults: list[Fault]) -> list[Problem]:
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
    special = [day] if any(map(is_special_day, day.split(","))) else []
    special += [weekday] if any(map(is_special_weekday, weekday.split(","))) else []
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
