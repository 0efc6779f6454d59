"""Hypothesis strategies for cron expressions together with what they mean, and the bounds for running them."""

import os
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st

from tests.core.oracle import Expression, Meaning

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

ANY_DAY = Meaning("*", frozenset(range(1, 32)), star=True)
ANY_MONTH = Meaning("*", frozenset(range(1, 13)), star=True)
ANY_WEEKDAY = Meaning("*", frozenset(range(7)), star=True)

Named = Callable[[int], str]


def bounded(examples: int) -> settings:
    """Settings for a property that tries that many examples, the same ones every time in CI."""
    return settings(max_examples=examples, deadline=None, derandomize="CI" in os.environ)


@st.composite
def _names(draw: st.DrawFn, names: tuple[str, ...], low: int) -> Named:
    upper, named = draw(st.booleans()), draw(st.booleans())

    def name(value: int) -> str:
        text = names[value - low] if named and names else str(value)
        return text.upper() if upper else text

    return name


@st.composite
def _item(draw: st.DrawFn, low: int, high: int, name: Named) -> tuple[str, frozenset[int]]:
    value = st.integers(low, high)
    width = high - low + 1
    first = draw(value)
    match draw(st.sampled_from(["value", "value", "range", "range step", "from step"])):
        case "value":
            return name(first), frozenset([first])
        case "from step":
            step = draw(st.integers(1, width))
            return f"{name(first)}/{step}", frozenset(range(first, high + 1, step))
        case kind:
            last = draw(st.one_of(value, st.integers(first, min(high, first + 3))))
            step = draw(st.integers(1, width)) if kind == "range step" else 1
            beyond = last if last >= first else last + width
            values = {(number - low) % width + low for number in range(first, beyond + 1, step)}
            return f"{name(first)}-{name(last)}" + (f"/{step}" if kind == "range step" else ""), frozenset(values)


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...] = ()) -> Meaning:
    """A field of plain values in [low, high]."""
    everything = frozenset(range(low, high + 1))
    match draw(st.sampled_from(["*", "*/n", "list", "list"])):
        case "*":
            return Meaning("*", everything, star=True)
        case "*/n":
            step = draw(st.integers(1, high - low + 1))
            return Meaning(f"*/{step}", frozenset(range(low, high + 1, step)), star=True)
        case _:
            name = draw(_names(names, low))
            items = draw(st.lists(_item(low, high, name), min_size=1, max_size=3))
            return Meaning(",".join(text for text, _ in items), frozenset().union(*(found for _, found in items)))


@st.composite
def special_days(draw: st.DrawFn) -> Meaning:
    """`L`, a list with `L`, or `W` alone."""
    day = draw(st.integers(1, 31))
    match draw(st.sampled_from(["L", "day,L", "W"])):
        case "L":
            return Meaning("L", frozenset(), last_day=True)
        case "day,L":
            return Meaning(f"{day},L", frozenset([day]), last_day=True)
        case _:
            return Meaning(draw(st.sampled_from([f"{day}W", f"W{day}"])), frozenset(), nearest=day)


@st.composite
def special_weekdays(draw: st.DrawFn) -> Meaning:
    """`5#1`, `L5`, or lists of them."""
    wanted = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=2))
    name = draw(_names(WEEKDAYS, 0))
    texts = [f"{name(day)}#{nth}" if nth else f"L{day}" for day, nth in wanted]
    return Meaning(",".join(texts), frozenset(), nth=frozenset(wanted))


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    """Any expression of the dialect, also such as never occur."""
    day, weekday = draw(fields(1, 31)), draw(fields(0, 6, WEEKDAYS))
    match draw(st.sampled_from(["plain", "plain", "special day", "special weekday"])):
        case "special day":
            day = draw(special_days())
            weekday = weekday if weekday.star else ANY_WEEKDAY
        case "special weekday":
            weekday = draw(special_weekdays())
            day = day if day.star else ANY_DAY
        case _:
            pass
    return Expression(draw(fields(0, 59)), draw(fields(0, 23)), day, draw(fields(1, 12, MONTHS)), weekday)


@st.composite
def frequent(draw: st.DrawFn, hour: int) -> Expression:
    """An expression that occurs about daily, most often near that hour."""
    near = st.sets(st.sampled_from([(hour + off) % 24 for off in (-1, 0, 1)]), min_size=1).map(_list_of)
    day, weekday = ANY_DAY, ANY_WEEKDAY
    if draw(st.integers(0, 3)) == 0:
        day, weekday = draw(fields(1, 31)), draw(fields(0, 6, WEEKDAYS))
    return Expression(draw(fields(0, 59)), draw(st.one_of(near, near, fields(0, 23))), day, ANY_MONTH, weekday)


def _list_of(values: set[int]) -> Meaning:
    return Meaning(",".join(map(str, sorted(values))), frozenset(values))
