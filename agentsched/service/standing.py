"""Where a model stands when it calls a tool: what time it is for the person, and how many schedules live."""

from dataclasses import dataclass
from datetime import datetime

from agentsched.service.caller import Caller
from agentsched.settings import Settings
from agentsched.store import clock, conversations, principals, schedules
from agentsched.store.database import Database


@dataclass(frozen=True)
class Standing:
    """``timezone``: the conversation's, else its owner's; None if neither has one."""

    now: datetime
    timezone: str | None
    live: int
    live_limit: int


async def read(db: Database, settings: Settings, caller: Caller, conversation_id: int) -> Standing:
    """Where the caller stands in one of its conversations."""
    async with db.begin() as conn:
        conversation = await conversations.read(conn, caller.principal_id, conversation_id)
        timezone = None if conversation is None else conversation.timezone
        if timezone is None:
            principal = await principals.read(conn, caller.principal_id)
            timezone = None if principal is None else principal.timezone
        live, _ = await schedules.count_live(conn, caller.principal_id, conversation_id)
        return Standing(await clock.now(conn), timezone, live, settings.schedules_per_conversation)
