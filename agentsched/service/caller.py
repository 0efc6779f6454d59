"""Who asks."""

from dataclasses import dataclass

from agentsched.core.words import Scope


@dataclass(frozen=True)
class Caller:
    """A principal by one of its credentials. ``actor`` is written into histories."""

    principal_id: int
    scope: Scope
    actor: str
    conversation_id: int | None = None

    def may(self, scope: Scope) -> bool:
        """``admin`` includes the other scopes; otherwise a key does what its own scope says."""
        return self.scope in (Scope.ADMIN, scope)
