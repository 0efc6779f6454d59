"""Ada's model at its desk, in Berlin; the clock is frozen on Saturday 2026-10-24 at 09:03, the day before DST ends."""

import pytest

from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools.calling import for_conversation
from tests import people
from tests.clock import Clock
from tests.tools.desk import Desk


@pytest.fixture
async def desk(db: Database, settings: Settings, clock: Clock) -> Desk:
    await clock.freeze("2026-10-24T07:03:20Z")
    return await desk_of(db, settings, "ada")


async def desk_of(db: Database, settings: Settings, name: str) -> Desk:
    """The model of a new conversation of somebody."""
    somebody = await people.somebody(db, name, "Europe/Berlin")
    conversation = await people.conversation(db, settings, somebody)
    return Desk(db, settings, await for_conversation(db, somebody, conversation))
