"""Occurrences against the brute-force oracle, at and between changes of the clocks."""

from datetime import date, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentsched.core.cron import members, parse
from agentsched.core.problems import Refused
from agentsched.core.timing import Kind, Timing, next_occurrence, occurrences
from tests.core import oracle
from tests.core.expressions import ANY_DAY, ANY_MONTH, ANY_WEEKDAY, bounded, expressions, fields, frequent
from tests.core.oracle import Expression, Meaning, utc

# Each with a year in which something happens: a day left out in Apia, midnight gaps in Santiago and Sao Paulo, half
# an hour in Lord_Howe, Ramadan in Casablanca.
YEARS = {
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "Australia/Lord_Howe": 2026,
    "Asia/Kathmandu": 1986,
    "America/Santiago": 2026,
    "Africa/Casablanca": 2025,
    "Pacific/Apia": 2011,
    "America/Sao_Paulo": 2018,
}
CHANGES = [
    (zone, change)
    for zone, year in YEARS.items()
    for change in oracle.changes_of_clocks(zone, utc(f"{year - 1}-12-15"), utc(f"{year + 1}-01-15"))
]
# Gaps too long to be made up for, of three hours and of a day; clocks that change by half an hour and by two.
RARE_CHANGES = [
    ("Antarctica/Casey", utc("2009-10-17T18:00")),
    ("Pacific/Kwajalein", utc("1993-08-21T12:00")),
    ("Asia/Pyongyang", utc("2018-05-04T15:00")),
    ("Antarctica/Troll", utc("2026-03-29T01:00")),
    ("Antarctica/Troll", utc("2026-10-25T01:00")),
]
ALL_CHANGES = CHANGES + RARE_CHANGES


def cron(expression: str, zone: str) -> Timing:
    return Timing(kind=Kind.CRON, cron=expression, every_minutes=None, anchor_at=None, at=None, timezone=zone)


def occurs(expression: Expression) -> bool:
    try:
        parse(expression.text)
    except Refused as refused:
        codes = [problem.code for problem in refused.problems]
        if codes != ["cron_never_occurs"]:
            raise
        return False
    return True


def test_every_zone_changes_its_clocks() -> None:
    assert {zone for zone, _ in CHANGES} == set(YEARS)


@bounded(200)
@given(change=st.sampled_from(ALL_CHANGES), data=st.data(), start=st.integers(1, 40 * 60))
def test_around_a_change_of_the_clocks(change: tuple[str, datetime], data: st.DataObject, start: int) -> None:
    zone, at = change
    hour = (at - timedelta(minutes=1)).astimezone(oracle.pinned_zone(zone)).hour
    expression = data.draw(frequent(hour))
    after = at - timedelta(minutes=start)
    until = at + timedelta(hours=44)
    # The oracle walks one stretch for all starts, so that the wall clocks are computed once a change.
    expected = oracle.occurrences(expression, zone, at - timedelta(minutes=40 * 60 + 1), until)
    got = list(occurrences(cron(expression.text, zone), after, until))
    assert got == [instant for instant in expected if instant > after]


SPECIAL_DAYS = [
    Meaning("L", frozenset(), last_day=True),
    Meaning("30,L", frozenset([30]), last_day=True),
    *(Meaning(f"{day}W", frozenset(), nearest=day) for day in range(1, 32)),
]
SPECIAL_WEEKDAYS = [
    *(Meaning(f"{day}#{nth}", frozenset(), nth=frozenset([(day, nth)])) for day in range(7) for nth in range(1, 6)),
    *(Meaning(f"L{day}", frozenset(), nth=frozenset([(day, 0)])) for day in range(7)),
]


@pytest.mark.parametrize(
    ("day", "weekday"),
    [(day, ANY_WEEKDAY) for day in SPECIAL_DAYS] + [(ANY_DAY, weekday) for weekday in SPECIAL_WEEKDAYS],
    ids=lambda field: field.text,
)
def test_special_days_of_every_kind_of_month(day: Meaning, weekday: Meaning) -> None:
    noon = Expression(Meaning("0", frozenset([0])), Meaning("12", frozenset([12])), day, ANY_MONTH, weekday)
    parsed = parse(noon.text)
    # These months have all lengths and begin on all weekdays.
    for year, month in [(year, month) for year in range(2020, 2033) for month in (1, 2, 4)]:
        first = date(year, month, 1)
        days = [first + timedelta(days=count) for count in range(31)]
        expected = [at.day for at in days if at.month == month and noon.on(at)]
        assert members(parsed.days_of(year, month)) == expected, (year, month)


NINE = Meaning("9", frozenset([9]))
HALF_PAST = Meaning("30", frozenset([30]))
YEARLONG = [
    Expression(HALF_PAST, Meaning("0-3", frozenset([0, 1, 2, 3])), ANY_DAY, ANY_MONTH, ANY_WEEKDAY),
    Expression(
        Meaning("*/20", frozenset([0, 20, 40]), star=True),
        Meaning("22-2", frozenset([22, 23, 0, 1, 2])),
        ANY_DAY,
        ANY_MONTH,
        Meaning("sat-mon", frozenset([6, 0, 1])),
    ),
    Expression(Meaning("5", frozenset([5])), NINE, Meaning("L", frozenset(), last_day=True), ANY_MONTH, ANY_WEEKDAY),
]


@pytest.mark.parametrize(("zone", "year"), YEARS.items())
def test_over_a_whole_year(zone: str, year: int) -> None:
    after, until = utc(f"{year}-01-01"), utc(f"{year + 1}-01-01")
    for expression in YEARLONG:
        assert list(occurrences(cron(expression.text, zone), after, until)) == oracle.occurrences(
            expression, zone, after, until
        )


@bounded(60)
@given(expression=expressions(), zone=st.sampled_from(sorted(YEARS)))
def test_any_expression_over_a_fortnight(expression: Expression, zone: str) -> None:
    after = utc(f"{YEARS[zone]}-02-20")
    until = after + timedelta(days=14)
    expected = oracle.occurrences(expression, zone, after, until)
    if occurs(expression):
        # The normalised form means the same as the one that was written.
        timing = cron(parse(expression.text).normalised, zone)
        assert list(occurrences(timing, after, until)) == expected
    else:
        assert expected == []


@bounded(150)
@given(
    expression=expressions(),
    zone=st.sampled_from(sorted(YEARS)),
    after=st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)),
)
def test_occurrences_are_whole_minutes_that_increase(expression: Expression, zone: str, after: datetime) -> None:
    assume(occurs(expression))
    last = utc(after.isoformat())
    for instant in islice(occurrences(cron(expression.text, zone), last), 20):
        assert instant > last
        assert instant.utcoffset() == timedelta(0)
        assert (instant.second, instant.microsecond) == (0, 0)
        last = instant


@bounded(300)
@given(
    change=st.sampled_from(ALL_CHANGES),
    data=st.data(),
    start=st.integers(-60, 40 * 60),
    length=st.integers(0, 400 * 1440),
)
def test_the_walk_is_next_occurrence_repeated(
    change: tuple[str, datetime], data: st.DataObject, start: int, length: int
) -> None:
    zone, at = change
    hour = (at - timedelta(minutes=1)).astimezone(oracle.pinned_zone(zone)).hour
    expression = data.draw(st.one_of(frequent(hour), expressions()))
    assume(occurs(expression))
    timing = cron(expression.text, zone)
    after = at - timedelta(minutes=start)
    until = after + timedelta(minutes=length)
    walked = list(islice(occurrences(timing, after, until), 400))
    repeated: list[datetime] = []
    instant = next_occurrence(timing, after)
    while instant is not None and instant <= until and len(repeated) < 400:
        repeated.append(instant)
        instant = next_occurrence(timing, instant)
    assert walked == repeated


@bounded(60)
@given(expression=expressions(), zone=st.sampled_from(sorted(YEARS)), skip=st.integers(0, 10**6))
def test_an_occurrence_is_the_next_for_every_instant_since_the_one_before(
    expression: Expression, zone: str, skip: int
) -> None:
    assume(occurs(expression))
    timing = cron(expression.text, zone)
    first, second = islice(occurrences(timing, utc("2026-03-01")), 2)
    between = first + (second - first) * (skip % 1000) / 1000
    assert next_occurrence(timing, between) == second


@bounded(6)
@given(expression=expressions())
def test_the_smallest_gap_over_the_whole_cycle(expression: Expression) -> None:
    expected = oracle.smallest_gap(expression)
    if expected is None:
        with pytest.raises(Refused) as refused:
            parse(expression.text)
        assert refused.value.problems[0].code == "cron_never_occurs"
    else:
        assert parse(expression.text).smallest_gap_minutes() == expected


@pytest.mark.parametrize(
    ("expression", "minutes"),
    [
        ("0 0 1,31 1,12 *", 1440),
        ("0 0 1 1 *", 365 * 1440),
        ("0 0 29 2 *", 1461 * 1440),
        ("0 0 29 2 */7", 28 * 1461 // 4 * 1440),
        ("0 0 */31 1 5", 1827 * 1440),
        ("59,0 0,23 31 12 *", 59),
    ],
)
def test_the_smallest_gap_across_years(expression: str, minutes: int) -> None:
    assert parse(expression).smallest_gap_minutes() == minutes


@bounded(100)
@given(minute=fields(0, 59), hour=fields(0, 23))
def test_no_two_slots_are_closer_than_the_smallest_gap(minute: Meaning, hour: Meaning) -> None:
    expression = Expression(minute, hour, ANY_DAY, ANY_MONTH, ANY_WEEKDAY)
    gap = parse(expression.text).smallest_gap_minutes()
    slots = list(islice(occurrences(cron(expression.text, "UTC"), utc("2026-01-01")), 200))
    assert min((later - earlier) for earlier, later in pairwise(slots)) >= timedelta(minutes=gap)


def test_leap_days_across_the_year_2100() -> None:
    timing = cron("0 0 29 2 *", "Europe/Berlin")
    assert list(islice(occurrences(timing, utc("2092-03-01")), 2)) == [
        utc("2096-02-28T23:00"),
        utc("2104-02-28T23:00"),
    ]


def test_a_leap_day_on_a_sunday_is_found_forty_years_on() -> None:
    assert next_occurrence(cron("0 0 29 2 */7", "UTC"), utc("2088-03-01")) == utc("2128-02-29")


def test_a_slot_in_a_gap_and_one_at_its_end_are_one() -> None:
    timing = cron("0 2,3,4 29 3 *", "Europe/Berlin")
    assert list(occurrences(timing, utc("2026-03-29"), utc("2026-03-30"))) == [
        utc("2026-03-29T01:00"),
        utc("2026-03-29T02:00"),
    ]


def test_a_gap_of_three_hours_is_not_made_up_for() -> None:
    timing = cron("30 1,2,4,5 * * *", "Antarctica/Casey")
    assert list(occurrences(timing, utc("2009-10-17T12:00"), utc("2009-10-18T12:00"))) == [
        utc("2009-10-17T17:30"),
        utc("2009-10-17T18:30"),
    ]


def test_a_day_that_a_zone_left_out_has_no_occurrence() -> None:
    timing = cron("0 9 * * *", "Pacific/Apia")
    assert list(occurrences(timing, utc("2011-12-29"), utc("2012-01-01"))) == [
        utc("2011-12-29T19:00"),
        utc("2011-12-30T19:00"),
        utc("2011-12-31T19:00"),
    ]


def test_there_is_none_once_the_calendar_ends() -> None:
    assert next_occurrence(cron("0 0 1 1 *", "UTC"), utc("9998-06-01")) is None
