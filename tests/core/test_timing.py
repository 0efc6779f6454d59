"""Timings: what a request builds or is refused for, the occurrences of each kind, and the minimum interval."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.durations import format_minutes, parse_duration
from agentsched.core.problems import Problem, Refused
from agentsched.core.timing import (
    Kind,
    Timing,
    build_timing,
    check_minimum_interval,
    next_occurrence,
    occurrences,
    smallest_gap_minutes,
)
from tests.core.expressions import bounded
from tests.core.oracle import utc

NOW = utc("2026-06-10T08:30:20.5")  # 10:30 in Berlin
BERLIN = "Europe/Berlin"


def build(**request: str | bool) -> Timing:
    wanted: dict[str, str | bool] = {"timezone": BERLIN, **request}
    return build_timing(now=NOW, **wanted)  # type: ignore[arg-type]


def refusal(**request: str | bool) -> Problem:
    with pytest.raises(Refused) as refused:
        build(**request)
    (problem,) = refused.value.problems
    return problem


class TestKinds:
    def test_cron(self) -> None:
        timing = build(cron=" 0 9 * * 1-5 ")
        assert (timing.kind, timing.cron, timing.timezone) == (Kind.CRON, "0 9 * * 1-5", BERLIN)
        assert list(islice(occurrences(timing, NOW), 3)) == [
            utc("2026-06-11T07:00"),
            utc("2026-06-12T07:00"),
            utc("2026-06-15T07:00"),
        ]

    def test_interval_counts_from_the_minute_of_its_creation(self) -> None:
        timing = build(every="90m")
        assert (timing.kind, timing.every_minutes, timing.anchor_at) == (
            Kind.INTERVAL,
            90,
            utc("2026-06-10T08:30"),
        )
        assert list(islice(occurrences(timing, NOW), 2)) == [utc("2026-06-10T10:00"), utc("2026-06-10T11:30")]

    def test_interval_never_occurs_at_its_anchor_or_before(self) -> None:
        timing = build(every="1h")
        assert next_occurrence(timing, utc("2026-01-01")) == utc("2026-06-10T09:30")
        assert next_occurrence(timing, utc("2026-06-10T08:29:59")) == utc("2026-06-10T09:30")
        assert next_occurrence(timing, utc("2026-06-10T09:30")) == utc("2026-06-10T10:30")

    def test_interval_takes_elapsed_time_through_a_change_of_the_clocks(self) -> None:
        timing = build(every="1d")
        in_winter = next_occurrence(timing, utc("2026-10-26"))
        assert in_winter == utc("2026-10-26T08:30")

    @bounded(60)
    @given(every=st.integers(1, 100_000), after=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)))
    def test_a_walk_of_intervals_is_next_occurrence_repeated(self, every: int, after: datetime) -> None:
        timing = build(every=format_minutes(every))
        repeated = [utc(after.isoformat())]
        for _ in range(20):
            instant = next_occurrence(timing, repeated[-1])
            assert instant is not None
            repeated.append(instant)
        assert list(occurrences(timing, repeated[0], repeated[-1])) == repeated[1:]

    def test_interval_ends_with_the_calendar(self) -> None:
        timing, end = build(every="1d"), datetime.max.replace(tzinfo=UTC)
        assert next_occurrence(timing, end) is None
        assert len(list(occurrences(timing, end - timedelta(days=3)))) == 3

    def test_once(self) -> None:
        timing = build(at="2026-12-03T09:00")
        assert (timing.kind, timing.at) == (Kind.ONCE, utc("2026-12-03T08:00"))
        assert list(occurrences(timing, NOW)) == [utc("2026-12-03T08:00")]
        assert next_occurrence(timing, utc("2026-12-03T08:00")) is None

    @pytest.mark.parametrize("at", ["2026-12-03T08:00Z", "2026-12-03T08:00z", "2026-12-03 10:00+02:00"])
    def test_an_at_with_an_offset_is_that_instant(self, at: str) -> None:
        assert build(at=at).at == utc("2026-12-03T08:00")

    def test_an_at_in_a_repeated_hour_is_its_first_instant(self) -> None:
        assert build(at="2026-10-25T02:30").at == utc("2026-10-25T00:30")

    def test_in_is_rounded_up_to_a_whole_minute(self) -> None:
        timing = build(in_="20m")
        assert (timing.kind, timing.at) == (Kind.ONCE, utc("2026-06-10T08:51"))

    def test_webhook_has_no_clock(self) -> None:
        timing = build(webhook=True)
        assert timing.kind is Kind.WEBHOOK
        assert next_occurrence(timing, NOW) is None
        assert list(occurrences(timing, NOW)) == []

    def test_a_timing_has_the_fields_of_its_kind_only(self) -> None:
        with pytest.raises(ValueError, match="exactly the fields of its kind"):
            Timing(kind=Kind.CRON, cron=None, every_minutes=5, anchor_at=NOW, at=None, timezone=BERLIN)

    def test_occurrences_include_their_end_and_not_their_start(self) -> None:
        timing = build(cron="0 * * * *")
        assert list(occurrences(timing, utc("2026-06-10T08:00"), utc("2026-06-10T10:00"))) == [
            utc("2026-06-10T09:00"),
            utc("2026-06-10T10:00"),
        ]

    @bounded(100)
    @given(
        every=st.integers(1, 100_000),
        after=st.datetimes(datetime(2026, 1, 1), datetime(2090, 1, 1)),
    )
    def test_intervals_keep_their_distance_from_the_anchor(self, every: int, after: datetime) -> None:
        timing = build(every=format_minutes(every))
        instant = next_occurrence(timing, utc(after.isoformat()))
        assert instant is not None
        assert timing.anchor_at is not None
        assert utc(after.isoformat()) < instant
        assert instant - utc(after.isoformat()) <= timedelta(minutes=every) or instant == (
            timing.anchor_at + timedelta(minutes=every)
        )
        assert (instant - timing.anchor_at) % timedelta(minutes=every) == timedelta(0)


class TestRefusals:
    @pytest.mark.parametrize("request_", [{}, {"cron": "0 9 * * *", "every": "1h"}, {"webhook": False}])
    def test_not_exactly_one(self, request_: dict[str, str | bool]) -> None:
        problem = refusal(**request_)
        assert problem.code == "timing_exactly_one"
        assert problem.fix.startswith('Write one, such as `cron: "0 9 * * 1-5"`')

    def test_all_problems_at_once(self) -> None:
        with pytest.raises(Refused) as refused:
            build(cron="0 0 9 * * *", timezone="Berlin")
        assert [problem.code for problem in refused.value.problems] == ["unknown_timezone", "cron_six_fields"]

    @pytest.mark.parametrize(
        ("duration", "code", "fix"),
        [
            ("30s", "duration_seconds", 'Write "1m".'),
            ("1m30s", "duration_seconds", 'Write "2m".'),
            ("0m", "duration_zero", 'Write at least "1m".'),
            ("99999d", "duration_too_long", 'Write at most "3650d".'),
            ("15", "duration_syntax", 'Add the unit: "15m", "15h" or "15d".'),
            ("1.5h", "duration_syntax", 'Write it in whole units: "1h30m".'),
            (
                "2 months",
                "duration_syntax",
                'Use days or weeks, or `cron`, such as "0 9 1 * *" for the first of every month.',
            ),
            (
                "soon",
                "duration_syntax",
                'Write a number with m, h, d or w, such as "90m", "2h", "1d" or "1h30m".',
            ),
            (
                "5 parsecs",
                "duration_syntax",
                'Write a number with m, h, d or w, such as "90m", "2h", "1d" or "1h30m".',
            ),
        ],
    )
    @pytest.mark.parametrize("field", ["every", "in_"])
    def test_durations(self, field: str, duration: str, code: str, fix: str) -> None:
        problem = refusal(**{field: duration})
        assert (problem.code, problem.field, problem.got) == (code, field.rstrip("_"), duration)
        assert problem.fix == fix

    @pytest.mark.parametrize(
        ("at", "code", "fix"),
        [
            ("tomorrow at 9", "at_syntax", 'Write a date and a time, such as "2026-12-03T09:00".'),
            ("2026-12-03", "at_syntax", 'Add the time of day, such as "2026-12-03T09:00".'),
            ("2026-02-30T09:00", "at_syntax", 'Write a date and a time, such as "2026-12-03T09:00".'),
            ("9999-12-31T23:59", "at_syntax", 'Write a date and a time, such as "2026-12-03T09:00".'),
            ("2026-12-03T09:00:30", "at_not_whole_minute", 'Write "2026-12-03T09:00".'),
            ("2026-12-03T09:00:30Z", "at_not_whole_minute", 'Write "2026-12-03T09:00+00:00".'),
            ("2027-03-28T02:30", "at_in_gap", 'Write "2027-03-28T03:00".'),
            ("2026-06-10T09:00", "at_in_past", 'Write "2026-06-11T09:00".'),
            ("2026-06-10T10:30", "at_in_past", 'Write "2026-06-11T10:30".'),
            ("2026-06-09T18:00", "at_in_past", 'Write "2026-06-10T18:00".'),
            ("2025-12-03T09:00", "at_in_past", 'Write "2026-12-03T09:00".'),
            ("2024-02-29T09:00", "at_in_past", 'Write "2028-02-29T09:00".'),
            ("2026-03-01T09:00", "at_in_past", 'Write "2027-03-01T09:00".'),
            ("2026-06-10T07:00Z", "at_in_past", 'Write "2026-06-11T09:00".'),
        ],
    )
    def test_at(self, at: str, code: str, fix: str) -> None:
        problem = refusal(at=at)
        assert (problem.code, problem.field, problem.got) == (code, "at", at)
        assert problem.fix == fix

    def test_an_at_in_the_past_names_the_local_time(self) -> None:
        assert "it is now 2026-06-10 10:30 in Europe/Berlin" in refusal(at="2026-06-10T09:00").problem

    def test_what_is_suggested_for_a_past_at_is_not_in_a_gap(self) -> None:
        with pytest.raises(Refused) as refused:
            build_timing(at="2026-03-28T02:30", timezone=BERLIN, now=utc("2026-03-28T12:00"))
        assert refused.value.problems[0].fix == 'Write "2026-03-29T03:00".'

    @bounded(200)
    @given(st.datetimes(datetime(1971, 1, 1), datetime(2026, 6, 10)), st.sampled_from([BERLIN, "Asia/Kathmandu"]))
    def test_what_is_suggested_for_a_past_at_is_accepted(self, at: datetime, timezone: str) -> None:
        past = at.replace(second=0, microsecond=0).isoformat(timespec="minutes")
        with pytest.raises(Refused) as refused:
            build(at=past, timezone=timezone)
        (problem,) = refused.value.problems
        # Wall clocks that a zone once skipped were never in the past.
        assert problem.code in {"at_in_past", "at_in_gap"}
        if problem.code == "at_in_past":
            assert build(at=problem.fix.split('"')[1], timezone=timezone).at is not None


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90m", 90),
        ("2h", 120),
        ("1d", 1440),
        ("1h30m", 90),
        ("1w 2d", 9 * 1440),
        (" 2 Hours ", 120),
        ("45 min", 45),
    ],
)
def test_durations_as_people_write_them(text: str, minutes: int) -> None:
    assert parse_duration(text, field="every") == minutes


@bounded(100)
@given(st.integers(1, 3650 * 1440))
def test_durations_are_written_as_they_are_read(minutes: int) -> None:
    assert parse_duration(format_minutes(minutes), field="every") == minutes


class TestMinimumInterval:
    @pytest.mark.parametrize(
        ("cron", "instead"),
        [
            ("* * * * *", "*/5 * * * *"),
            ("*/7 * * * *", "*/5 * * * *"),
            ("*/2 9-17 * * 1-5", "*/5 9-17 * * 1-5"),
            ("0,1 9 * * *", "0 9 * * *"),
            ("0,2,30 9 * * *", "0,30 9 * * *"),
            ("0,58 * * * *", "0 * * * *"),
            ("0-59 9 * * *", "0,5,10,15,20,25,30,35,40,45,50,55 9 * * *"),
        ],
    )
    def test_cron(self, cron: str, instead: str) -> None:
        problem = check_minimum_interval(build(cron=cron), 5)
        assert problem is not None
        assert (problem.code, problem.field, problem.got) == ("interval_too_short", "cron", cron)
        assert problem.fix.startswith(f"Write `{instead}`")
        assert check_minimum_interval(build(cron=instead), 5) is None

    def test_it_says_how_close_and_when(self) -> None:
        problem = check_minimum_interval(build(cron="58,0 0,23 * * *"), 5)
        assert problem is not None
        assert problem.problem == (
            "Two occurrences are only 2 minutes apart, at 23:58 and 00:00 on the next day: "
            "schedules are at least 5 minutes apart."
        )

    def test_a_day_apart_is_never_too_close_for_a_minimum_of_a_day(self) -> None:
        assert check_minimum_interval(build(cron="0 9 * * *"), 1440) is None
        problem = check_minimum_interval(build(cron="0 */6 * * *"), 1440)
        assert problem is not None
        assert problem.fix.startswith("Write `0 0 * * *`")

    def test_where_nothing_simple_is_far_enough_apart_an_interval_is(self) -> None:
        problem = check_minimum_interval(build(cron="0 9 * * *"), 3000)
        assert problem is not None
        assert problem.fix == 'Instead, use `every: "2d2h"` in place of `cron`.'

    def test_interval(self) -> None:
        problem = check_minimum_interval(build(every="3m"), 5)
        assert problem is not None
        assert (problem.code, problem.field, problem.fix) == ("interval_too_short", "every", 'Write "5m" or more.')
        assert check_minimum_interval(build(every="5m"), 5) is None

    @pytest.mark.parametrize("request_", [{"at": "2026-12-03T09:00"}, {"webhook": True}])
    def test_without_two_occurrences_nothing_is_too_close(self, request_: dict[str, str | bool]) -> None:
        assert smallest_gap_minutes(build(**request_)) is None
        assert check_minimum_interval(build(**request_), 5) is None
