"""What a schedule would do over a span if its runs took as long as assumed: what goes in, and what comes out.

``simulate`` lets the time pass (``core.simulator``); slots are decided by the functions that tick and finish use.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, TypeVar

from agentsched.core.durations import in_words
from agentsched.core.localtime import MINUTE
from agentsched.core.overlap import Limits
from agentsched.core.problems import Problem, Refused
from agentsched.core.timing import Kind, Timing, occurrences
from agentsched.core.uptime import Down
from agentsched.core.words import Misfire, Reason, RunStatus, ScheduleStatus

MOST_SLOTS = 10_000
LONGEST_SPAN = timedelta(days=31)

Key = TypeVar("Key")


class Plan(NamedTuple):
    """A schedule, as far as it decides on its slots; the fields are those of its row.

    ``runs_admitted`` count towards ``max_runs``. Slots up to ``accounted_until`` are done with.
    """

    timing: Timing
    limits: Limits
    misfire: Misfire
    misfire_grace_seconds: int
    start_deadline_seconds: int
    timeout_seconds: int
    cancel_grace_seconds: int | None
    retry_max_attempts: int
    retry_initial_delay_seconds: int
    retry_max_delay_seconds: int
    pause_after_failures: int | None
    daily_run_limit: int | None
    max_runs: int | None
    ends_at: datetime | None
    runs_admitted: int = 0
    accounted_until: datetime | None = None


class Assumptions(NamedTuple):
    """What is taken for granted. There is a worker for every run, and nothing is in flight at the start.

    ``run_seconds``: how long an attempt takes. ``stop_seconds``: how long it goes on once it is asked to stop.
    ``fails_every``: every n-th attempt fails when it ends; 0 = none. The rest are settings of the service.
    """

    run_seconds: int
    stop_seconds: int = 5
    fails_every: int = 0
    down: tuple[Down, ...] = ()
    lease_seconds: int = 30
    misfire_all_keep: int = 1000
    queue_adoption_window_seconds: int | None = None


class SimulatedRun(NamedTuple):
    """A row of the ledger as it stands when the span ends; a stretch of missed slots is one row.

    ``error_code`` is that of its last attempt: error, timeout or lost. ``waited_seconds``: from ``fire_at`` to the
    first start. ``in_line``: how many waited once the slot was decided.
    """

    fire_at: datetime
    status: RunStatus
    reason: Reason | None
    error_code: str | None
    missed_until: datetime | None
    missed_count: int | None
    started_at: datetime | None
    ended_at: datetime | None
    waited_seconds: int | None
    attempts: int
    restarts: int
    in_line: int

    @property
    def slots(self) -> int:
        """How many slots the row accounts for."""
        return self.missed_count or 1


class Moment(NamedTuple):
    """From this instant to the next moment so many runs are in flight, and so many wait."""

    at: datetime
    in_flight: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """What became of every slot in (``start``, ``until``], in order, and of the schedule.

    ``paused_at``: when failures have paused it.
    """

    start: datetime
    until: datetime
    runs: tuple[SimulatedRun, ...]
    timeline: tuple[Moment, ...]
    status: ScheduleStatus
    next_fire_at: datetime | None
    paused_at: datetime | None

    @property
    def slots(self) -> int:
        """How many slots there were."""
        return sum(run.slots for run in self.runs)

    @property
    def totals(self) -> dict[RunStatus, int]:
        """The slots by what became of them."""
        return _count((run.status, run.slots) for run in self.runs)

    @property
    def reasons(self) -> dict[Reason, int]:
        """The slots that were skipped or missed, by reason."""
        return _count((run.reason, run.slots) for run in self.runs if run.reason is not None)

    @property
    def longest_wait_seconds(self) -> int:
        """The longest wait of a run that was started."""
        return max((run.waited_seconds for run in self.runs if run.waited_seconds is not None), default=0)

    @property
    def longest_line(self) -> int:
        """The most runs that waited at once."""
        return max(moment.waiting for moment in self.timeline)

    @property
    def most_in_flight(self) -> int:
        """The most runs that were in flight at once."""
        return max(moment.in_flight for moment in self.timeline)


def check_span(timing: Timing, start: datetime, until: datetime, down: Iterable[Down]) -> None:
    """Raises Refused with all that keeps a span from being simulated: see the codes below."""
    found: list[Problem] = []
    if timing.kind is Kind.WEBHOOK:
        found.append(
            Problem(
                "simulation_of_webhook",
                "webhook",
                True,
                "A webhook fires when it is called, and nobody knows when that will be.",
                'Simulate the calls as you expect them, such as `every: "10m"`.',
            )
        )
    if until - start > LONGEST_SPAN:
        days = LONGEST_SPAN.days
        found.append(
            Problem(
                "simulation_too_long",
                "span",
                in_words((until - start) // MINUTE),
                f"A simulation spans at most {days} days.",
                f'Write "{days}d" or less.',
            )
        )
    elif (last := _slot_too_many(timing, start, until)) is not None:
        found.append(
            Problem(
                "simulation_too_many_slots",
                "span",
                in_words((until - start) // MINUTE),
                f"More than {MOST_SLOTS:,} slots are in that span.",
                f'Write "{(last - start) // MINUTE}m" or less.',
            )
        )
    found += [
        Problem(
            "simulation_down_outside",
            f"down[{position}]",
            f"{since.isoformat()} to {ends.isoformat()}",
            "Each time down begins before it ends, and lies within the span, "
            f"which is from {_iso(start)} to {_iso(until)}.",
            "Correct it, or ask for another span.",
        )
        for position, (since, ends) in enumerate(down)
        if not start <= since < ends <= until
    ]
    if found:
        raise Refused(*found)


def _slot_too_many(timing: Timing, start: datetime, until: datetime) -> datetime | None:
    """The last slot that a simulation may hold, if the span has more."""
    slots = list(islice(occurrences(timing, start, until), MOST_SLOTS + 1))
    return slots[-2] if len(slots) > MOST_SLOTS else None


def _count(slots: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    counter: Counter[Key] = Counter()
    for key, count in slots:
        counter[key] += count
    return dict(counter)


def _iso(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
