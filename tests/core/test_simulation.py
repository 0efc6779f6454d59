"""The simulation: what each policy does with runs that take too long, fail, time out, or lose their workers."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.durations import format_seconds
from agentsched.core.limits import DEFAULT_TIMEOUT_SECONDS
from agentsched.core.misfire import DEFAULT_GRACE_SECONDS
from agentsched.core.overlap import Limits
from agentsched.core.problems import Refused
from agentsched.core.simulation import Assumptions, Plan, Simulation
from agentsched.core.simulation_words import outcome
from agentsched.core.simulator import simulate
from agentsched.core.timing import build_timing, occurrences
from agentsched.core.uptime import Down, Uptime
from agentsched.core.words import Misfire, Overlap, Reason, RunStatus, ScheduleStatus
from tests.core.expressions import bounded
from tests.core.oracle import utc

START = utc("2026-05-01T00:00Z")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def plan(overlap: str = "skip", cap: int | None = 1, *, cron: str = "*/5 * * * *", **policies: Any) -> Plan:
    """A schedule of every five minutes with the defaults of the service."""
    defaults: dict[str, Any] = {
        "timing": build_timing(cron=cron, timezone="UTC", now=START),
        "limits": Limits(Overlap(overlap), cap, policies.pop("queue_limit", 100)),
        "misfire": Misfire(policies.pop("misfire", "skip")),
        "misfire_grace_seconds": DEFAULT_GRACE_SECONDS,
        "start_deadline_seconds": 900,
        "timeout_seconds": DEFAULT_TIMEOUT_SECONDS,
        "cancel_grace_seconds": 30,
        "retry_max_attempts": 1,
        "retry_initial_delay_seconds": 30,
        "retry_max_delay_seconds": 900,
        "pause_after_failures": 3,
        "daily_run_limit": None,
        "max_runs": None,
        "ends_at": None,
    }
    return Plan(**(defaults | policies))


def play(
    schedule: Plan, run: int, *, minutes: int = 30, down: tuple[str, str] | None = None, **assumed: Any
) -> Simulation:
    windows = () if down is None else (Down(*(utc(f"2026-05-01T{clock}Z") for clock in down)),)
    return simulate(schedule, START, START + minutes * MINUTE, Assumptions(run, down=windows, **assumed))


def shown(simulation: Simulation) -> list[str]:
    """A line a row: the slot, what became of it, and when it was worked on."""
    lines = []
    for run in simulation.runs:
        what = run.status if run.reason is None else f"{run.status}({run.reason})"
        if run.reason == Reason.MISFIRE:
            what += f" {run.missed_count}"
        if run.started_at is not None:
            what += f" {run.started_at:%H:%M:%S}-{'' if run.ended_at is None else f'{run.ended_at:%H:%M:%S}'}"
        lines.append(f"{run.fire_at:%H:%M} {what}")
    return lines


@pytest.mark.parametrize(
    ("overlap", "cap", "expected"),
    [
        (
            "skip",
            1,
            "05 completed 05-17, 10 skipped(overlap), 15 skipped(overlap), 20 running 20-, "
            "25 skipped(overlap), 30 skipped(overlap)",
        ),
        (
            "skip",
            2,
            "05 completed 05-17, 10 completed 10-22, 15 skipped(overlap), 20 running 20-, "
            "25 running 25-, 30 skipped(overlap)",
        ),
        (
            "queue",
            1,
            "05 completed 05-17, 10 completed 17-29, 15 running 29-, 20 queued, 25 queued, 30 queued",
        ),
        (
            "queue",
            2,
            "05 completed 05-17, 10 completed 10-22, 15 completed 17-29, 20 running 22-, 25 running 29-, 30 queued",
        ),
        (
            "queue_latest",
            1,
            "05 completed 05-17, 10 skipped(superseded), 15 completed 17-29, 20 skipped(superseded), "
            "25 running 29-, 30 queued",
        ),
        (
            "queue_latest",
            2,
            "05 completed 05-17, 10 completed 10-22, 15 completed 17-29, 20 running 22-, 25 running 29-, 30 queued",
        ),
        (
            "replace",
            1,
            "05 cancelled 05-11, 10 cancelled 11-16, 15 cancelled 16-21, 20 cancelled 21-26, 25 running 26-, 30 queued",
        ),
        (
            "replace",
            2,
            "05 cancelled 05-16, 10 cancelled 10-16, 15 cancelled 16-26, 20 cancelled 20-26, "
            "25 running 26-, 30 running 30-",
        ),
        (
            "allow",
            None,
            "05 completed 05-17, 10 completed 10-22, 15 completed 15-27, 20 running 20-, "
            "25 running 25-, 30 running 30-",
        ),
        (
            "allow",
            2,
            "05 completed 05-17, 10 completed 10-22, 15 completed 17-29, 20 running 22-, 25 running 29-, 30 queued",
        ),
    ],
)
def test_runs_of_twelve_minutes_every_five(overlap: str, cap: int | None, expected: str) -> None:
    """Who is asked to stop takes a minute."""
    found = play(plan(overlap, cap, cancel_grace_seconds=90), 720, stop_seconds=60)
    assert [line.replace("00:", "").replace(":00", "") for line in shown(found)] == expected.split(", ")


def test_replace_fences_off_what_does_not_stop() -> None:
    found = play(plan("replace", cancel_grace_seconds=30), 720, stop_seconds=3600, minutes=10)
    assert shown(found) == ["00:05 running 00:05:00-", "00:10 queued"]
    found = play(plan("replace", cancel_grace_seconds=30), 720, stop_seconds=3600, minutes=12)
    assert shown(found) == ["00:05 cancelled 00:05:00-00:10:30", "00:10 running 00:10:30-"]


def test_replace_without_a_grace_waits_for_the_exit() -> None:
    found = play(plan("replace", cancel_grace_seconds=None), 1200, stop_seconds=120, minutes=13)
    assert shown(found) == ["00:05 cancelled 00:05:00-00:12:00", "00:10 running 00:12:00-"]


def test_what_is_done_before_it_stops_is_completed() -> None:
    found = play(plan("replace", cancel_grace_seconds=None), 310, stop_seconds=60, minutes=12)
    assert shown(found) == ["00:05 completed 00:05:00-00:10:10", "00:10 running 00:10:10-"]


def test_a_run_frees_its_slot_for_the_fire_of_the_instant_it_ends_at() -> None:
    found = play(plan(), 300, minutes=15)
    assert [run.status for run in found.runs] == ["completed", "completed", "running"]
    found = play(plan(), 301, minutes=15)
    assert [run.status for run in found.runs] == ["completed", "skipped", "running"]


def test_the_line_has_its_limit() -> None:
    found = play(plan("queue", queue_limit=2, timeout_seconds=7200), 3600)
    assert found.totals == {"running": 1, "queued": 2, "skipped": 3}
    assert found.reasons == {"queue_full": 3}
    assert (found.longest_line, found.most_in_flight) == (2, 1)


def test_the_time_line_counts_what_is_in_flight_and_in_line() -> None:
    found = play(plan("queue", 1), 420, minutes=20)
    assert [(f"{moment.at:%M:%S}", moment.in_flight, moment.waiting) for moment in found.timeline] == [
        ("00:00", 0, 0),
        ("05:00", 1, 0),
        ("10:00", 1, 1),
        ("12:00", 1, 0),
        ("15:00", 1, 1),
        ("19:00", 1, 0),
        ("20:00", 1, 1),
    ]
    assert [run.in_line for run in found.runs] == [0, 1, 1, 1]
    assert [run.waited_seconds for run in found.runs] == [0, 120, 240, None]
    assert found.longest_wait_seconds == 240


HOURLY = "0 * * * *"


@pytest.mark.parametrize(
    ("misfire", "overlap", "retry", "expected"),
    [
        ("skip", "queue", 1, "01:00 abandoned 01:00:00-03:10:00, 02:00 missed(misfire) 2, "
            "04:00 running 04:00:00-"),
        ("skip", "queue", 2, "01:00 completed 01:00:00-04:05:30, 02:00 missed(misfire) 2, "
            "04:00 running 04:05:30-"),
        ("latest", "queue", 1, "01:00 completed 01:00:00-04:05:00, 02:00 missed(misfire) 1, "
            "03:00 running 04:05:00-, 04:00 queued"),
        ("latest", "skip", 1, "01:00 completed 01:00:00-04:05:00, 02:00 missed(misfire) 1, "
            "03:00 skipped(overlap), 04:00 skipped(overlap)"),
        ("all", "skip", 1, "01:00 completed 01:00:00-04:05:00, 02:00 running 04:05:00-, "
            "03:00 queued, 04:00 skipped(overlap)"),
    ],
)  # fmt: skip
def test_two_hours_down_with_a_run_at_work(misfire: str, overlap: str, retry: int, expected: str) -> None:
    """The worker of the run of 01:00, which takes 55 minutes, dies with the service."""
    schedule = plan(overlap, cron=HOURLY, misfire=misfire, retry_max_attempts=retry, timeout_seconds=7200)
    found = play(schedule, 3300, minutes=250, down=("01:10", "03:10"))
    assert shown(found) == expected.split(", ")
    attempts_and_restarts = (2, 0) if retry == 2 else (1, int(misfire != "skip"))
    assert (found.runs[0].attempts, found.runs[0].restarts) == attempts_and_restarts


def test_a_lost_worker_within_the_grace_restarts() -> None:
    found = play(plan(), 120, minutes=12, down=("00:06:10", "00:06:50"))
    assert shown(found) == ["00:05 completed 00:05:00-00:09:00", "00:10 completed 00:10:00-00:12:00"]
    assert (found.runs[0].restarts, found.runs[0].attempts) == (1, 1)


def test_a_lease_outlives_a_short_time_down() -> None:
    found = play(plan(), 120, minutes=12, down=("00:06:50", "00:06:55"))
    assert shown(found)[0] == "00:05 completed 00:05:00-00:09:20"


def test_a_run_that_would_end_as_its_worker_dies_is_lost() -> None:
    found = play(plan(), 60, minutes=9, down=("00:06", "00:06:50"))
    assert shown(found) == ["00:05 completed 00:05:00-00:08:00"]
    found = play(plan(), 59, minutes=9, down=("00:06", "00:06:50"))
    assert shown(found) == ["00:05 completed 00:05:00-00:05:59"]


def test_the_third_loss_is_a_failure() -> None:
    windows = tuple(Down(START + minute * MINUTE, START + (minute + 1) * MINUTE) for minute in (6, 8, 10))
    found = simulate(plan(misfire="latest", overlap="skip"), START, START + 12 * MINUTE, Assumptions(240, down=windows))
    assert (found.runs[0].status, found.runs[0].error_code, found.runs[0].restarts) == ("failed", "lost", 2)


@pytest.mark.parametrize(
    ("until", "window", "expected"),
    [
        ("00:25", None, ["completed", "completed"]),
        ("00:26", None, ["missed(stranded)", "missed(stranded)"]),
        ("00:26", 900, ["completed", "completed"]),
        ("00:25", 599, ["missed(stranded)", "missed(stranded)"]),
    ],
)
def test_an_outage_strands_the_line(until: str, window: int | None, expected: list[str]) -> None:
    """Twice the period of five minutes, counted from tick to tick; the runs of 00:10 and 00:15 are in line."""
    found = play(plan("queue"), 900, minutes=90, down=("00:15:10", until), queue_adoption_window_seconds=window)
    assert [line.split()[1] for line in shown(found)[:3]] == ["abandoned", *expected]


def test_only_skip_is_stranded() -> None:
    found = play(plan("queue", misfire="latest"), 600, minutes=60, down=("00:15:10", "00:40"))
    assert Reason.STRANDED not in found.reasons


def test_retries_double_their_delay() -> None:
    schedule = plan(cron=HOURLY, retry_max_attempts=4, retry_max_delay_seconds=100)
    found = play(schedule, 10, minutes=60, fails_every=1)
    assert (found.runs[0].status, found.runs[0].attempts) == ("running", 1)
    found = play(schedule, 10, minutes=70, fails_every=1)
    # 10 s of work and 30, 60 and 100 s between them.
    assert shown(found) == ["01:00 failed 01:00:00-01:03:50"]
    assert (found.runs[0].attempts, found.runs[0].error_code) == (4, "error")


def test_a_run_that_waits_for_its_retry_holds_its_slot() -> None:
    schedule = plan(retry_max_attempts=3, retry_initial_delay_seconds=600)
    found = play(schedule, 60, minutes=20, fails_every=2)
    assert [run.status for run in found.runs] == ["completed", "retry_wait", "skipped", "skipped"]
    assert found.timeline[-1].in_flight == 1
    found = play(schedule, 60, minutes=25, fails_every=2)
    assert shown(found)[1] == "00:10 completed 00:10:00-00:22:00"


def test_a_retry_that_is_overdue_is_abandoned() -> None:
    schedule = plan(cron=HOURLY, retry_max_attempts=2, retry_initial_delay_seconds=300, start_deadline_seconds=900)
    found = play(schedule, 60, minutes=90, fails_every=1, down=("01:02", "01:21"))
    assert shown(found) == ["01:00 abandoned 01:00:00-01:21:00"]
    found = play(schedule, 60, minutes=90, fails_every=1, down=("01:02", "01:20"))
    assert shown(found) == ["01:00 failed 01:00:00-01:21:00"]


def test_three_failures_pause_it() -> None:
    found = play(plan("queue"), 420, minutes=60, fails_every=1)
    assert shown(found) == [
        "00:05 failed 00:05:00-00:12:00",
        "00:10 failed 00:12:00-00:19:00",
        "00:15 failed 00:19:00-00:26:00",
        "00:20 skipped(paused)",
        "00:25 skipped(paused)",
    ]
    assert (found.status, found.next_fire_at) == (ScheduleStatus.PAUSED, None)
    assert found.paused_at == START + 26 * MINUTE


def test_a_slot_due_at_the_instant_of_the_pause_is_accounted_for() -> None:
    found = play(plan(pause_after_failures=1), 300, minutes=60, fails_every=1)
    assert shown(found) == ["00:05 failed 00:05:00-00:10:00", "00:10 skipped(paused)"]


def test_a_completion_between_failures_keeps_it_going() -> None:
    found = play(plan(pause_after_failures=2), 60, minutes=60, fails_every=2)
    assert found.totals == {"completed": 6, "failed": 5, "running": 1}
    assert found.status is ScheduleStatus.ACTIVE


@pytest.mark.parametrize(("timeout", "ends"), [(600, "00:15:00"), (0, "00:30:00")])
def test_an_attempt_that_takes_too_long_times_out(timeout: int, ends: str) -> None:
    found = play(plan(timeout_seconds=timeout), 3600, minutes=31)
    assert shown(found)[0] == f"00:05 failed 00:05:00-{ends}"
    assert found.runs[0].error_code == "timeout"


def test_it_is_completed_after_its_last_run() -> None:
    found = play(plan("queue", max_runs=2), 360)
    assert shown(found) == ["00:05 completed 00:05:00-00:11:00", "00:10 completed 00:11:00-00:17:00"]
    assert (found.status, found.next_fire_at) == (ScheduleStatus.COMPLETED, None)
    assert play(plan(ends_at=START + 10 * MINUTE), 60).slots == 2
    assert play(plan(ends_at=START + 4 * MINUTE), 60).slots == 0
    assert play(plan(accounted_until=START + 20 * MINUTE), 60).slots == 2


def test_a_day_has_its_budget() -> None:
    schedule = plan(cron="0 */6 * * *", daily_run_limit=2)
    found = play(schedule, 60, minutes=36 * 60)
    # 06, 12, 18 of the first day; 00, 06, 12 of the second.
    assert [run.reason for run in found.runs] == [None, None, "budget", None, None, "budget"]


@pytest.mark.parametrize(
    ("cron", "days", "down", "code"),
    [
        ("*/5 * * * *", 32, None, "simulation_too_long"),
        ("* * * * *", 7, None, "simulation_too_many_slots"),
        ("*/5 * * * *", 1, (START - MINUTE, START + MINUTE), "simulation_down_outside"),
        ("*/5 * * * *", 1, (START + HOUR, START + HOUR), "simulation_down_outside"),
        ("*/5 * * * *", 1, (START + HOUR, START + 25 * HOUR), "simulation_down_outside"),
    ],
)
def test_too_much_is_refused(cron: str, days: int, down: tuple[datetime, datetime] | None, code: str) -> None:
    windows = () if down is None else (Down(*down),)
    with pytest.raises(Refused) as refused:
        simulate(plan(cron=cron), START, START + timedelta(days=days), Assumptions(60, down=windows))
    assert [problem.code for problem in refused.value.problems] == [code]


def test_as_much_as_is_allowed_is_simulated() -> None:
    with pytest.raises(Refused) as refused:
        simulate(plan(cron="* * * * *"), START, START + timedelta(days=7), Assumptions(60))
    assert refused.value.problems[0].fix == 'Write "10000m" or less.'
    assert simulate(plan(cron="* * * * *"), START, START + 10_000 * MINUTE, Assumptions(60)).slots == 10_000


def test_windows_that_touch_are_one() -> None:
    windows = [Down(START + 3 * MINUTE, START + 5 * MINUTE), Down(START, START + timedelta(seconds=170))]
    uptime = Uptime(windows)
    assert uptime.up_from(START) == START + 5 * MINUTE
    assert uptime.up_from(START + 5 * MINUTE) == START + 5 * MINUTE
    assert uptime.down_after(START - MINUTE) == START
    assert uptime.down_after(START) is None
    assert [(outage.last_minute, outage.until_minute) for outage in uptime.outages] == [
        (START - MINUTE, START + 5 * MINUTE)
    ]


@pytest.mark.parametrize(
    ("schedule", "run", "assumed", "expected"),
    [
        (plan(), 60, {}, "6 slots: 5 completed, 1 still running at the end."),
        (
            plan("queue"),
            600,
            {},
            "6 slots: 2 completed, 1 still running at the end, 3 still in line at the end. "
            "The longest wait was 10m, and at most 3 were in line at once.",
        ),
        (plan("skip", 2), 1200, {}, "6 slots: 2 completed, 2 skipped because the runs before still held the slots, "
         "2 still running at the end."),
        (plan(timeout_seconds=90), 100, {},
         "3 slots: 3 failed because an attempt took longer than timeout_seconds allows (1m30s). "
         "3 failures in a row paused the schedule on Fri 2026-05-01 00:16 +00:00."),
        (plan(max_runs=1), 60, {}, "1 slot: 1 completed. Then the schedule was completed."),
        (plan(cron="0 9 * * *"), 60, {}, "No slot is in this span."),
    ],
)  # fmt: skip
def test_the_outcome_in_words(schedule: Plan, run: int, assumed: dict[str, Any], expected: str) -> None:
    assert outcome(schedule, play(schedule, run, **assumed)) == expected


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (90, "1m30s"), (3600, "1h"), (90061, "1d1h1m1s")])
def test_durations_are_short(seconds: int, text: str) -> None:
    assert format_seconds(seconds) == text


CAPS = st.sampled_from(
    [(overlap, cap) for overlap in Overlap for cap in (1, 2, 3)] + [(Overlap.ALLOW, None)],
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    overlap, cap = draw(CAPS)
    return plan(
        overlap,
        cap,
        cron=draw(st.sampled_from(["*/5 * * * *", "*/7 * * * *", "3,10,40 * * * *", "0 * * * *"])),
        queue_limit=draw(st.sampled_from([None, 1, 3, 100])),
        misfire=draw(st.sampled_from(list(Misfire))),
        misfire_grace_seconds=draw(st.sampled_from([0, 120, 3600])),
        start_deadline_seconds=draw(st.sampled_from([60, 900])),
        timeout_seconds=draw(st.sampled_from([0, 200, 1800, 86_400])),
        cancel_grace_seconds=draw(st.sampled_from([None, 0, 30, 400])),
        retry_max_attempts=draw(st.integers(1, 4)),
        retry_initial_delay_seconds=draw(st.sampled_from([0, 30, 600])),
        pause_after_failures=draw(st.sampled_from([None, 1, 3])),
        daily_run_limit=draw(st.sampled_from([None, 5])),
        max_runs=draw(st.sampled_from([None, 4, 30])),
        ends_at=draw(st.sampled_from([None, START + 5 * HOUR])),
    )


@st.composite
def assumptions(draw: st.DrawFn, hours: int) -> Assumptions:
    seconds = st.integers(0, hours * 3600 - 60)
    windows = []
    for since in draw(st.lists(seconds, max_size=3)):
        length = draw(st.integers(1, hours * 3600 - since))
        windows.append(Down(START + timedelta(seconds=since), START + timedelta(seconds=since + length)))
    return Assumptions(
        run_seconds=draw(st.one_of(st.integers(1, 600), st.integers(1, 20_000))),
        stop_seconds=draw(st.sampled_from([0, 5, 60, 4000])),
        fails_every=draw(st.sampled_from([0, 1, 2, 3])),
        down=tuple(windows),
        misfire_all_keep=draw(st.sampled_from([2, 1000])),
        queue_adoption_window_seconds=draw(st.sampled_from([None, 600])),
    )


@bounded(200)
@given(plans(), st.data())
def test_whatever_the_policies(schedule: Plan, data: st.DataObject) -> None:
    hours = data.draw(st.integers(1, 12))
    assumed = data.draw(assumptions(hours))
    until = START + hours * HOUR

    found = simulate(schedule, START, until, assumed)

    check_every_slot_is_accounted_for_once(schedule, found)
    check_rows(found)
    check_limits(schedule, assumed, found)
    assert simulate(schedule, START, until, assumed) == found


def check_every_slot_is_accounted_for_once(schedule: Plan, found: Simulation) -> None:
    accounted: list[datetime] = []
    for run in found.runs:
        if run.missed_until is None:
            accounted.append(run.fire_at)
        else:
            stretch = [run.fire_at, *occurrences(schedule.timing, run.fire_at, run.missed_until)]
            assert len(stretch) == run.missed_count
            accounted += stretch
    slots = list(occurrences(schedule.timing, START, found.until))
    assert accounted == slots[: len(accounted)]
    if found.status is ScheduleStatus.ACTIVE:
        assert accounted == slots
    elif found.status is ScheduleStatus.PAUSED:
        assert found.paused_at is not None
        assert all(slot > found.paused_at for slot in slots[len(accounted) :])
    else:
        over = schedule.ends_at is not None and all(slot > schedule.ends_at for slot in slots[len(accounted) :])
        assert over or schedule.max_runs is not None
    assert found.slots == len(accounted) == sum(found.totals.values())


def check_rows(found: Simulation) -> None:
    for run in found.runs:
        assert (run.reason is not None) == (run.status in (RunStatus.SKIPPED, RunStatus.MISSED))
        assert (run.started_at is None) == (run.attempts == 0) == (run.waited_seconds is None)
        if run.started_at is not None:
            assert run.fire_at <= run.started_at <= found.until
        else:
            assert run.status in (RunStatus.SKIPPED, RunStatus.MISSED, RunStatus.QUEUED, RunStatus.CANCELLED)
        if run.ended_at is not None:
            assert (run.started_at or run.fire_at) <= run.ended_at <= found.until
        else:
            assert run.status in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.RETRY_WAIT)


def check_limits(schedule: Plan, assumed: Assumptions, found: Simulation) -> None:
    overlap, cap, queue_limit = schedule.limits
    if cap is not None:
        assert found.most_in_flight <= cap
    starts = [run.started_at for run in found.runs if run.started_at is not None]
    if cap is not None or schedule.misfire is not Misfire.ALL:
        assert starts == sorted(starts), "the line keeps its order"
    last = found.timeline[-1]
    in_flight = (RunStatus.RUNNING, RunStatus.RETRY_WAIT)
    assert last.in_flight == sum(run.status in in_flight for run in found.runs)
    assert last.waiting == sum(run.status is RunStatus.QUEUED for run in found.runs)
    assert [moment.at for moment in found.timeline] == sorted({moment.at for moment in found.timeline})
    if schedule.misfire is Misfire.ALL:
        return
    match overlap:
        case Overlap.SKIP:
            assert found.longest_line == 0
        case Overlap.QUEUE_LATEST | Overlap.REPLACE:
            assert found.longest_line <= 1
        case Overlap.QUEUE | Overlap.ALLOW:
            assert queue_limit is None or found.longest_line <= queue_limit
