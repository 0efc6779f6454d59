"""Change a schedule: a patch guarded by the version that the caller has read (DESIGN §8)."""

from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.problems import Problem, Refused
from agentsched.core.timing import Kind, Timing, build_timing, check_minimum_interval, next_occurrence
from agentsched.core.words import LIVE_SCHEDULE, Reason, ScheduleStatus
from agentsched.service import conversations as conversation_service
from agentsched.service import policies
from agentsched.service.account import account_due_slots
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, StaleVersion
from agentsched.service.line import start_waiting
from agentsched.service.permission import Act, require
from agentsched.service.requests import SchedulePatch
from agentsched.service.schedules import end_problems, name_taken, owned
from agentsched.settings import Settings
from agentsched.store import changes, clock, conversations, runs, schedules
from agentsched.store.database import Database
from agentsched.store.schedules import Retiming, ScheduleRow

TIMING_FIELDS = ("cron", "every", "at", "in_", "timezone")


async def update(
    db: Database, settings: Settings, caller: Caller, schedule_id: int, patch: SchedulePatch, *, version: int
) -> ScheduleRow:
    """Apply a patch to a live schedule at this version.

    A timing change counts from now, never fires for an earlier instant, and supersedes queued timed runs; without
    one the
    imminent slot stays. Everything else applies to runs that have not fired. Raises NotFound, StaleVersion, Conflict
    for a schedule that has ended, and Refused with all problems.
    """
    require(caller, Act.SCHEDULE)
    async with db.begin() as conn:
        seen = await owned(conn, caller, schedule_id)
        await conversations.lock(conn, seen.conversation_id)
        await schedules.lock(conn, schedule_id)
        row = await owned(conn, caller, schedule_id)
        if row.version != version:
            raise StaleVersion(version, row.version)
        if row.status not in LIVE_SCHEDULE:
            raise ended(row)
        now = await clock.now(conn)
        problems: list[Problem] = []
        timing = _timing(row, patch, now, problems)
        effective = policies.resolve(patch, policies.policies_of(row))
        prompt = row.prompt if patch.prompt is None else patch.prompt
        problems += policies.problems_of(patch, effective, prompt, settings)
        problems += await _name_problems(conn, row, patch.name)
        if timing is not None and timing != row.timing:
            problem = check_minimum_interval(timing, settings.minimum_interval_minutes)
            problems += [] if problem is None else [problem]
        if timing is not None and "ends_at" in patch.model_fields_set:
            problems += end_problems(patch, timing, now)
        if problems or timing is None:
            raise Refused(*problems)
        if not patch.model_fields_set:
            return row
        snapshot = row.agent_id
        if patch.agent is not None:
            snapshot = await conversation_service.agent_id(conn, caller.principal_id, patch.agent)
        await schedules.insert_version(
            conn, row.id, version + 1, policies.definition(effective, prompt=prompt, agent_id=snapshot), now
        )
        retiming = await _retime(conn, row, patch, timing, now)
        await schedules.update(conn, row.id, version, retiming, timing, now)
        await changes.record(
            conn,
            row.id,
            version + 1,
            action="updated",
            actor=caller.actor,
            changes=patch.model_dump_json(exclude_unset=True),
            now=now,
        )
        changed = await owned(conn, caller, schedule_id)
        await start_waiting(conn, settings, changed, now)
        return changed


def ended(row: ScheduleRow) -> Conflict:
    """For what a cancelled or completed schedule cannot do any more."""
    return Conflict(
        f"schedule_{row.status}",
        f"Schedule {row.id} is {row.status}, and stays so. Create a new one instead.",
    )


async def _retime(
    conn: AsyncConnection, row: ScheduleRow, patch: SchedulePatch, timing: Timing, now: datetime
) -> Retiming:
    sent = patch.model_fields_set
    ends_at = patch.ends_at if "ends_at" in sent else row.ends_at
    max_runs = patch.max_runs if "max_runs" in sent else row.max_runs
    accounted_until: datetime | None = None
    following = row.next_fire_at
    if timing != row.timing:
        accounted_until = await account_due_slots(conn, row, Reason.SUPERSEDED, now)
        await runs.skip_line(conn, row.id, Reason.SUPERSEDED, now, timed_only=True)
        if row.status == ScheduleStatus.ACTIVE:
            floor = max(now, row.accounted_until or now, accounted_until or now)
            following = next_occurrence(timing, floor)
        else:
            # A resume that catches up does not fire for an instant before the edit either.
            accounted_until = now
    status = row.status
    spent = max_runs is not None and row.runs_admitted >= max_runs
    nothing_left = timing.kind is not Kind.WEBHOOK and (
        following is None or (ends_at is not None and following > ends_at)
    )
    if row.status == ScheduleStatus.ACTIVE and (spent or nothing_left):
        accounted_until = accounted_until or await account_due_slots(conn, row, Reason.SUPERSEDED, now)
        following, status = None, ScheduleStatus.COMPLETED
    return Retiming(
        name=patch.name if "name" in sent else row.name,
        ends_at=ends_at,
        max_runs=max_runs,
        next_fire_at=following,
        status=status,
        accounted_until=accounted_until,
    )


def _timing(row: ScheduleRow, patch: SchedulePatch, now: datetime, problems: list[Problem]) -> Timing | None:
    """The timing after the patch: an edited ``every`` keeps its anchor, a zone alone keeps the expression."""
    given = {name: getattr(patch, name) for name in TIMING_FIELDS if getattr(patch, name) is not None}
    if not given:
        return row.timing
    if row.kind == Kind.WEBHOOK and given.keys() != {"timezone"}:
        problems.append(
            Problem(
                "webhook_has_no_timing",
                next(iter(given)),
                next(iter(given.values())),
                "A webhook schedule fires when it is called.",
                "Create a second schedule for fires by the clock.",
            )
        )
        return None
    timezone = given.pop("timezone", row.timezone)
    if not given:
        given = _own_timing(row)
    try:
        timing = build_timing(**given, timezone=timezone, now=now)
    except Refused as refused:
        problems += refused.problems
        return None
    if timing.kind is Kind.INTERVAL and row.anchor_at is not None:
        return Timing(Kind.INTERVAL, None, timing.every_minutes, row.anchor_at, None, timing.timezone)
    return timing


def _own_timing(row: ScheduleRow) -> dict[str, Any]:
    match Kind(row.kind):
        case Kind.CRON:
            return {"cron": row.cron}
        case Kind.INTERVAL:
            return {"every": f"{row.every_minutes}m"}
        case Kind.ONCE:
            return {"at": row.at.isoformat() if row.at else None}
        case Kind.WEBHOOK:
            return {"webhook": True}


async def _name_problems(conn: AsyncConnection, row: ScheduleRow, name: str | None) -> list[Problem]:
    if name is None or name == row.name:
        return []
    holder = await schedules.find_live_by_name(conn, row.conversation_id, name)
    return [] if holder is None else [name_taken(holder)]
