"""What every route works with, as Litestar hands it to the handlers."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from agentsched.service.caller import Caller
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database


@dataclass(frozen=True)
class Parts:
    """The database, the configuration, and who to tell of new work."""

    db: Database
    settings: Settings
    waker: Waker


WithParts = NamedDependency[SkipValidation[Parts]]
WithCaller = NamedDependency[SkipValidation[Caller]]
