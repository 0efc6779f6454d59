"""The dialect: what expressions normalise to, and each refusal with its code and what to write instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.cron import parse
from agentsched.core.problems import Problem, Refused
from tests.core.expressions import bounded


def refusal(expression: str) -> Problem:
    with pytest.raises(Refused) as refused:
        parse(expression)
    (problem,) = refused.value.problems
    assert problem.field == "cron"
    assert problem.got == expression
    return problem


@pytest.mark.parametrize(
    ("expression", "normalised"),
    [
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("  0\t9  * *   mon-FRI\n", "0 9 * * 1-5"),
        ("0 9-9 * * *", "0 9 * * *"),
        ("0 22-2 * * *", "0 22-23,0-2 * * *"),
        ("0 22-2/2 * * *", "0 22,0,2 * * *"),
        ("59/15 * * * *", "59 * * * *"),
        ("5/25 * * * *", "5-59/25 * * * *"),
        ("10-20/15 * * * *", "10 * * * *"),
        ("*/1 */2 * * *", "* */2 * * *"),
        ("*/60 */24 */31 */12 */7", "*/60 */24 */31 */12 */7"),
        ("08,8 09 * * *", "8 9 * * *"),
        ("5,* * * * *", "0-59 * * * *"),
        ("*,5 * * * *", "* * * * *"),
        ("0 0 1 nov-feb *", "0 0 1 11-12,1-2 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 5-7", "0 0 * * 5-6,0"),
        ("0 0 * * 0-7", "0 0 * * 0-6"),
        ("0 0 * * 7-2", "0 0 * * 0-2"),
        ("0 0 * * fri-sun", "0 0 * * 5-6,0"),
        ("0 0 * * sun-sun", "0 0 * * 0"),
        ("0 0 * * 1/2", "0 0 * * 1-6/2"),
        ("0 0 W15 * *", "0 0 15W * *"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 * * fri#1", "0 0 * * 5#1"),
        ("0 0 * * 7#2,L7", "0 0 * * 0#2,L0"),
        ("@Daily", "0 0 * * *"),
        (" @weekly ", "0 0 * * 0"),
    ],
)
def test_normalised_forms(expression: str, normalised: str) -> None:
    assert parse(expression).normalised == normalised
    assert parse(normalised) == parse(expression)


@pytest.mark.parametrize(
    ("expression", "elapsed", "either_day"),
    [
        ("*/5 9 * * *", True, False),
        ("0 */2 1 * 1", True, True),
        ("0-59 0-23 * * 1", False, False),
        ("0 9 15 * 1", False, True),
        ("0 9 */2 * 1", False, False),
        ("0 9 1 * */2", False, False),
    ],
)
def test_a_leading_star_carries_meaning(expression: str, elapsed: bool, either_day: bool) -> None:
    cron = parse(expression)
    assert (cron.elapsed, cron.either_day) == (elapsed, either_day)


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("0 0 9 * * *", "Write `0 9 * * *`."),
        (
            "0 9 * * 1-5 0",
            "Write `9 * * 1-5 0`, or `0 9 * * 1-5` if the last field counted the seconds or the year.",
        ),
        ("0 0 9 ? * MON-FRI", "Write `0 9 * * MON-FRI`."),
        ("0 6 2 2 * 0 2030", "Write `6 2 2 * 0`. For a date in one year only, use `at`."),
        (
            "*/30 * * * * *",
            "Nothing runs more often than every minute: write `*/5 * * * *`, or use `every`.",
        ),
        ("1 2 3 4 5L 6#9", "Write minute, hour, day of the month, month and weekday, such as `0 9 * * 1-5`."),
    ],
)
def test_six_fields_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_six_fields"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("R * * * *", "Write `0 * * * *`."),
        ("R R * * *", "Write `0 0 * * *`."),
        ("0~30 9 * * *", "Write `0 9 * * *`."),
        ("~ 9 * * *", "Write `0 9 * * *`."),
    ],
)
def test_random_times_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_random"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("H * * * *", "Write `0 * * * *`."),
        ("H/5 * * * *", "Write `*/5 * * * *`."),
        ("h(10-20)/5 h h * *", "Write `10-20/5 0 1 * *`."),
    ],
)
def test_hashed_times_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_hash"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("@every 5m", 'Use `every: "5m"` in place of `cron`.'),
        ("@every", 'Use `every: "15m"` in place of `cron`.'),
        ("@reboot", "A schedule outlives restarts; give it a time, such as `@daily` or `0 9 * * *`."),
        (
            "@never",
            "Write one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, "
            "or five fields such as `0 9 * * *`.",
        ),
    ],
)
def test_other_names_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_alias"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("0 9 * * 5L", "Write `0 9 * * L5`. (`L5` is the last Friday of the month.)"),
        ("0 9 * * friL", "Write `0 9 * * L5`. (`L5` is the last Friday of the month.)"),
        ("0 9 * * L", "Write `0 9 * * 6`. Or write `L5` for the last Friday of the month."),
        ("0 9 LW * *", "Write `0 9 L * *`. That is the last day of the month, whichever weekday it is."),
        ("0 9 L-3 * *", "Write `L` for the last day of the month, or a fixed day such as `28`."),
        (
            "0 9 ? * 1-5",
            "Write `0 9 * * 1-5`. (Weekdays count from Sunday = 0 here; names such as `mon-fri` are safest.)",
        ),
    ],
)
def test_quartz_forms_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_quartz"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("*/90 * * * *", 'Use `every: "90m"` in place of `cron`.'),
        ("0 */36 * * *", 'Use `every: "36h"` in place of `cron`.'),
        ("0 0 */45 * *", 'Use `every: "45d"` in place of `cron`.'),
        ("0 0 1 */18 *", "Write a step of at most 12, or name the months."),
        ("0 0 * * */8", "Write a step of at most 7, or name the weekdays."),
        ("5/90 * * * *", 'Use `every: "90m"` in place of `cron`.'),
    ],
)
def test_steps_wider_than_the_field_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_step_too_wide"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("0 0 8-9 * 0#2", "Write `0 0 * * 0#2` or `0 0 8-9 * *`, or make two schedules for both."),
        ("0 0 1 * L5", "Write `0 0 * * L5` or `0 0 1 * *`, or make two schedules for both."),
        ("0 0 L * 1", "Write `0 0 * * 1` or `0 0 L * *`, or make two schedules for both."),
        ("0 0 15W * 1", "Write `0 0 * * 1` or `0 0 15W * *`, or make two schedules for both."),
    ],
)
def test_special_days_beside_another_restricted_day_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_day_conflict"
    assert problem.fix == fix


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("0 0 30 2 *", "Write a day up to 29, or `0 0 L 2 *` for the last day of the month."),
        ("0 0 31 2,4 *", "Write a day up to 30, or `0 0 L 2,4 *` for the last day of the month."),
        ("5 9 31W 2 *", "Write a day up to 29, or `5 9 L 2 *` for the last day of the month."),
    ],
)
def test_what_never_occurs_is_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_never_occurs"
    assert problem.fix == fix


@pytest.mark.parametrize("expression", ["0 0 30 2 1", "0 0 31 1,2 *", "0 0 29 2 */7", "0 0 * 2 1#5"])
def test_what_occurs_rarely_is_not(expression: str) -> None:
    assert parse(expression).smallest_gap_minutes() > 0


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("", "Write five fields: minute, hour, day of the month, month, weekday, such as `0 9 * * 1-5`."),
        (
            "0 9 * *",
            "Write five fields: minute, hour, day of the month, month, weekday, such as `0 9 * * 1-5`.",
        ),
        ("60 * * * *", "Use a minute from 0 to 59."),
        ("0 0 0 * *", "Use a day of the month from 1 to 31."),
        ("0 9 * * monday-friday", "Write `0 9 * * mon-fri`."),
        (
            "0 9 * foo *",
            "Use a number from 1 to 12 or a name such as `jan`, or a list, range or step of them.",
        ),
        ("0 9,,10 * * *", "Use a number from 0 to 23, or a list, range or step of them."),
        ("*/0 * * * *", "Write `* * * * *`."),
        ("*/x * * * *", "Write the step as a number, such as `*/5`."),
        ("0 9 * * 5#6", "Write `5#1` for the first Friday to `5#5` for the fifth, or `L5` for the last."),
        ("0 9 * * 1-5#1", "Write a list such as `1#1,2#1` instead."),
        ("0 9 * * 1,5#1", "Write `5#1` there and make a second schedule for the rest."),
        ("0 9 * * L9", "Use a weekday from 0 to 6."),
        ("0 9 * * L55", "Write `L5` for the last Friday of the month."),
        ("0 9 15W,16 * *", "Write `15W` as the whole day field and make a second schedule for the other days."),
        ("0 9 15-L * *", "Write `15W` for the working day nearest the 15th."),
        ("٣ * * * *", "Use a number from 0 to 59, or a list, range or step of them."),
        ("-5 * * * *", "Use a number from 0 to 59, or a list, range or step of them."),
        ("/0 * * * *", "Write `*` or a number there."),
    ],
)
def test_other_faults_are_refused(expression: str, fix: str) -> None:
    problem = refusal(expression)
    assert problem.code == "cron_syntax"
    assert problem.fix == fix


def test_endless_expressions_are_refused_without_repeating_them() -> None:
    with pytest.raises(Refused) as refused:
        parse("0," * 1000 + "0 * * * *")
    (problem,) = refused.value.problems
    assert problem.code == "cron_syntax"
    assert len(str(problem.got)) < 60


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(Refused) as refused:
        parse("*/90 H 5#1 * 5L")
    assert {problem.code for problem in refused.value.problems} == {
        "cron_step_too_wide",
        "cron_hash",
        "cron_syntax",
        "cron_quartz",
    }


@bounded(400)
@given(st.text("0123456789*/-,LWHR#?~@() monsufri", max_size=24) | st.text(max_size=12))
def test_whatever_is_written_is_parsed_or_refused_with_a_way_out(expression: str) -> None:
    try:
        cron = parse(expression)
    except Refused as refused:
        told = refused.problems
    else:
        told = ()
        assert parse(cron.normalised) == cron
    assert all(problem.code.startswith("cron_") and problem.problem and problem.fix for problem in told)


@bounded(300)
@given(
    st.lists(
        st.sampled_from(["*", "*/7", "5", "1-5", "5L", "L", "H", "?", "1#2", "R/5", "9W", "0", "mon"]),
        min_size=5,
        max_size=7,
    )
)
def test_a_repair_that_is_offered_is_accepted(fields: list[str]) -> None:
    try:
        parse(" ".join(fields))
    except Refused as refused:
        offered = [problem.fix for problem in refused.problems if problem.fix.startswith("Write `")]
    else:
        offered = []
    for fix in offered:
        repaired = fix.split("`")[1]
        if len(repaired.split()) == 5:
            assert parse(repaired).normalised
