"""Schedules: create, read, list, preview (DESIGN §3, §10, §13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.problems import Problem, Refused
from agentsched.core.summary import summary
from agentsched.core.timing import Kind, Timing, build_timing, check_minimum_interval, next_occurrence, occurrences
from agentsched.core.words import LIVE_SCHEDULE, ScheduleStatus
from agentsched.core.zones import zone
from agentsched.service import conversations as conversation_service
from agentsched.service import idempotency, policies
from agentsched.service.caller import Caller
from agentsched.service.errors import NotFound
from agentsched.service.existing import find_existing
from agentsched.service.permission import Act, require
from agentsched.service.requests import NewSchedule, PreviewRequest, ScheduleFields
from agentsched.service.views import NextRun, PoliciesView, next_run, policies_view
from agentsched.service.webhook_tokens import issue, open_webhook
from agentsched.settings import Settings
from agentsched.store import changes, clock, conversations, principals, schedules
from agentsched.store.changes import ChangeRow
from agentsched.store.database import Database
from agentsched.store.schedules import Placement, ScheduleRow

NO_INSTANT = ("ends_at_naive", "ends_at_out_of_range")
"""Problems of an ``ends_at`` that nothing can be computed with."""


@dataclass(frozen=True)
class Preview:
    """When a schedule would fire, and by which policies; ``problems`` are limits that would refuse it."""

    summary: str
    timezone: str
    next_runs: list[NextRun]
    policies: PoliciesView
    problems: list[Problem]


class Created(NamedTuple):
    """A schedule, and whether it is new. ``token`` is a new webhook's, which is never shown again."""

    row: ScheduleRow
    new: bool
    token: str | None = None


async def create(
    db: Database,
    settings: Settings,
    caller: Caller,
    conversation_id: int,
    request: NewSchedule,
    *,
    key: str | None = None,
    as_tool: bool = False,
) -> Created:
    """Make a schedule. It is not new for a replay of the same ``Idempotency-Key``, which has no token.

    ``as_tool``: a model asks, which may repeat itself and keeps no secrets: a live schedule of this name, or of this
    timing and prompt, is returned instead of a second one, and a webhook gets no token before a person asks.

    Raises NotFound for the conversation and Refused with all problems at once; concurrent creates cannot pass the
    limits.
    """
    require(caller, Act.SCHEDULE)
    operation = f"schedule:{conversation_id}"
    asked = request.model_dump(mode="json", exclude_unset=True)
    async with db.begin() as conn:
        await conversation_service.owned(conn, caller, conversation_id)
        await principals.lock(conn, caller.principal_id)
        await conversations.lock(conn, conversation_id)
        conversation = await conversation_service.owned(conn, caller, conversation_id)
        made = await idempotency.replayed(conn, caller.principal_id, operation, key, asked)
        if made is not None:
            return Created(await owned(conn, caller, made), new=False)
        now = await clock.now(conn)
        zone_name = request.timezone
        if zone_name is None:
            zone_name = conversation.timezone or await _principal_zone(conn, caller)
        problems: list[Problem] = []
        timing = _timing(request, zone_name, now, problems)
        live = await _live(conn, settings, caller, conversation_id)
        existing = find_existing(live, request, timing) if as_tool else None
        if existing is not None:
            return Created(existing, new=False)
        effective: dict[str, Any] = {}
        if timing is not None:
            problems += _limits(timing, settings)
            problems += end_problems(request, timing, now)
            effective = policies.resolve(request, policies.defaults(timing.kind, settings))
            problems += policies.problems_of(request, effective, request.prompt, settings)
        problems += await _live_problems(conn, settings, caller, conversation_id, request.name, live)
        if problems or timing is None:
            raise Refused(*problems)
        snapshot = conversation.agent_id
        if request.agent is not None:
            snapshot = await conversation_service.agent_id(conn, caller.principal_id, request.agent)
        schedule_id = await schedules.insert(
            conn,
            Placement(
                principal_id=caller.principal_id,
                conversation_id=conversation_id,
                number=await conversations.take_schedule_number(conn, conversation_id),
                name=request.name,
                ends_at=request.ends_at,
                max_runs=request.max_runs,
                next_fire_at=next_occurrence(timing, now),
            ),
            timing,
            policies.definition(effective, prompt=request.prompt, agent_id=snapshot),
            now,
        )
        await changes.record(
            conn,
            schedule_id,
            1,
            action="created",
            actor=caller.actor,
            changes=request.model_dump_json(exclude_unset=True),
            now=now,
        )
        await idempotency.remember(conn, caller.principal_id, operation, key, asked, schedule_id, now)
        token = None
        if timing.kind is Kind.WEBHOOK:
            await open_webhook(conn, schedule_id, now)
            token = None if as_tool or caller.by_model else await issue(conn, schedule_id, now)
        return Created(await owned(conn, caller, schedule_id), new=True, token=token)


async def owned(conn: AsyncConnection, caller: Caller, schedule_id: int) -> ScheduleRow:
    """A schedule of the caller's, or the one whose run asks, from wherever it runs. Raises NotFound."""
    row = await schedules.read(conn, schedule_id)
    own = caller.task is not None and caller.task.scheduled_by == schedule_id
    if (
        row is None
        or row.principal_id != caller.principal_id
        or (caller.conversation_id not in (None, row.conversation_id) and not own)
    ):
        raise NotFound("schedule", schedule_id)
    return row


async def get(db: Database, caller: Caller, schedule_id: int) -> ScheduleRow:
    """Read one. Raises NotFound."""
    async with db.begin() as conn:
        return await owned(conn, caller, schedule_id)


async def history(db: Database, caller: Caller, schedule_id: int, *, after: int, limit: int) -> list[ChangeRow]:
    """What was changed, by whom and when, oldest first, ids greater than ``after``. Raises NotFound."""
    async with db.begin() as conn:
        await owned(conn, caller, schedule_id)
        return await changes.list_page(conn, schedule_id, after=after, limit=limit)


async def list_page(
    db: Database,
    caller: Caller,
    *,
    conversation_id: int | None,
    statuses: Sequence[ScheduleStatus] | None,
    after: int,
    limit: int,
) -> list[ScheduleRow]:
    """Schedules, oldest first, ids greater than ``after``; without ``statuses`` the live ones.

    Raises NotFound for the conversation.
    """
    async with db.begin() as conn:
        only = conversation_id if conversation_id is not None else caller.conversation_id
        if only is not None:
            await conversation_service.owned(conn, caller, only)
        return await schedules.list_page(
            conn,
            caller.principal_id,
            conversation_id=only,
            statuses=[status.value for status in statuses or LIVE_SCHEDULE],
            after=after,
            limit=limit,
            also=None if caller.task is None else caller.task.scheduled_by,
        )


async def preview(db: Database, settings: Settings, caller: Caller, request: PreviewRequest) -> Preview:
    """When a schedule would fire, without saving it. Raises Refused for what cannot be computed."""
    now, zone_name = await now_and_zone(db, caller, request)
    timing, effective, problems = judge(settings, request, zone_name, now)
    fires = islice(occurrences(timing, now, request.ends_at), min(request.count, request.max_runs or request.count))
    return Preview(
        summary=summary(timing),
        timezone=timing.timezone,
        next_runs=[next_run(instant, timing.timezone) for instant in fires],
        policies=policies_view(effective),
        problems=problems,
    )


async def now_and_zone(db: Database, caller: Caller, request: ScheduleFields) -> tuple[datetime, str | None]:
    """Now, and the zone that a request without a conversation is meant in."""
    async with db.begin() as conn:
        now = await clock.now(conn)
        return now, await _principal_zone(conn, caller) if request.timezone is None else request.timezone


def judge(
    settings: Settings, request: NewSchedule, zone_name: str | None, now: datetime
) -> tuple[Timing, dict[str, Any], list[Problem]]:
    """What a request would become, made at ``now``: timing, effective policies, and limits that would refuse it.

    Raises Refused for what cannot be computed.
    """
    problems: list[Problem] = []
    timing = _timing(request, zone_name, now, problems)
    if timing is None:
        raise Refused(*problems)
    effective = policies.resolve(request, policies.defaults(timing.kind, settings))
    endings = end_problems(request, timing, now)
    if any(problem.code in NO_INSTANT for problem in endings):
        raise Refused(*endings)
    problems += _limits(timing, settings)
    problems += endings
    problems += policies.problems_of(request, effective, request.prompt, settings)
    return timing, effective, problems


async def preview_saved(db: Database, caller: Caller, schedule_id: int, count: int) -> Preview:
    """The next fires of a schedule, as if a paused one were resumed now. Raises NotFound."""
    async with db.begin() as conn:
        row = await owned(conn, caller, schedule_id)
        now = await clock.now(conn)
    if row.status not in LIVE_SCHEDULE:
        count = 0
    elif row.max_runs is not None:
        count = min(count, max(0, row.max_runs - row.runs_admitted))
    first = [] if row.next_fire_at is None else [row.next_fire_at]
    rest = occurrences(row.timing, row.next_fire_at or max(now, row.accounted_until or now), row.ends_at)
    fires = [*first, *islice(rest, count)][:count]
    return Preview(
        summary=summary(row.timing),
        timezone=row.timezone,
        next_runs=[next_run(instant, row.timezone) for instant in fires],
        policies=policies_view(policies.policies_of(row)),
        problems=[],
    )


def end_problems(request: ScheduleFields, timing: Timing, now: datetime) -> list[Problem]:
    """What is wrong with ``ends_at``: it has to leave room for a fire."""
    ends_at = request.ends_at
    if ends_at is None:
        return []
    if ends_at.tzinfo is None:
        return [
            Problem(
                "ends_at_naive",
                "ends_at",
                ends_at.isoformat(),
                "It has no offset from UTC.",
                f"Write an instant, such as {ends_at.isoformat()}Z.",
            )
        ]
    try:
        ends_at.astimezone(UTC)
    except OverflowError:
        return [
            Problem(
                "ends_at_out_of_range",
                "ends_at",
                ends_at.isoformat(),
                "It is not within the years 1 to 9999 in UTC.",
                "Leave it out for a schedule without an end.",
            )
        ]
    following = next_occurrence(timing, now)
    if following is None or following <= ends_at:
        return []
    local = following.astimezone(zone(timing.timezone))
    return [
        Problem(
            "ends_before_first_fire",
            "ends_at",
            ends_at.isoformat(),
            "The first fire would be after it.",
            f"Write {local.isoformat(timespec='minutes')} or later, which is when it would be.",
        )
    ]


def _timing(request: NewSchedule, zone_name: str | None, now: datetime, problems: list[Problem]) -> Timing | None:
    """The timing that is asked for; None with the reasons added to ``problems``."""
    if zone_name is None:
        problems.append(
            Problem(
                "timezone_required",
                "timezone",
                None,
                "Neither the request, the conversation nor its owner has a time zone.",
                "Send `timezone` with an IANA name, such as Europe/Berlin.",
            )
        )
        return None
    try:
        return build_timing(
            cron=request.cron,
            every=request.every,
            at=request.at,
            in_=request.in_,
            webhook=request.webhook,
            timezone=zone_name,
            now=now,
        )
    except Refused as refused:
        problems += refused.problems
        return None


def _limits(timing: Timing, settings: Settings) -> list[Problem]:
    problem = check_minimum_interval(timing, settings.minimum_interval_minutes)
    return [] if problem is None else [problem]


async def _principal_zone(conn: AsyncConnection, caller: Caller) -> str | None:
    principal = await principals.read(conn, caller.principal_id)
    return None if principal is None else principal.timezone


async def _live(conn: AsyncConnection, settings: Settings, caller: Caller, conversation_id: int) -> list[ScheduleRow]:
    return await schedules.list_page(
        conn,
        caller.principal_id,
        conversation_id=conversation_id,
        statuses=[status.value for status in LIVE_SCHEDULE],
        after=0,
        limit=settings.schedules_per_conversation,
    )


async def _live_problems(
    conn: AsyncConnection,
    settings: Settings,
    caller: Caller,
    conversation_id: int,
    name: str | None,
    live: Sequence[ScheduleRow],
) -> list[Problem]:
    """Limits of §10 that depend on what lives already; the principal and the conversation are locked."""
    found: list[Problem] = []
    in_conversation, in_all = await schedules.count_live(conn, caller.principal_id, conversation_id)
    if in_conversation >= settings.schedules_per_conversation:
        listed = "; ".join(f"id {row.id}: {row.name or 'without a name'}, {summary(row.timing)}" for row in live)
        found.append(
            Problem(
                "too_many_schedules",
                "conversation",
                in_conversation,
                f"A conversation owns at most {settings.schedules_per_conversation} live schedules.",
                f"Cancel one that is no longer needed, or change one. Live are {listed}.",
            )
        )
    if in_all >= settings.schedules_per_principal:
        found.append(
            Problem(
                "too_many_schedules_in_all",
                "principal",
                in_all,
                f"You own at most {settings.schedules_per_principal} live schedules over all conversations.",
                "Cancel schedules that are no longer needed.",
            )
        )
    same = next((row for row in live if name is not None and row.name == name), None)
    if same is not None:
        found.append(name_taken(same))
    return found


def name_taken(holder: ScheduleRow) -> Problem:
    """Names are unique among a conversation's live schedules."""
    return Problem(
        "name_taken",
        "name",
        holder.name,
        f"The schedule with the id {holder.id} in this conversation has this name: {summary(holder.timing)}.",
        "Choose another name, or change that schedule.",
    )
