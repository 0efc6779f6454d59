"""A run while simulated time passes, and the events that can end an attempt of it (DESIGN §8, §9)."""

from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

from agentsched.core.attempt import End
from agentsched.core.limits import attempt_timeout
from agentsched.core.misfire import Stretch
from agentsched.core.simulation import Assumptions, Plan, SimulatedRun
from agentsched.core.uptime import Uptime
from agentsched.core.words import Reason, RunStatus


class Order(IntEnum):
    """What comes first among events of one instant."""

    STRANDING = 0
    REPORT = 1
    LOST = 2
    TIMED_OUT = 3
    FENCED_OFF = 4
    RETRY = 5
    FIRE = 6


class Event(NamedTuple):
    """Something to happen. ``version``: it is of no interest once its run, or for 0 the schedule, has another."""

    at: datetime
    order: Order
    run_id: int = 0
    version: int = 0
    end: End = End.COMPLETED


class Run:
    """A row of the ledger while time passes."""

    def __init__(self, run_id: int, fire_at: datetime, status: RunStatus, reason: Reason | None = None) -> None:
        self.id = run_id
        self.fire_at = fire_at
        self.status = status
        self.reason = reason
        self.error_code: str | None = None
        self.missed: Stretch | None = None
        self.overdue = False
        self.in_line = 0
        self.attempt = 1
        self.losses = 0
        self.restarts = 0
        self.fails = False
        self.first_started_at: datetime | None = None
        self.started_at = fire_at
        self.asked_at: datetime | None = None
        self.retry_at = fire_at
        self.ended_at: datetime | None = None
        self.version = 0

    def shown(self) -> SimulatedRun:
        started = self.first_started_at
        return SimulatedRun(
            fire_at=self.fire_at,
            status=self.status,
            reason=self.reason,
            error_code=self.error_code,
            missed_until=self.missed.last if self.missed else None,
            missed_count=self.missed.count if self.missed else None,
            started_at=started,
            ended_at=self.ended_at,
            waited_seconds=None if started is None else int((started - self.fire_at).total_seconds()),
            attempts=0 if started is None else self.attempt,
            restarts=self.restarts,
            in_line=self.in_line,
        )


def first_end(run: Run, plan: Plan, assume: Assumptions, uptime: Uptime) -> Event:
    """Whichever comes first of the ends that the running attempt of a run can have."""
    started, down_at = run.started_at, uptime.down_after(run.started_at)

    def event(at: datetime, order: Order, end: End) -> Event:
        return Event(at, order, run.id, run.version, end)

    reported = event(later(started, assume.run_seconds), Order.REPORT, End.FAILED if run.fails else End.COMPLETED)
    if run.asked_at is not None and later(run.asked_at, assume.stop_seconds) < reported.at:
        reported = event(later(run.asked_at, assume.stop_seconds), Order.REPORT, End.STOPPED)
    ends = [reported]
    if down_at is not None and reported.at >= down_at:
        ends = [event(uptime.up_from(later(down_at, assume.lease_seconds)), Order.LOST, End.LOST)]
    timeout = attempt_timeout(plan.timeout_seconds, plan.timing, run.fire_at)
    ends.append(event(uptime.up_from(later(started, timeout)), Order.TIMED_OUT, End.TIMED_OUT))
    if run.asked_at is not None and plan.cancel_grace_seconds is not None:
        over_at = uptime.up_from(later(run.asked_at, plan.cancel_grace_seconds))
        ends.append(event(over_at, Order.FENCED_OFF, End.FENCED_OFF))
    return min(ends)


def later(instant: datetime, seconds: int) -> datetime:
    """So many seconds after an instant."""
    return instant + timedelta(seconds=seconds)
