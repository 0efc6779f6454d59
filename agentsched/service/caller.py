"""Who asks."""

from dataclasses import dataclass
from typing import NamedTuple

from agentsched.core.words import Scope


class TaskOfCaller(NamedTuple):
    """The task whose token was sent. ``scheduled_by`` is the schedule of ``scheduled_run_id``, its lineage."""

    id: int
    scheduled_run_id: int | None
    scheduled_by: int | None


@dataclass(frozen=True)
class Caller:
    """A principal by one of its credentials. ``actor`` is written into histories.

    ``conversation_id``: the only one that the credential is for. ``task``: for a task token. ``by_model``: a model
    asks, not a person, so that budgets refuse.
    """

    principal_id: int
    scope: Scope
    actor: str
    conversation_id: int | None = None
    task: TaskOfCaller | None = None
    by_model: bool = False

    def may(self, scope: Scope) -> bool:
        """``admin`` includes the other scopes; otherwise a key does what its own scope says."""
        return self.scope in (Scope.ADMIN, scope)
