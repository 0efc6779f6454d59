"""One fire of a due schedule: every due slot accounted for exactly once, by every policy (DESIGN §5, §7, §8, §10)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentsched.core.fire import DueSchedule, FireDecision, Slot, decide_fire
from agentsched.core.misfire import Stretch
from agentsched.core.overlap import Flight, Limits, Line, Waiting
from agentsched.core.timing import Kind, Timing, build_timing, next_occurrence, occurrences
from agentsched.core.words import Lane, Misfire, Overlap, Reason, RunStatus, Trigger
from tests.core.expressions import bounded
from tests.core.lines import FLIGHTS, WAITING, has_overdue, line
from tests.core.oracle import utc

MINUTE = timedelta(minutes=1)
HOURLY = build_timing(cron="0 * * * *", timezone="UTC", now=utc("2026-05-01T00:00:30"))
FIVE_MINUTELY = build_timing(cron="*/5 * * * *", timezone="UTC", now=utc("2026-05-01T00:00:30"))
DAY = 86_400


def due(timing: Timing = HOURLY, at: str = "2026-05-01T01:00", **given: Any) -> DueSchedule:
    """A due schedule with the defaults of the design; ``cap`` and ``queue_limit`` go into its limits."""
    overlap = given.pop("overlap", Overlap.SKIP)
    limits = Limits(overlap, given.pop("cap", 1), given.pop("queue_limit", 100))
    defaults: dict[str, Any] = {
        "misfire": Misfire.SKIP,
        "misfire_grace_seconds": 120,
        "ends_at": None,
        "max_runs": None,
        "runs_admitted": 0,
        "runs_left": None,
        "line": Line(),
    }
    return DueSchedule(timing=timing, limits=limits, next_fire_at=utc(at), **(defaults | given))


def fire(schedule: DueSchedule, now: str, *, keep: int = 1000) -> FireDecision:
    return decide_fire(schedule, utc(now), keep=keep)


def ledger(decision: FireDecision) -> list[str]:
    """The rows of a decision in short: `01:00 pending`, `02:00 skipped(overlap)`, `01:00-03:00 missed 3`."""
    rows = []
    if decision.missed is not None:
        rows.append(f"{decision.missed.first:%H:%M}-{decision.missed.last:%H:%M} missed {decision.missed.count}")
    for slot in decision.slots:
        reason = f"({slot.reason})" if slot.reason else ""
        rows.append(f"{slot.fire_at:%H:%M} {slot.status}{reason}{' overdue' if slot.overdue else ''}")
    return rows


def following(decision: FireDecision) -> str | None:
    return None if decision.next_fire_at is None else f"{decision.next_fire_at:%H:%M}"


class TestOneSlot:
    def test_fires_at_its_minute(self) -> None:
        assert fire(due(), "2026-05-01T01:00:00.2") == FireDecision(
            missed=None,
            slots=(Slot(utc("2026-05-01T01:00"), RunStatus.PENDING),),
            accounted_until=utc("2026-05-01T01:00"),
            next_fire_at=utc("2026-05-01T02:00"),
            admitted=1,
            supersede=(),
            cancel=(),
            ask=(),
            completes=False,
        )

    def test_two_minutes_late_is_on_time_and_three_are_not(self) -> None:
        assert ledger(fire(due(), "2026-05-01T01:02:59")) == ["01:00 pending"]
        late = fire(due(), "2026-05-01T01:03:00")
        assert late.missed == Stretch(utc("2026-05-01T01:00"), utc("2026-05-01T01:00"), 1)
        assert (ledger(late), late.admitted, following(late)) == (["01:00-01:00 missed 1"], 0, "02:00")

    @pytest.mark.parametrize(("now", "row"), [("09:00", "09:00 pending"), ("12:00", "09:00-09:00 missed 1")])
    def test_a_once_is_completed_whether_it_ran_or_was_missed(self, now: str, row: str) -> None:
        once = Timing(Kind.ONCE, None, None, None, utc("2026-05-01T09:00"), "UTC")
        got = fire(due(once, "2026-05-01T09:00"), f"2026-05-01T{now}")
        assert (ledger(got), got.next_fire_at, got.accounted_until) == ([row], None, utc("2026-05-01T09:00"))

    def test_an_interval_keeps_its_anchor_when_the_tick_is_late(self) -> None:
        quarter = build_timing(every="15m", timezone="UTC", now=utc("2026-05-01T00:00"))
        got = fire(due(quarter, "2026-05-01T00:30"), "2026-05-01T00:31:40")
        assert (ledger(got), following(got)) == (["00:30 pending"], "00:45")


class TestLateSlots:
    def test_skip_has_one_row_for_the_stretch_and_runs_what_is_on_time(self) -> None:
        got = fire(due(), "2026-05-01T05:01")
        assert (ledger(got), following(got)) == (["01:00-04:00 missed 4", "05:00 pending"], "06:00")
        assert got.accounted_until == utc("2026-05-01T05:00")

    def test_latest_runs_the_newest_late_one(self) -> None:
        got = fire(due(misfire=Misfire.LATEST), "2026-05-01T04:30")
        assert (ledger(got), following(got)) == (["01:00-03:00 missed 3", "04:00 pending"], "05:00")

    def test_latest_judges_the_punctual_one_with_the_late(self) -> None:
        got = fire(due(misfire=Misfire.LATEST), "2026-05-01T03:01")
        assert ledger(got) == ["01:00-02:00 missed 2", "03:00 pending"]

    def test_the_newest_of_latest_meets_the_overlap_policy(self) -> None:
        got = fire(due(misfire=Misfire.LATEST, line=line("r", "")), "2026-05-01T03:30")
        assert ledger(got) == ["01:00-02:00 missed 2", "03:00 skipped(overlap)"]

    def test_all_run_in_order_where_overlap_is_skip(self) -> None:
        got = fire(due(misfire=Misfire.ALL), "2026-05-01T03:30")
        assert ledger(got) == ["01:00 pending overdue", "02:00 queued overdue", "03:00 queued overdue"]

    def test_all_puts_the_punctual_one_in_the_line_too(self) -> None:
        got = fire(due(misfire=Misfire.ALL), "2026-05-01T02:01")
        assert ledger(got) == ["01:00 pending overdue", "02:00 queued overdue"]

    def test_all_runs_no_more_than_is_kept(self) -> None:
        got = fire(due(misfire=Misfire.ALL), "2026-05-01T05:30", keep=2)
        assert ledger(got) == ["01:00-03:00 missed 3", "04:00 pending overdue", "05:00 queued overdue"]

    @pytest.mark.parametrize(
        ("cap", "started"), [(None, 1), (1, 1), (2, 2)], ids=["no cap: one at a time", "one slot", "two slots"]
    )
    def test_all_under_allow(self, cap: int | None, started: int) -> None:
        got = fire(due(misfire=Misfire.ALL, overlap=Overlap.ALLOW, cap=cap), "2026-05-01T04:30")
        assert [slot.status for slot in got.slots] == [RunStatus.PENDING] * started + [RunStatus.QUEUED] * (4 - started)

    def test_all_goes_past_the_queue_limit(self) -> None:
        schedule = due(misfire=Misfire.ALL, overlap=Overlap.QUEUE, queue_limit=1, line=line("r", "l"))
        assert [slot.status for slot in fire(schedule, "2026-05-01T03:30").slots] == [RunStatus.QUEUED] * 3


class TestSeveralOnTime:
    """With a long grace one fire has several slots that are on time; each meets the line that the one before left."""

    def several(self, **given: Any) -> DueSchedule:
        return due(FIVE_MINUTELY, "2026-05-01T01:05", misfire_grace_seconds=DAY, **given)

    def test_skip(self) -> None:
        got = fire(self.several(cap=2), "2026-05-01T01:20")
        expected = ["01:05 pending", "01:10 pending", "01:15 skipped(overlap)", "01:20 skipped(overlap)"]
        assert (ledger(got), got.admitted) == (expected, 2)

    def test_queue_up_to_its_limit(self) -> None:
        got = fire(self.several(overlap=Overlap.QUEUE, queue_limit=2), "2026-05-01T01:20")
        assert ledger(got) == ["01:05 pending", "01:10 queued", "01:15 queued", "01:20 skipped(queue_full)"]

    def test_queue_latest_leaves_the_newest_waiting(self) -> None:
        got = fire(self.several(overlap=Overlap.QUEUE_LATEST, line=line("r", "l")), "2026-05-01T01:15")
        expected = ["01:05 skipped(superseded)", "01:10 skipped(superseded)", "01:15 queued"]
        assert (ledger(got), got.supersede, got.admitted) == (expected, (11,), 1)

    def test_replace_starts_only_the_newest(self) -> None:
        """A run that would have been pending for no time at all is recorded as superseded, not as cancelled."""
        got = fire(self.several(overlap=Overlap.REPLACE), "2026-05-01T01:15")
        expected = ["01:05 skipped(superseded)", "01:10 skipped(superseded)", "01:15 pending"]
        assert (ledger(got), got.cancel, got.admitted) == (expected, (), 1)

    def test_replace_asks_once_and_leaves_the_newest_waiting(self) -> None:
        got = fire(self.several(overlap=Overlap.REPLACE, cap=2, line=line("rw", "l")), "2026-05-01T01:10")
        assert ledger(got) == ["01:05 skipped(superseded)", "01:10 queued"]
        assert (got.supersede, got.cancel, got.ask) == ((11,), (2,), (1,))

    def test_allow(self) -> None:
        got = fire(self.several(overlap=Overlap.ALLOW, cap=None, line=line("rr", "")), "2026-05-01T01:15")
        assert ledger(got) == ["01:05 pending", "01:10 pending", "01:15 pending"]

    def test_only_the_newest_waits_for_a_backfill(self) -> None:
        got = fire(self.several(line=line("b", "")), "2026-05-01T01:15")
        assert ledger(got) == ["01:05 skipped(superseded)", "01:10 skipped(superseded)", "01:15 queued"]

    @pytest.mark.parametrize(("now", "slots", "next_fire"), [("01:10", 2, "01:15"), ("01:15", 3, "01:20")])
    def test_the_slot_of_this_very_instant_is_due_and_not_next(self, now: str, slots: int, next_fire: str) -> None:
        got = fire(self.several(overlap=Overlap.ALLOW, cap=None), f"2026-05-01T{now}:00")
        assert (len(got.slots), following(got)) == (slots, next_fire)


class TestTheEnd:
    def test_the_slot_at_ends_at_fires_and_completes(self) -> None:
        got = fire(due(ends_at=utc("2026-05-01T01:00")), "2026-05-01T01:00:01")
        assert (ledger(got), got.next_fire_at) == (["01:00 pending"], None)

    def test_the_last_slot_before_ends_at_completes(self) -> None:
        assert fire(due(ends_at=utc("2026-05-01T01:59")), "2026-05-01T01:00").next_fire_at is None
        assert following(fire(due(ends_at=utc("2026-05-01T02:00")), "2026-05-01T01:00")) == "02:00"

    def test_no_slot_after_ends_at_is_due_however_late_the_fire(self) -> None:
        got = fire(due(ends_at=utc("2026-05-01T03:30")), "2026-05-01T09:00")
        assert (ledger(got), got.next_fire_at) == (["01:00-03:00 missed 3"], None)
        newest = fire(due(ends_at=utc("2026-05-01T03:30"), misfire=Misfire.LATEST), "2026-05-01T09:00")
        assert (ledger(newest), newest.next_fire_at) == (["01:00-02:00 missed 2", "03:00 pending"], None)

    def test_the_run_that_reaches_max_runs_completes(self) -> None:
        assert fire(due(max_runs=2, runs_admitted=1), "2026-05-01T01:00").next_fire_at is None
        assert following(fire(due(max_runs=3, runs_admitted=1), "2026-05-01T01:00")) == "02:00"

    def test_a_queued_run_counts_for_max_runs(self) -> None:
        got = fire(due(overlap=Overlap.QUEUE, max_runs=1, line=line("m", "")), "2026-05-01T01:00")
        assert (ledger(got), got.next_fire_at) == (["01:00 queued"], None)

    def test_skipped_and_missed_slots_do_not_count_for_max_runs(self) -> None:
        skipped = fire(due(max_runs=1, line=line("m", "")), "2026-05-01T01:00")
        assert (skipped.admitted, following(skipped)) == (0, "02:00")
        missed = fire(due(max_runs=1), "2026-05-01T03:30")
        assert (missed.admitted, following(missed)) == (0, "04:00")

    def test_slots_superseded_in_the_same_fire_do_not_count_for_max_runs(self) -> None:
        schedule = due(overlap=Overlap.QUEUE_LATEST, max_runs=2, misfire_grace_seconds=DAY, line=line("r", ""))
        got = fire(schedule, "2026-05-01T04:00")
        expected = ["01:00 skipped(superseded)", "02:00 skipped(superseded)", "03:00 skipped(superseded)"]
        assert (ledger(got), got.admitted, following(got)) == ([*expected, "04:00 queued"], 1, "05:00")

    def test_what_is_due_after_max_runs_is_not_due_any_more(self) -> None:
        got = fire(due(misfire=Misfire.ALL, max_runs=2), "2026-05-01T04:30")
        assert (ledger(got), got.next_fire_at) == (["01:00 pending overdue", "02:00 queued overdue"], None)
        assert got.accounted_until == utc("2026-05-01T02:00")

    def test_missed_slots_come_before_the_run_that_reaches_max_runs(self) -> None:
        got = fire(due(max_runs=1), "2026-05-01T03:01")
        assert (ledger(got), got.next_fire_at) == (["01:00-02:00 missed 2", "03:00 pending"], None)


class TestBudget:
    @pytest.mark.parametrize("left", [0, -3])
    def test_a_slot_over_budget_is_recorded(self, left: int) -> None:
        got = fire(due(runs_left=left), "2026-05-01T01:00")
        assert (ledger(got), got.admitted, following(got)) == (["01:00 skipped(budget)"], 0, "02:00")

    def test_it_is_spent_by_started_and_queued_runs(self) -> None:
        schedule = due(overlap=Overlap.QUEUE, misfire_grace_seconds=DAY, runs_left=2)
        assert ledger(fire(schedule, "2026-05-01T03:00")) == ["01:00 pending", "02:00 queued", "03:00 skipped(budget)"]

    def test_it_does_not_hide_an_overlap(self) -> None:
        assert ledger(fire(due(runs_left=0, line=line("r", "")), "2026-05-01T01:00")) == ["01:00 skipped(overlap)"]

    @pytest.mark.parametrize(("overlap", "at"), [(Overlap.REPLACE, "rw"), (Overlap.QUEUE_LATEST, "r")])
    def test_a_slot_over_budget_takes_nobody_elses_place(self, overlap: Overlap, at: str) -> None:
        got = fire(due(overlap=overlap, runs_left=0, line=line(at, "l")), "2026-05-01T01:00")
        assert (got.supersede, got.cancel, got.ask) == ((), (), ())
        assert ledger(got) == ["01:00 skipped(budget)"]

    def test_overdue_slots_spend_it_too(self) -> None:
        got = fire(due(misfire=Misfire.ALL, runs_left=1), "2026-05-01T02:30")
        assert ledger(got) == ["01:00 pending overdue", "02:00 skipped(budget)"]


ANCHOR = utc("2026-05-01T00:00")
INTERVALS = [Timing(Kind.INTERVAL, None, every, ANCHOR, None, "UTC") for every in (1, 5, 7, 60, 1440)]
CRONS = [
    Timing(Kind.CRON, expression, None, None, None, zone)
    for expression, zone in [
        ("0,20,50 * * * *", "Asia/Kathmandu"),
        ("30 2 * * *", "Europe/Berlin"),
        ("*/30 * * * *", "America/New_York"),
        ("0 9 * * 1-5", "Australia/Lord_Howe"),
    ]
]
STARTS = [utc("2026-05-01T03:17"), utc("2026-03-27T23:50"), utc("2026-10-24T22:10")]


@st.composite
def lines(draw: st.DrawFn) -> Line:
    flights = draw(st.text(alphabet=list(FLIGHTS), max_size=3))
    return line(flights, draw(st.text(alphabet=list(WAITING), max_size=3)))


@st.composite
def schedules(draw: st.DrawFn) -> DueSchedule:
    """Any due schedule that a request can make."""
    timing = draw(st.sampled_from(INTERVALS + CRONS))
    at = next_occurrence(timing, draw(st.sampled_from(STARTS)))
    assert at is not None
    overlap, misfire = draw(st.sampled_from(Overlap)), draw(st.sampled_from(Misfire))
    assume(misfire is not Misfire.ALL or overlap not in (Overlap.QUEUE_LATEST, Overlap.REPLACE))
    cap = draw(st.sampled_from([None, 1, 2, 3] if overlap is Overlap.ALLOW else [1, 2, 3]))
    max_runs = draw(st.one_of(st.none(), st.integers(1, 6)))
    return DueSchedule(
        timing=timing,
        limits=Limits(overlap, cap, draw(st.one_of(st.none(), st.integers(1, 4)))),
        misfire=misfire,
        misfire_grace_seconds=draw(st.sampled_from([0, 120, 3600, DAY])),
        next_fire_at=at,
        ends_at=draw(st.one_of(st.none(), st.integers(0, 600).map(lambda minutes: at + minutes * MINUTE))),
        max_runs=max_runs,
        runs_admitted=0 if max_runs is None else draw(st.integers(0, max_runs - 1)),
        runs_left=draw(st.one_of(st.none(), st.integers(-1, 4))),
        line=draw(lines()),
    )


@st.composite
def fires(draw: st.DrawFn) -> tuple[DueSchedule, datetime, int]:
    """A due schedule, an instant at which it is due, and how many overdue slots are kept."""
    schedule = draw(schedules())
    every = schedule.timing.every_minutes or 30
    # Often to the second of a slot, where a tick that is on time finds it.
    late = draw(st.one_of(st.integers(0, 12).map(lambda periods: periods * every * 60), st.integers(0, 720 * every)))
    return schedule, schedule.next_fire_at + timedelta(seconds=late), draw(st.integers(1, 5))


def slots_until(schedule: DueSchedule, now: datetime) -> list[datetime]:
    """All due slots, of intervals by counting."""
    end = now if schedule.ends_at is None else min(now, schedule.ends_at)
    first, every = schedule.next_fire_at, schedule.timing.every_minutes
    if every is None:
        return list(occurrences(schedule.timing, first - MINUTE, end))
    return [first + number * every * MINUTE for number in range((end - first) // (every * MINUTE) + 1)]


def accounted(decision: FireDecision, slots: Sequence[datetime]) -> list[datetime]:
    """The slots that a decision accounts for, given all from its first on."""
    missed = decision.missed
    if missed is None:
        return [slot.fire_at for slot in decision.slots]
    stretch = list(slots[: missed.count])
    assert (stretch[0], stretch[-1]) == (missed.first, missed.last)
    return stretch + [slot.fire_at for slot in decision.slots]


@bounded(300)
@given(fires())
def test_any_fire_of_any_schedule(case: tuple[DueSchedule, datetime, int]) -> None:
    schedule, now, keep = case
    got = decide_fire(schedule, now, keep=keep)
    check_every_due_slot_is_accounted_for_once(schedule, now, got)
    check_limits_are_kept(schedule, keep, got)
    check_the_line_stays_in_order(schedule, got)


def check_every_due_slot_is_accounted_for_once(schedule: DueSchedule, now: datetime, got: FireDecision) -> None:
    slots = slots_until(schedule, now)
    rows = accounted(got, slots)
    reached = schedule.max_runs is not None and schedule.runs_admitted + got.admitted == schedule.max_runs

    assert rows == slots[: len(rows)]
    assert rows == slots or reached
    assert got.accounted_until == rows[-1]
    assert not reached or got.slots[-1].status is not RunStatus.SKIPPED

    after = next_occurrence(schedule.timing, max(now, got.accounted_until))
    if reached or after is None or (schedule.ends_at is not None and after > schedule.ends_at):
        assert got.next_fire_at is None
    else:
        assert got.next_fire_at == after
        assert got.next_fire_at > max(now, got.accounted_until)


def check_limits_are_kept(schedule: DueSchedule, keep: int, got: FireDecision) -> None:
    overlap, cap, queue_limit = schedule.limits
    started = [slot for slot in got.slots if slot.status is RunStatus.PENDING]
    queued = [slot for slot in got.slots if slot.status is RunStatus.QUEUED]

    assert got.admitted == len(started) + len(queued)
    assert schedule.max_runs is None or schedule.runs_admitted + got.admitted <= schedule.max_runs
    assert schedule.runs_left is None or got.admitted <= max(0, schedule.runs_left)
    assert len([slot for slot in got.slots if slot.overdue]) <= keep

    flying = len(schedule.line.in_flight) - len(got.cancel)
    if started and cap is not None:
        assert flying + len(started) <= cap
    if cap is None:
        assert all(slot.overdue for slot in queued)
        others = has_overdue(schedule.line)
        assert sum(slot.overdue for slot in started) <= (not others)

    live = [waiting for waiting in schedule.line.waiting if waiting.lane is Lane.LIVE]
    left = [waiting for waiting in live if waiting.run_id not in got.supersede]
    punctual = [slot for slot in queued if not slot.overdue]
    if overlap in (Overlap.QUEUE, Overlap.ALLOW) and punctual and queue_limit is not None:
        assert len(left) + len(queued) <= queue_limit
    if overlap in (Overlap.SKIP, Overlap.QUEUE_LATEST, Overlap.REPLACE) and punctual:
        assert len(punctual) == 1
        assert all(waiting.overdue for waiting in left)


def check_the_line_stays_in_order(schedule: DueSchedule, got: FireDecision) -> None:
    """Nobody starts before a live run that waits, unless there is no cap; nothing is done twice to one run."""
    live = [waiting.run_id for waiting in schedule.line.waiting if waiting.lane is Lane.LIVE]
    admitted = [slot.status for slot in got.slots if slot.status is not RunStatus.SKIPPED]
    if schedule.limits.cap is not None:
        assert admitted == sorted(admitted, key=lambda status: status is RunStatus.QUEUED)
        assert RunStatus.PENDING not in admitted or set(live) <= set(got.supersede)

    flying = {flight.run_id for flight in schedule.line.in_flight}
    touched = [*got.supersede, *got.cancel, *got.ask]
    assert len(set(touched)) == len(touched)
    assert set(got.supersede) <= set(live)
    assert {*got.cancel, *got.ask} <= flying
    if not admitted:
        assert touched == []


@bounded(150)
@given(fires(), st.lists(st.integers(-400, 1500), max_size=6))
def test_however_the_ticks_come_no_slot_is_repeated_and_none_is_lost(
    case: tuple[DueSchedule, datetime, int], steps: list[int]
) -> None:
    """Ticks that are lost, doubled, late or in a clock that steps back; between them the line moves as it was told."""
    schedule, now, keep = case
    begin, rows = schedule, list[datetime]()
    newest, completed = now, False
    for step in [0, 0, *steps]:
        now += step * MINUTE
        if completed or schedule.next_fire_at > now:
            continue
        newest = max(newest, now)
        got = decide_fire(schedule, now, keep=keep)
        rows += accounted(got, slots_until(schedule, now))
        completed = got.next_fire_at is None
        schedule = schedule._replace(
            next_fire_at=got.next_fire_at or schedule.next_fire_at,
            line=line_after(schedule.line, got, first_id=1000 * len(rows)),
            runs_admitted=schedule.runs_admitted + got.admitted,
            runs_left=None if schedule.runs_left is None else schedule.runs_left - got.admitted,
        )
    assert rows == slots_until(begin, newest)[: len(rows)]
    assert rows == slots_until(begin, newest) or (completed and schedule.runs_admitted == schedule.max_runs)


@bounded(150)
@given(fires())
def test_one_fire_of_several_slots_ends_as_one_fire_for_each(case: tuple[DueSchedule, datetime, int]) -> None:
    """Whoever ticks seldom gets the line that he would have got by ticking at each slot."""
    schedule, now, keep = case
    schedule = schedule._replace(misfire_grace_seconds=10**9, max_runs=None, runs_left=None)
    at_once = decide_fire(schedule, now, keep=keep)

    statuses: dict[datetime, tuple[RunStatus, Reason | None]] = {}
    by_id: dict[int, datetime] = {}
    step = schedule
    for number, slot in enumerate(slots_until(schedule, now)):
        got = decide_fire(step, slot, keep=keep)
        [row] = got.slots
        statuses[slot] = (row.status, row.reason)
        first_id = 1000 + number
        by_id[first_id] = slot
        for run_id in (*got.supersede, *got.cancel):
            if run_id in by_id:
                statuses[by_id[run_id]] = (RunStatus.SKIPPED, Reason.SUPERSEDED)
        step = step._replace(line=line_after(step.line, got, first_id=first_id))
        if got.next_fire_at is not None:
            step = step._replace(next_fire_at=got.next_fire_at)
    assert statuses == {slot.fire_at: (slot.status, slot.reason) for slot in at_once.slots}


def line_after(at: Line, decision: FireDecision, *, first_id: int) -> Line:
    """What the ledger holds once a decision has been written."""
    gone = {*decision.supersede, *decision.cancel}
    flights = [
        flight._replace(asked=flight.asked or flight.run_id in decision.ask)
        for flight in at.in_flight
        if flight.run_id not in gone
    ]
    waiting = [one for one in at.waiting if one.run_id not in gone]
    for run_id, slot in enumerate(decision.slots, first_id):
        if slot.status is RunStatus.PENDING:
            flights.append(Flight(run_id, Trigger.CRON, RunStatus.PENDING, overdue=slot.overdue))
        elif slot.status is RunStatus.QUEUED:
            waiting.append(Waiting(run_id, Lane.LIVE, slot.overdue))
    return Line(tuple(flights), tuple(waiting))


def test_an_outage_of_a_month() -> None:
    got = fire(due(FIVE_MINUTELY, misfire=Misfire.ALL), "2026-06-01T00:00")
    assert (len(got.slots), got.admitted) == (1000, 1000)
    assert got.missed is not None
    assert got.missed.count + 1000 == 31 * 288 - 12 + 1
