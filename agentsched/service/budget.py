"""Daily budgets where somebody asks for runs by hand, and where tokens have been used (DESIGN §10).

A person's runs count and are not refused; a model's are. Counter rows are locked last.
"""

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from math import ceil

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.problems import Refused
from agentsched.core.zones import zone
from agentsched.service.caller import Caller
from agentsched.service.errors import TooMany
from agentsched.settings import Settings
from agentsched.store import fires, schedules
from agentsched.store.schedules import ScheduleRow

TOKENS = ("input_tokens", "output_tokens")
"""The parts of a reported usage that are tokens; a ``total_tokens`` stands for their sum."""


async def spend_runs(
    conn: AsyncConnection, settings: Settings, caller: Caller, schedule: ScheduleRow, now: datetime, count: int = 1
) -> None:
    """Count runs of a locked schedule against its day and its owner's.

    Raises TooMany for a model that asks for more than is left, which rolls everything back.
    """
    day = now.astimezone(zone(schedule.timezone)).date()
    today = schedule.day == day
    if caller.by_model:
        _refuse_above(
            f"schedule {schedule.id}",
            schedule.daily_run_limit,
            (schedule.day_runs if today else 0) + count,
            schedule.timezone,
            now,
        )
        if schedule.daily_token_limit is not None and today and schedule.day_tokens >= schedule.daily_token_limit:
            raise _spent(
                f"schedule {schedule.id} has used its {schedule.daily_token_limit} tokens", schedule.timezone, now
            )
    await schedules.spend(conn, schedule.id, admitted=0, day=day, runs=count)
    total = (await fires.spend_principal_days(conn, {schedule.principal_id: count}, now.date()))[schedule.principal_id]
    if caller.by_model:
        limit = settings.daily_run_limit_per_principal
        _refuse_above("your schedules together", limit, total, "UTC", now)


async def spend_tokens(conn: AsyncConnection, schedule: ScheduleRow, usage: Mapping[str, int], now: datetime) -> None:
    """Count the tokens of a reported usage against the day of a locked schedule and its owner's."""
    tokens = usage.get("total_tokens") or sum(usage.get(part, 0) for part in TOKENS)
    if tokens > 0:
        await schedules.spend_tokens(conn, schedule.id, tokens, _day(schedule, now))
        await fires.spend_principal_tokens(conn, schedule.principal_id, tokens, now.date())


def _day(schedule: ScheduleRow, now: datetime) -> date:
    """The day of the schedule's zone; of UTC where this process' tzdata does not have it, for what was used is used."""
    try:
        return now.astimezone(zone(schedule.timezone)).date()
    except Refused:
        return now.date()


def seconds_to_midnight(now: datetime, timezone: str) -> int:
    """How long a day of this zone still is."""
    place = zone(timezone)
    tomorrow = now.astimezone(place).date() + timedelta(days=1)
    return ceil((datetime.combine(tomorrow, time(), place) - now).total_seconds())


def _refuse_above(who: str, limit: int | None, total: int, timezone: str, now: datetime) -> None:
    if limit is not None and total > limit:
        raise _spent(f"{who} may have {limit} runs a day, and this would be run {total}", timezone, now)


def _spent(what: str, timezone: str, now: datetime) -> TooMany:
    return TooMany(
        "budget_spent",
        f"Nothing was started: {what}. A person can still run it; a model has to wait for the next day.",
        retry_after_seconds=seconds_to_midnight(now, timezone),
    )
