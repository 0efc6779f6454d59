"""A principal with a conversation, for tests of the services."""

from agentsched.core.words import Scope
from agentsched.service import conversations, keys, lifecycle, schedules
from agentsched.service.caller import Caller
from agentsched.service.requests import AgentSpec, NewConversation, NewMessage, NewSchedule
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow

HARNESS = "test"


async def somebody(db: Database, name: str = "ada", timezone: str | None = "UTC") -> Caller:
    """A principal with an admin's rights."""
    principal = await keys.ensure_principal(db, name, timezone)
    return Caller(principal.id, Scope.ADMIN, "key:0")


async def conversation(db: Database, settings: Settings, caller: Caller, harness: str = HARNESS) -> int:
    """An empty conversation whose agent only the test serves; its id."""
    request = NewConversation(agent=AgentSpec(harness=harness))
    row, _ = await conversations.create(db, settings, caller, request)
    return row.id


async def schedule(
    db: Database, settings: Settings, caller: Caller, conversation_id: int, **fields: object
) -> ScheduleRow:
    """A schedule of the conversation, every five minutes unless other fields say otherwise."""
    timed = {"cron", "every", "at", "in", "webhook"} & fields.keys()
    body = {"prompt": "x"} | ({} if timed else {"cron": "*/5 * * * *"}) | fields
    made = await schedules.create(db, settings, caller, conversation_id, NewSchedule.model_validate(body))
    return made.row


async def webhook(
    db: Database, settings: Settings, caller: Caller, conversation_id: int, **fields: object
) -> tuple[ScheduleRow, str]:
    """A schedule of the conversation that fires when it is called, and its token."""
    request = NewSchedule.model_validate({"prompt": "x", "webhook": True} | fields)
    made = await schedules.create(db, settings, caller, conversation_id, request)
    assert made.token is not None
    return made.row, made.token


async def say(db: Database, settings: Settings, caller: Caller, conversation_id: int, words: str) -> int:
    """A person says something; the id of the task."""
    task_id, _ = await conversations.say(db, settings, caller, conversation_id, NewMessage(text=words))
    return task_id


async def run_now(db: Database, caller: Caller, schedule_id: int, key: str | None = None) -> RunRow:
    """Somebody runs a schedule now."""
    run, _ = await lifecycle.run_now(db, Settings(), caller, schedule_id, key=key)
    return run
