"""Which schedule somebody means who calls it by an id or a name (DESIGN §10)."""

from agentsched.core.words import LIVE_SCHEDULE
from agentsched.service import schedules
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, NotFound
from agentsched.store import named_schedules
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow

MOST_CANDIDATES = 10
LARGEST_ID = 2**63 - 1


class Ambiguous(Conflict):
    """Several schedules have this name."""

    def __init__(self, name: str, candidates: list[ScheduleRow]) -> None:
        super().__init__("schedule_ambiguous", f"{len(candidates)} schedules are called {name}. Name one by its id.")
        self.name = name
        self.candidates = candidates


async def find(db: Database, caller: Caller, called: str) -> ScheduleRow:
    """The caller's schedule with this id, else the one that is called so in the caller's conversation.

    A live one goes before those that have ended, and the exact name before the same in other capitals. Raises NotFound
    and Ambiguous.
    """
    wanted = called.strip()
    if wanted.isascii() and wanted.isdecimal() and int(wanted) <= LARGEST_ID:
        try:
            return await schedules.get(db, caller, int(wanted))
        except NotFound:
            pass
    found = await _named(db, caller, wanted)
    live = [row for row in found if row.status in LIVE_SCHEDULE]
    exact = [row for row in live if row.name == wanted]
    fitting = exact or live or found
    if len(fitting) > 1:
        raise Ambiguous(wanted, fitting)
    if not fitting:
        raise NotFound("schedule", wanted)
    return fitting[0]


async def _named(db: Database, caller: Caller, name: str) -> list[ScheduleRow]:
    if caller.conversation_id is None:
        return []
    async with db.begin() as conn:
        return await named_schedules.find(
            conn,
            caller.principal_id,
            caller.conversation_id,
            name,
            also=None if caller.task is None else caller.task.scheduled_by,
            limit=MOST_CANDIDATES,
        )
