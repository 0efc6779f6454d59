"""Call a tool by its name."""

from collections.abc import Mapping
from typing import Any

from agentsched.service.caller import Caller
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools.answers import Answer


class Toolbox:
    """The tools, on a database. Whatever a model can get wrong comes back as an answer that says so."""

    def __init__(self, db: Database, settings: Settings, waker: Waker) -> None:
        self._db = db
        self._settings = settings
        self._waker = waker

    async def call(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Do what a model asks for, in the conversation of the caller (``calling.for_conversation``).

        Raises only what everything raises: the database's error when it is away.
        """
        raise NotImplementedError
