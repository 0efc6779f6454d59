"""Every few seconds and without Redis: end what is over, start what waits, do a missing tick (DESIGN §6)."""

from agentsched.service import tick
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database


class Sweep:
    """The net under tick and wake-ups."""

    def __init__(self, db: Database, settings: Settings, waker: Waker) -> None:
        self._db = db
        self._settings = settings
        self._waker = waker

    async def run_once(self) -> None:
        """One sweep. Raises the database's error when it is away; what was committed before stays."""
        if await tick.sweep(self._db, self._settings):
            self._waker.wake()
