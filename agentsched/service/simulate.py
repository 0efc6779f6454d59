"""What a schedule would do over a span, given how long its runs take; nothing is saved (DESIGN §7 to §9)."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from agentsched.core.durations import parse_duration
from agentsched.core.localtime import Gap, instant_of
from agentsched.core.overlap import Limits
from agentsched.core.problems import Problem, Refused
from agentsched.core.simulation import Assumptions, Plan, Simulation
from agentsched.core.simulation_words import outcome
from agentsched.core.simulator import simulate as play
from agentsched.core.summary import summary
from agentsched.core.timing import Timing
from agentsched.core.uptime import Down
from agentsched.core.words import LIVE_SCHEDULE, Misfire, Mode, Overlap
from agentsched.service import schedules
from agentsched.service.caller import Caller
from agentsched.service.policies import policies_of
from agentsched.service.requests import SimulationRequest, Supposition
from agentsched.service.update import ended
from agentsched.settings import Settings
from agentsched.store import clock
from agentsched.store.database import Database

FIRST_YEAR, LAST_YEAR = 1970, 9_900
"""Later on, the calendar could end within an attempt."""

ONE_AT_A_TIME = "Runs that append to one conversation take turns there, which is left out here."


@dataclass(frozen=True)
class Simulated:
    """What would happen, in numbers and in words; ``problems`` are limits that would refuse the schedule."""

    summary: str
    outcome: str
    timezone: str
    simulation: Simulation
    problems: list[Problem]


async def simulate(db: Database, settings: Settings, caller: Caller, request: SimulationRequest) -> Simulated:
    """What a schedule would do that is made when the span begins. Raises Refused for what cannot be computed."""
    now, zone_name = await schedules.now_and_zone(db, caller, request)
    start = _start(request, now, zone_name)
    timing, effective, problems = schedules.judge(settings, request, zone_name, start)
    plan = _plan(timing, effective, max_runs=request.max_runs, ends_at=request.ends_at)
    return await _simulated(settings, plan, effective["mode"], request, start, problems)


async def simulate_saved(
    db: Database, settings: Settings, caller: Caller, schedule_id: int, request: Supposition
) -> Simulated:
    """What a schedule would do with nothing in flight or in line and no failures; a paused one as if resumed.

    Raises NotFound, Conflict for a cancelled or completed one, and Refused.
    """
    async with db.begin() as conn:
        row = await schedules.owned(conn, caller, schedule_id)
        now = await clock.now(conn)
    if row.status not in LIVE_SCHEDULE:
        raise ended(row)
    plan = _plan(
        row.timing,
        policies_of(row),
        max_runs=row.max_runs,
        ends_at=row.ends_at,
        runs_admitted=row.runs_admitted,
        accounted_until=row.accounted_until,
    )
    return await _simulated(settings, plan, row.mode, request, _start(request, now, row.timezone), [])


async def _simulated(
    settings: Settings, plan: Plan, mode: str, request: Supposition, start: datetime, problems: list[Problem]
) -> Simulated:
    timezone = plan.timing.timezone
    assumptions = Assumptions(
        run_seconds=request.run_seconds,
        stop_seconds=request.stop_seconds,
        fails_every=request.fails_every,
        down=tuple(
            Down(
                _instant(each.from_, timezone, f"down[{position}].from"),
                _instant(each.until, timezone, f"down[{position}].until"),
            )
            for position, each in enumerate(request.down)
        ),
        lease_seconds=settings.lease_seconds,
        misfire_all_keep=settings.misfire_all_keep,
        queue_adoption_window_seconds=settings.queue_adoption_window_seconds,
    )
    until = start + timedelta(minutes=parse_duration(request.span, field="span"))
    # In a thread, as thousands of slots take a second, in which heartbeats and other requests have their turns.
    simulation = await asyncio.to_thread(play, plan, start, until, assumptions)
    words = outcome(plan, simulation)
    if mode == Mode.APPEND and simulation.most_in_flight > 1:
        words = f"{words} {ONE_AT_A_TIME}"
    return Simulated(summary(plan.timing), words, timezone, simulation, problems)


def _plan(timing: Timing, policies: dict[str, Any], **own: Any) -> Plan:
    fields = {name: policies[name] for name in Plan._fields if name in policies and name != "misfire"}
    limits = Limits(Overlap(policies["overlap"]), policies["max_concurrency"], policies["queue_limit"])
    return Plan(timing=timing, limits=limits, misfire=Misfire(policies["misfire"]), **fields, **own)


def _start(request: Supposition, now: datetime, timezone: str | None) -> datetime:
    start = now if request.from_ is None else _instant(request.from_, timezone or "UTC", "from")
    return start.astimezone(UTC).replace(second=0, microsecond=0)


def _instant(given: datetime, timezone: str, field: str) -> datetime:
    """An instant in UTC, from one or from the wall clock of the schedule's zone; in a gap the first one after it."""
    try:
        found = instant_of(given, timezone) if given.tzinfo is None else given.astimezone(UTC)
    except OverflowError:
        found = None
    instant = found.after if isinstance(found, Gap) else found
    if instant is None or not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise Refused(
            Problem(
                "simulation_out_of_range",
                field,
                given.isoformat(),
                f"It is not within the years {FIRST_YEAR} to {LAST_YEAR} in UTC.",
                "Write an instant of this century, such as 2026-12-03T09:00Z.",
            )
        )
    return instant
