"""Schedules by their numbers in a conversation: how people in its chat call them (DESIGN §13)."""

from collections.abc import Sequence

from agentsched.core.words import ScheduleStatus
from agentsched.service import conversations
from agentsched.service.caller import Caller
from agentsched.service.errors import NotFound
from agentsched.store import numbered_schedules
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow

LARGEST_NUMBER = 2**31 - 1


async def get(db: Database, caller: Caller, conversation_id: int, number: int) -> ScheduleRow:
    """The schedule of one of the caller's conversations that has this number. Raises NotFound."""
    async with db.begin() as conn:
        await conversations.owned(conn, caller, conversation_id)
        found = None
        if number <= LARGEST_NUMBER:
            found = await numbered_schedules.read(conn, conversation_id, number)
        if found is None:
            raise NotFound("schedule", number)
        return found


async def newest(
    db: Database, caller: Caller, conversation_id: int, statuses: Sequence[ScheduleStatus], *, limit: int
) -> list[ScheduleRow]:
    """The newest schedules of one of the caller's conversations, in the order of their numbers. Raises NotFound."""
    async with db.begin() as conn:
        await conversations.owned(conn, caller, conversation_id)
        return await numbered_schedules.newest(conn, conversation_id, [each.value for each in statuses], limit=limit)
