"""Backfills: count, make, see and cancel (DESIGN §8)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.backfill import ASKS_ABOVE, CAP, HIGHEST_CAP, qualifying, refusal
from agentsched.core.occurrence_keys import backfill_key
from agentsched.core.problems import Refused
from agentsched.core.words import BackfillStatus, Reprocess, RunStatus, ScheduleStatus
from agentsched.service import conversations as conversation_service
from agentsched.service import idempotency
from agentsched.service.backfill_range import WALK_AT_MOST, Walk, range_problems, walk
from agentsched.service.backfill_views import BackfillPreview, BackfillView, backfill_view
from agentsched.service.budget import spend_runs
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, NotFound
from agentsched.service.line import start_waiting
from agentsched.service.permission import Act, require
from agentsched.service.requests import BackfillRequest
from agentsched.service.schedules import owned
from agentsched.service.update import ended
from agentsched.settings import Settings
from agentsched.store import backfills, changes, clock, conversations, runs, schedules
from agentsched.store.backfills import BackfillRow, NewBackfill
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow


@dataclass(frozen=True)
class _Found:
    """The slots that would run; where there were too many to be walked, only that there are more than ``count``."""

    slots: Sequence[datetime]
    count: int
    exact: bool


async def preview(
    db: Database, settings: Settings, caller: Caller, schedule_id: int, request: BackfillRequest
) -> BackfillPreview:
    """What ``make`` would run, also where it would be refused for its size. Raises as ``make`` does otherwise."""
    async with db.begin() as conn:
        row = await owned(conn, caller, schedule_id)
        await _check(conn, settings, caller, row, request)
    walked = await _walk(row, request)
    async with db.begin() as conn:
        found = await _find(conn, row, request, walked)
    return BackfillPreview(
        schedule_id=row.id,
        **{"from": request.from_},
        to=request.to,
        reprocess=request.reprocess,
        count=found.count,
        count_is_exact=found.exact,
        first=found.slots[0] if found.slots else None,
        last=found.slots[-1] if found.slots else None,
        needs_confirm=found.count > ASKS_ABOVE,
        over_limit=found.count > _cap(request),
    )


async def make(
    db: Database,
    settings: Settings,
    caller: Caller,
    schedule_id: int,
    request: BackfillRequest,
    *,
    key: str | None = None,
) -> tuple[BackfillView, bool]:
    """Queue a run for every slot of the range that qualifies, and start the first.

    The backfill, and whether it is new (False for a replay of the same ``Idempotency-Key``). Raises NotFound, Refused
    for a range that cannot be, and Conflict for a cancelled schedule, without ``confirm`` where it is needed, and for
    more slots than ``limit``; then nothing is written.
    """
    require(caller, Act.SCHEDULE)
    operation = f"backfill:{schedule_id}"
    asked = request.model_dump(mode="json", exclude_unset=True)
    while True:
        async with db.begin() as conn:
            seen = await owned(conn, caller, schedule_id)
            made = await idempotency.replayed(conn, caller.principal_id, operation, key, asked)
            if made is not None:
                return await _replay(conn, made), False
            await _check(conn, settings, caller, seen, request)
        walked = await _walk(seen, request)
        async with db.begin() as conn:
            await conversations.lock(conn, seen.conversation_id)
            await schedules.lock(conn, schedule_id)
            row = await owned(conn, caller, schedule_id)
            made = await idempotency.replayed(conn, caller.principal_id, operation, key, asked)
            if made is not None:
                return await _replay(conn, made), False
            if (row.timing, row.ends_at) != (seen.timing, seen.ends_at):
                continue
            now = await _check(conn, settings, caller, row, request)
            found = await _find(conn, row, request, walked)
            _refuse_size(found, request)
            made = await _write(conn, settings, caller, row, request, found.slots, now)
            await idempotency.remember(conn, caller.principal_id, operation, key, asked, made, now)
            return await _shown(conn, made), True


async def get(db: Database, caller: Caller, backfill_id: int) -> BackfillView:
    """Read one. Raises NotFound."""
    async with db.begin() as conn:
        await _owned(conn, caller, backfill_id)
        return await _shown(conn, backfill_id)


async def list_page(
    db: Database, caller: Caller, schedule_id: int, *, before: int | None, limit: int
) -> list[BackfillView]:
    """A schedule's backfills, newest first, ids smaller than ``before``. Raises NotFound."""
    async with db.begin() as conn:
        await owned(conn, caller, schedule_id)
        rows = await backfills.list_page(conn, schedule_id, before=before, limit=limit)
        progress = await backfills.read_progress(conn, [row.id for row in rows])
        return [backfill_view(row, progress[row.id]) for row in rows]


async def cancel(
    db: Database, settings: Settings, caller: Caller, backfill_id: int, *, stop_running: bool = False
) -> BackfillView:
    """Skip what waits; what has started finishes, unless ``stop_running`` asks it to stop.

    A cancelled one stays as it is, but what it still has in flight can be asked to stop. Raises NotFound, and Conflict
    for a completed one.
    """
    require(caller, Act.SCHEDULE)
    async with db.begin() as conn:
        seen = await _owned(conn, caller, backfill_id)
        schedule = await schedules.lock(conn, seen.schedule_id)
        row = await _owned(conn, caller, backfill_id)
        if row.status == BackfillStatus.COMPLETED or schedule is None:
            raise Conflict("backfill_completed", f"Backfill {row.id} is completed; there is nothing left to cancel.")
        now = await clock.now(conn)
        if row.status == BackfillStatus.RUNNING:
            await backfills.cancel(conn, row, now)
            await _record(conn, schedule, "backfill_cancelled", caller, {"backfill_id": row.id}, now)
        if stop_running:
            await runs.lock_flights(conn, [schedule.id])
            flights = await backfills.in_flight(conn, row.id)
            await runs.cancel_unstarted(conn, flights, now)
            await runs.ask_to_stop(conn, flights, now)
            await start_waiting(conn, settings, schedule, now)
        return await _shown(conn, row.id)


async def _check(
    conn: AsyncConnection, settings: Settings, caller: Caller, row: ScheduleRow, request: BackfillRequest
) -> datetime:
    """Whether the schedule as it is allows the range; now."""
    if row.status == ScheduleStatus.CANCELLED:
        raise ended(row)
    await conversation_service.owned(conn, caller, row.conversation_id)
    now = await clock.now(conn)
    problems = range_problems(row, request, now, retention_days=settings.run_retention_days)
    if problems:
        raise Refused(*problems)
    return now


async def _walk(row: ScheduleRow, request: BackfillRequest) -> Walk:
    until = request.to if row.ends_at is None else min(request.to, row.ends_at)
    return await walk(row.timing, request.from_, until)


async def _find(conn: AsyncConnection, row: ScheduleRow, request: BackfillRequest, walked: Walk) -> _Found:
    if walked.more:
        return _Found((), WALK_AT_MOST, exact=False)
    slots = walked.slots
    if slots and request.reprocess is not Reprocess.ALL:
        had = await backfills.read_slots(conn, row.id, request.from_, request.to)
        statuses = {slot: [RunStatus(status) for status in each] for slot, each in had.items()}
        slots = qualifying(slots, statuses, request.reprocess)
    return _Found(slots, len(slots), exact=True)


def _cap(request: BackfillRequest) -> int:
    return CAP if request.limit is None else request.limit


def _refuse_size(found: _Found, request: BackfillRequest) -> None:
    cap = _cap(request)
    code = refusal(found.count, cap=cap, confirmed=request.confirm)
    if code is None:
        return
    if not found.exact:
        message = f"More than {found.count} slots lie in this range"
    else:
        message = f"This backfill would run {found.count} slots"
    if code == "confirmation_required":
        message += (
            f", and more than {ASKS_ABOVE} need a confirmation. Nothing was done. Send `confirm: true` (--confirm) "
            "to run them, or ask for a smaller range."
        )
    elif found.count <= HIGHEST_CAP:
        confirm = "" if request.confirm else " and `confirm: true` (--confirm)"
        message += (
            f", more than the limit of {cap}. Nothing was done. Send `limit: {found.count}` (--limit {found.count})"
            f"{confirm} to run them, or ask for a smaller range."
        )
    else:
        message += (
            f", more than one backfill can have. Nothing was done. Ask for a smaller range: "
            f"`limit` (--limit) allows {HIGHEST_CAP} at most."
        )
    raise Conflict(code, message, extra={"count": found.count, "count_is_exact": found.exact})


async def _write(
    conn: AsyncConnection,
    settings: Settings,
    caller: Caller,
    row: ScheduleRow,
    request: BackfillRequest,
    slots: Sequence[datetime],
    now: datetime,
) -> int:
    new = NewBackfill(row.id, request.from_, request.to, request.reprocess, len(slots), caller.actor)
    made = await backfills.insert(conn, new, now)
    what = {"backfill_id": made, **request.model_dump(mode="json", by_alias=True), "count": len(slots)}
    await _record(conn, row, "backfilled", caller, what, now)
    if slots:
        await backfills.insert_runs(conn, made, row.id, {slot: backfill_key(made, slot) for slot in slots}, now)
        await start_waiting(conn, settings, row, now)
        await spend_runs(conn, settings, caller, row, now, len(slots))
    return made


async def _record(
    conn: AsyncConnection, row: ScheduleRow, action: str, caller: Caller, what: dict[str, object], now: datetime
) -> None:
    await changes.record(
        conn, row.id, row.version, action=action, actor=caller.actor, changes=json.dumps(what), now=now
    )


async def _owned(conn: AsyncConnection, caller: Caller, backfill_id: int) -> BackfillRow:
    row = await backfills.read(conn, backfill_id)
    if row is None:
        raise NotFound("backfill", backfill_id)
    try:
        await owned(conn, caller, row.schedule_id)
    except NotFound:
        raise NotFound("backfill", backfill_id) from None
    return row


async def _replay(conn: AsyncConnection, backfill_id: int) -> BackfillView:
    """What the first request with an ``Idempotency-Key`` made, as it is by now."""
    if await backfills.read(conn, backfill_id) is None:
        raise Conflict(
            "backfill_pruned", "The backfill that this Idempotency-Key made is no longer kept. Send a new key."
        )
    return await _shown(conn, backfill_id)


async def _shown(conn: AsyncConnection, backfill_id: int) -> BackfillView:
    row = await backfills.read(conn, backfill_id)
    if row is None:
        raise NotFound("backfill", backfill_id)
    return backfill_view(row, (await backfills.read_progress(conn, [row.id]))[row.id])
