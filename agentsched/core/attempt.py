"""What becomes of a run when an attempt of it ends, in whatever way (DESIGN §8, §9)."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, assert_never

from agentsched.core.misfire import is_late
from agentsched.core.words import TIMED, Misfire, Trigger

LOSSES_OF_A_FAILURE = 3
"""The third loss of a run is its failure."""


class End(StrEnum):
    """How an attempt ended, as its worker or the reaper reports it."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    TIMED_OUT = "timed_out"
    FENCED_OFF = "fenced_off"


class Attempt(NamedTuple):
    """The facts about a running attempt. ``losses`` counts this one too; ``asked``: it was asked to stop."""

    trigger: Trigger
    fire_at: datetime
    attempt: int
    losses: int
    asked: bool
    misfire: Misfire
    misfire_grace_seconds: int
    retry_max_attempts: int
    retry_initial_delay_seconds: int
    retry_max_delay_seconds: int
    overdue: bool = False


class Verdict(NamedTuple):
    """What becomes of the run. ``retry_at`` only for ``retry``."""

    outcome: Literal["complete", "fail", "retry", "cancel", "abandon", "restart"]
    retry_at: datetime | None = None


def judge_end(attempt: Attempt, end: End, now: datetime, *, retryable: bool = True) -> Verdict:
    """Decide what follows the end of an attempt. ``retryable``: what the worker said of its failure."""
    match end:
        case End.COMPLETED:
            return Verdict("complete")
        case End.STOPPED | End.FENCED_OFF:
            return Verdict("cancel")
        case End.FAILED | End.TIMED_OUT:
            if attempt.asked:
                return Verdict("cancel")
            return _retry(attempt, now) if retryable and _attempts_left(attempt) else Verdict("fail")
        case End.LOST:
            return _judge_loss(attempt, now)
        case _:
            assert_never(end)


def runs_late(trigger: Trigger, misfire: Misfire, *, overdue: bool) -> bool:
    """Whether a run is worth running however late it is: all but timed runs of ``misfire: skip`` (DESIGN §8).

    ``overdue`` ones were late when they were admitted, as a resume that catches up does.
    """
    return overdue or trigger not in TIMED or misfire is not Misfire.SKIP


def retry_delay_seconds(attempt: int, *, initial: int, maximum: int) -> int:
    """The delay after attempt ``attempt`` (from 1) has failed: doubled each time, up to the maximum."""
    return min(initial << (attempt - 1), maximum)


def _judge_loss(attempt: Attempt, now: datetime) -> Verdict:
    if attempt.asked:
        return Verdict("cancel")
    if _attempts_left(attempt):
        return _retry(attempt, now)
    late_is_fine = runs_late(attempt.trigger, attempt.misfire, overdue=attempt.overdue)
    if not late_is_fine and is_late(attempt.fire_at, now, attempt.misfire_grace_seconds):
        return Verdict("abandon")
    return Verdict("fail") if attempt.losses >= LOSSES_OF_A_FAILURE else Verdict("restart")


def _attempts_left(attempt: Attempt) -> bool:
    return attempt.attempt < attempt.retry_max_attempts


def _retry(attempt: Attempt, now: datetime) -> Verdict:
    delay = retry_delay_seconds(
        attempt.attempt, initial=attempt.retry_initial_delay_seconds, maximum=attempt.retry_max_delay_seconds
    )
    return Verdict("retry", now + timedelta(seconds=delay))
