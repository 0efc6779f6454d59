"""What becomes of a run when an attempt ends (DESIGN §8, §9), and the delays between attempts."""

from datetime import datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentsched.core.attempt import Attempt, End, Verdict, judge_end, retry_delay_seconds, runs_late
from agentsched.core.words import Misfire, Trigger
from tests.core.expressions import bounded
from tests.core.oracle import utc

FIRE_AT = utc("2026-05-01T07:00")
ON_TIME = utc("2026-05-01T07:02:45")
LATE = utc("2026-05-01T07:03")
TIMED = [Trigger.CRON, Trigger.INTERVAL, Trigger.ONCE]
UNTIMED = [Trigger.WEBHOOK, Trigger.MANUAL, Trigger.BACKFILL, Trigger.REQUEUE]


def an_attempt(
    trigger: Trigger = Trigger.CRON,
    *,
    attempt: int = 1,
    losses: int = 0,
    asked: bool = False,
    misfire: Misfire = Misfire.SKIP,
    max_attempts: int = 1,
) -> Attempt:
    return Attempt(trigger, FIRE_AT, attempt, losses, asked, misfire, 120, max_attempts, 30, 900)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("max_attempts", [1, 3])
def test_completed_is_completed_also_after_it_was_asked_to_stop(asked: bool, max_attempts: int) -> None:
    assert judge_end(an_attempt(asked=asked, max_attempts=max_attempts), End.COMPLETED, LATE) == Verdict("complete")


@pytest.mark.parametrize("end", [End.STOPPED, End.FENCED_OFF])
@pytest.mark.parametrize("trigger", list(Trigger))
@pytest.mark.parametrize("asked", [False, True])
def test_stopped_is_cancelled_and_never_tried_again(end: End, trigger: Trigger, asked: bool) -> None:
    assert judge_end(an_attempt(trigger, asked=asked, max_attempts=3), end, ON_TIME) == Verdict("cancel")


@pytest.mark.parametrize("end", [End.FAILED, End.TIMED_OUT, End.LOST])
@pytest.mark.parametrize("retryable", [False, True])
@pytest.mark.parametrize("losses", [1, 3])
def test_asked_to_stop_and_then_lost_or_failed_is_cancelled(end: End, retryable: bool, losses: int) -> None:
    attempt = an_attempt(asked=True, losses=losses, max_attempts=3)
    assert judge_end(attempt, end, LATE, retryable=retryable) == Verdict("cancel")


class TestFailure:
    @pytest.mark.parametrize("end", [End.FAILED, End.TIMED_OUT])
    @pytest.mark.parametrize(
        ("attempt", "max_attempts", "delay"),
        [(1, 0, None), (1, 1, None), (1, 2, 30), (2, 2, None), (1, 3, 30), (2, 3, 60), (3, 3, None), (4, 3, None)],
    )
    def test_is_tried_again_while_attempts_are_left(
        self, end: End, attempt: int, max_attempts: int, delay: int | None
    ) -> None:
        expected = Verdict("fail") if delay is None else Verdict("retry", LATE + timedelta(seconds=delay))
        assert judge_end(an_attempt(attempt=attempt, max_attempts=max_attempts), end, LATE) == expected

    def test_a_permanent_error_is_final(self) -> None:
        assert judge_end(an_attempt(max_attempts=3), End.FAILED, ON_TIME, retryable=False) == Verdict("fail")

    @pytest.mark.parametrize("trigger", list(Trigger))
    @pytest.mark.parametrize("misfire", list(Misfire))
    def test_lateness_and_losses_before_it_change_nothing(self, trigger: Trigger, misfire: Misfire) -> None:
        """What a retry that is overdue itself comes to is decided when it is due."""
        hours_late = FIRE_AT + timedelta(hours=9)
        attempt = an_attempt(trigger, misfire=misfire, losses=2, max_attempts=2)
        assert judge_end(attempt, End.FAILED, hours_late) == Verdict("retry", hours_late + timedelta(seconds=30))
        assert judge_end(an_attempt(trigger, misfire=misfire), End.FAILED, hours_late) == Verdict("fail")

    def test_the_delay_counts_from_the_failure_to_the_microsecond(self) -> None:
        failed_at = utc("2026-05-01T07:00:10.123456")
        expected = Verdict("retry", utc("2026-05-01T07:00:40.123456"))
        assert judge_end(an_attempt(max_attempts=2), End.FAILED, failed_at) == expected


class TestLoss:
    @pytest.mark.parametrize("trigger", TIMED)
    def test_a_timed_run_restarts_within_the_grace_and_is_abandoned_after_it(self, trigger: Trigger) -> None:
        assert judge_end(an_attempt(trigger, losses=1), End.LOST, ON_TIME) == Verdict("restart")
        assert judge_end(an_attempt(trigger, losses=1), End.LOST, LATE) == Verdict("abandon")

    @pytest.mark.parametrize("trigger", TIMED)
    @pytest.mark.parametrize("misfire", [Misfire.LATEST, Misfire.ALL])
    def test_a_timed_run_that_catches_up_restarts_however_late(self, trigger: Trigger, misfire: Misfire) -> None:
        attempt = an_attempt(trigger, losses=1, misfire=misfire)
        assert judge_end(attempt, End.LOST, FIRE_AT + timedelta(days=9)) == Verdict("restart")

    @pytest.mark.parametrize("trigger", UNTIMED)
    @pytest.mark.parametrize("misfire", list(Misfire))
    def test_all_other_runs_restart_however_late(self, trigger: Trigger, misfire: Misfire) -> None:
        attempt = an_attempt(trigger, losses=1, misfire=misfire)
        assert judge_end(attempt, End.LOST, FIRE_AT + timedelta(days=9)) == Verdict("restart")

    @pytest.mark.parametrize(("losses", "outcome"), [(1, "restart"), (2, "restart"), (3, "fail"), (4, "fail")])
    def test_the_third_loss_is_a_failure(self, losses: int, outcome: str) -> None:
        assert judge_end(an_attempt(Trigger.WEBHOOK, losses=losses), End.LOST, LATE).outcome == outcome
        assert judge_end(an_attempt(losses=losses), End.LOST, ON_TIME).outcome == outcome

    def test_the_third_loss_of_a_late_run_is_abandoned_as_the_first_is(self) -> None:
        assert judge_end(an_attempt(losses=3), End.LOST, LATE) == Verdict("abandon")

    @pytest.mark.parametrize("losses", [1, 3])
    @pytest.mark.parametrize("now", [ON_TIME, LATE])
    def test_with_attempts_left_the_attempt_has_failed(self, losses: int, now: datetime) -> None:
        attempt = an_attempt(losses=losses, attempt=2, max_attempts=3)
        assert judge_end(attempt, End.LOST, now) == Verdict("retry", now + timedelta(seconds=60))

    def test_in_the_last_attempt_losses_of_those_before_count(self) -> None:
        """With two attempts: the first loss costs the attempt, the second restarts, the third is the failure."""
        outcomes = [
            judge_end(an_attempt(attempt=attempt, losses=losses, max_attempts=2), End.LOST, ON_TIME).outcome
            for attempt, losses in [(1, 1), (2, 2), (2, 3)]
        ]
        assert outcomes == ["retry", "restart", "fail"]

    def test_the_grace_of_the_schedule_decides(self) -> None:
        attempt = an_attempt(losses=1)._replace(misfire_grace_seconds=3600)
        assert judge_end(attempt, End.LOST, utc("2026-05-01T08:00:59")) == Verdict("restart")
        assert judge_end(attempt, End.LOST, utc("2026-05-01T08:01")) == Verdict("abandon")


@pytest.mark.parametrize("end", list(End))
def test_every_end_of_every_attempt(end: End) -> None:
    """The whole table, by what must never be."""
    facts = product(Trigger, Misfire, (1, 2), (1, 3), (False, True), (0, 2), (ON_TIME, LATE), (False, True))
    for trigger, misfire, attempt, losses, asked, max_attempts, now, retryable in facts:
        case = an_attempt(
            trigger, attempt=attempt, losses=losses, asked=asked, misfire=misfire, max_attempts=max_attempts
        )
        got = judge_end(case, end, now, retryable=retryable)
        assert (got.retry_at is not None) == (got.outcome == "retry"), case
        assert (got.outcome == "complete") == (end is End.COMPLETED), case
        if asked and end is not End.COMPLETED:
            assert got == Verdict("cancel"), case
        if got.outcome == "retry":
            assert attempt < max_attempts, case
            assert end is End.LOST or retryable, case
        if got.outcome in ("abandon", "restart"):
            assert end is End.LOST, case
        if got.outcome == "abandon":
            assert (trigger in TIMED, misfire, now) == (True, Misfire.SKIP, LATE), case
        if got.outcome == "restart":
            assert losses < 3, case


@pytest.mark.parametrize("misfire", list(Misfire))
def test_only_timed_runs_of_skip_are_not_worth_running_late(misfire: Misfire) -> None:
    assert {trigger for trigger in Trigger if not runs_late(trigger, misfire, overdue=False)} == (
        set(TIMED) if misfire is Misfire.SKIP else set()
    )


class TestDelays:
    def test_double_from_30_seconds_to_a_quarter_of_an_hour(self) -> None:
        delays = [retry_delay_seconds(attempt, initial=30, maximum=900) for attempt in range(1, 9)]
        assert delays == [30, 60, 120, 240, 480, 900, 900, 900]

    @pytest.mark.parametrize(
        ("attempt", "initial", "maximum", "expected"),
        [(1, 0, 900, 0), (99, 0, 0, 0), (1, 900, 900, 900), (1, 1, 1, 1), (3, 7, 1000, 28)],
    )
    def test_of_other_policies(self, attempt: int, initial: int, maximum: int, expected: int) -> None:
        assert retry_delay_seconds(attempt, initial=initial, maximum=maximum) == expected

    @bounded(200)
    @given(st.integers(1, 100), st.integers(0, 31_536_000), st.integers(0, 31_536_000))
    def test_never_overflow(self, attempt: int, initial: int, spread: int) -> None:
        """For all that a request may ask for, the delay is between both bounds and an instant can be told."""
        maximum = min(initial + spread, 31_536_000)
        delay = retry_delay_seconds(attempt, initial=initial, maximum=maximum)
        assert initial <= delay <= maximum
        assert delay <= retry_delay_seconds(attempt + 1, initial=initial, maximum=maximum)
        policy = an_attempt(attempt=attempt, max_attempts=101)._replace(
            retry_initial_delay_seconds=initial, retry_max_delay_seconds=maximum
        )
        assert judge_end(policy, End.FAILED, LATE) == Verdict("retry", LATE + timedelta(seconds=delay))
