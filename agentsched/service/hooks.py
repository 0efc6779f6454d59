"""Accept webhook deliveries: committed before they are answered, and each key once (DESIGN §5, §11)."""

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.fire import decide_delivery
from agentsched.core.hook_body import Body, read_body
from agentsched.core.problems import Problem, Refused
from agentsched.core.words import Overlap, Reason, RunStatus, ScheduleStatus
from agentsched.core.zones import zone
from agentsched.service import webhook_tokens
from agentsched.service.budget import seconds_to_midnight
from agentsched.service.errors import Busy, Conflict, ServiceError, TooMany, UnknownToken
from agentsched.service.fire_batch import Overspent, due_schedule, waiting_to_read, write
from agentsched.service.fire_rows import Decided, FireRows, budget_note, spent
from agentsched.service.update import ended
from agentsched.settings import Settings
from agentsched.store import clock, deliveries, due, fires, notes, runs, schedules
from agentsched.store import webhook_tokens as tokens
from agentsched.store.database import LOCK_NOT_AVAILABLE, Database, sqlstate
from agentsched.store.deliveries import NewDelivery
from agentsched.store.due import LineRow

LOCK_TIMEOUT_MS = 2000
LINE_RETRY_SECONDS = 60
"""When a sender may try again after a full line, which moves when a run ends, and nobody knows when that is."""

ACCEPTED = 202


class Delivery(NamedTuple):
    """What a sender sends. ``content_type`` is the header's text, ``source`` what the sender calls itself.

    Without a ``key`` it is one of its own, whatever came before it.
    """

    body: bytes
    content_type: str
    key: str | None = None
    source: str | None = None


class Accepted(NamedTuple):
    """The answer to a delivery that is committed, and whether it is new (False for a replay of its key)."""

    answer: dict[str, Any]
    new: bool


async def accept(db: Database, settings: Settings, token: str, delivery: Delivery) -> Accepted:
    """Make a run for a delivery, or record why there is none, and keep the answer for replays of its key.

    Raises UnknownToken, MalformedBody and UnsupportedType for the body, Conflict for a
    schedule that is paused or has ended, Refused for a key that had another body, TooMany for a full line or a spent
    budget, and Busy when others hold the schedule for longer than 2 s. Then nothing of the delivery is stored.
    """
    async with db.begin() as conn:
        found = await webhook_tokens.find(conn, token)
    if found is None:
        raise UnknownToken
    body = read_body(delivery.content_type, delivery.body)
    while True:
        try:
            async with db.begin(lock_timeout_ms=LOCK_TIMEOUT_MS) as conn:
                outcome = await _accept(conn, settings, found.schedule_id, token, delivery, body)
        except Overspent:
            continue
        except DBAPIError as error:
            if sqlstate(error) != LOCK_NOT_AVAILABLE:
                raise
            raise Busy(
                "schedule_busy", "The schedule is busy. Nothing was stored; send it again.", retry_after_seconds=1
            ) from None
        if isinstance(outcome, ServiceError):
            raise outcome
        return outcome


async def _accept(
    conn: AsyncConnection, settings: Settings, schedule_id: int, token: str, delivery: Delivery, body: Body
) -> Accepted | ServiceError:
    """The answer; or what to raise once the transaction is committed, with what it says of the schedule."""
    schedule = await schedules.lock(conn, schedule_id)
    found = await webhook_tokens.find(conn, token)
    if schedule is None or found is None:
        raise UnknownToken
    body_hash = hashlib.sha256(delivery.body).digest()
    if delivery.key is not None:
        first = await deliveries.find(conn, schedule_id, delivery.key)
        if first is not None and first.body_hash != body_hash:
            raise Refused(_key_reused(delivery.key))
        if first is not None:
            return Accepted(first.answer, new=False)
    now = await clock.now(conn)
    fire_at = now.replace(second=0, microsecond=0)
    if schedule.status == ScheduleStatus.PAUSED:
        raise Conflict(
            "schedule_paused", "The schedule is paused and takes no deliveries until somebody resumes it. Send it then."
        )
    if schedule.status != ScheduleStatus.ACTIVE:
        raise ended(schedule)
    if schedule.ends_at is not None and fire_at > schedule.ends_at:
        await schedules.end(conn, schedule_id, ScheduleStatus.COMPLETED, accounted_until=None, now=now)
        return ended(schedule._replace(status=ScheduleStatus.COMPLETED))
    decided = await _decide(conn, settings, schedule_id, fire_at, now)
    [slot] = decided.decision.slots
    if slot.reason is Reason.QUEUE_FULL:
        raise TooMany(
            "queue_full",
            f"The schedule's line is full: {schedule.queue_limit} deliveries wait. Nothing was stored.",
            retry_after_seconds=LINE_RETRY_SECONDS,
        )
    if slot.reason is Reason.BUDGET:
        return await _over_budget(conn, decided, now)
    delivery_id = await deliveries.allocate_id(conn)
    rows = FireRows([decided], now, delivery_id=delivery_id)
    await write(conn, rows)
    await tokens.mark_used(conn, found.id, now)
    answer = _answer(rows)
    await deliveries.insert(
        conn,
        NewDelivery(
            id=delivery_id,
            schedule_id=schedule_id,
            key=uuid4().hex if delivery.key is None else delivery.key,
            body_hash=body_hash,
            body=delivery.body,
            content_type=body.media_type,
            source=delivery.source,
            run_id=answer["run_id"],
            answer_status=ACCEPTED,
            answer=json.dumps(answer),
            received_at=now,
            expires_at=now + timedelta(days=settings.delivery_retention_days),
        ),
    )
    await _spend(conn, settings, decided, now)
    return Accepted(answer, new=True)


async def _decide(
    conn: AsyncConnection, settings: Settings, schedule_id: int, fire_at: datetime, now: datetime
) -> Decided:
    """The overlap policy and the budgets on a delivery, as a fire decides a slot."""
    [row] = await due.read_due(conn, [schedule_id])
    row = row._replace(next_fire_at=fire_at)
    line: list[LineRow] = []
    if row.has_line:
        if row.overlap == Overlap.REPLACE:
            await runs.lock_flights(conn, [schedule_id])
        line = (await due.read_lines(conn, {schedule_id: waiting_to_read(row)}))[schedule_id]
    day = now.astimezone(zone(row.timezone)).date()
    had = (await fires.read_principal_days(conn, [row.principal_id], now.date())).get(row.principal_id, 0)
    due_now = due_schedule(row, line, day, settings.daily_run_limit_per_principal - had)
    return Decided(row, due_now.timing, decide_delivery(due_now), day, line)


async def _spend(conn: AsyncConnection, settings: Settings, decided: Decided, now: datetime) -> None:
    """Count a run against its principal's day. Raises Overspent if others have used it up since the decision."""
    admitted, owner = decided.decision.admitted, decided.row.principal_id
    if admitted:
        total = (await fires.spend_principal_days(conn, {owner: admitted}, now.date()))[owner]
        if total > settings.daily_run_limit_per_principal:
            raise Overspent


async def _over_budget(conn: AsyncConnection, decided: Decided, now: datetime) -> TooMany:
    """What to answer for the rest of the day; the first time in it the owner gets a note."""
    row = decided.row
    if not (row.day_noted and row.day == decided.day):
        await notes.insert_notes(conn, [budget_note(decided)], now)
        await schedules.note_budget(conn, row.id, decided.day)
    budget = spent(decided)
    return TooMany(
        "budget_spent",
        f"Nothing was stored: {budget.text}.",
        retry_after_seconds=seconds_to_midnight(now, budget.timezone),
    )


def _answer(rows: FireRows) -> dict[str, Any]:
    """What becomes of the delivery; a skip says why."""
    if rows.started:
        return {"run_id": rows.started[0].id, "status": RunStatus.PENDING}
    [run] = rows.recorded
    answer = {"run_id": run.id, "status": run.status}
    return answer if run.reason is None else answer | {"reason": run.reason, "reason_text": run.reason_text}


def _key_reused(key: str) -> Problem:
    return Problem(
        "idempotency_key_reused",
        "Idempotency-Key",
        key,
        "This key belongs to a delivery with another body.",
        "Use a new key for a new delivery, and the same key only to repeat one.",
    )
