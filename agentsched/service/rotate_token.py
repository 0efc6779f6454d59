"""The token of a webhook, for people: give it its first one, or a new one with a grace period (DESIGN §10, §11)."""

import json
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.timing import Kind
from agentsched.core.words import LIVE_SCHEDULE
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict
from agentsched.service.permission import Act, require
from agentsched.service.schedules import owned
from agentsched.service.update import ended
from agentsched.service.webhook_tokens import issue
from agentsched.store import changes, clock, schedules, webhook_tokens
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow


class Webhook(NamedTuple):
    """A live schedule that is called, and whether it has a token by which it can be."""

    row: ScheduleRow
    has_token: bool


class Rotated(NamedTuple):
    """A new token, and until when those before it work."""

    token: str
    old_valid_until: datetime


async def read_webhook(db: Database, caller: Caller, schedule_id: int) -> Webhook:
    """What a person sees before asking for a token. Raises as ``rotate_token`` does."""
    require(caller, Act.SEE_SECRET)
    async with db.begin() as conn:
        row = await _live_webhook(conn, caller, schedule_id)
        return Webhook(row, await webhook_tokens.has_one_in_force(conn, row.id))


async def rotate_token(db: Database, caller: Caller, schedule_id: int, *, grace_seconds: int) -> Rotated:
    """Make a new token. Those before it work for ``grace_seconds`` more (0 = no more), or as long as they had left.

    Raises Forbidden for a model, NotFound, and Conflict for a schedule that has no webhook or has ended.
    """
    require(caller, Act.SCHEDULE)
    require(caller, Act.SEE_SECRET)
    async with db.begin() as conn:
        await owned(conn, caller, schedule_id)
        await schedules.lock(conn, schedule_id)
        row = await _live_webhook(conn, caller, schedule_id)
        now = await clock.now(conn)
        until = now + timedelta(seconds=grace_seconds)
        await webhook_tokens.expire(conn, row.id, until)
        token = await issue(conn, row.id, now)
        asked = json.dumps({"grace_seconds": grace_seconds})
        await changes.record(
            conn, row.id, row.version, action="token_rotated", actor=caller.actor, changes=asked, now=now
        )
        return Rotated(token, until)


async def _live_webhook(conn: AsyncConnection, caller: Caller, schedule_id: int) -> ScheduleRow:
    row = await owned(conn, caller, schedule_id)
    if row.kind != Kind.WEBHOOK:
        raise Conflict("schedule_has_no_webhook", f"Schedule {row.id} fires by the clock, and has no token.")
    if row.status not in LIVE_SCHEDULE:
        raise ended(row)
    return row
