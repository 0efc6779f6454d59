"""After COMMIT, workers are told that there may be work; a lost word costs a few seconds, never a run (DESIGN §6)."""

from typing import Protocol


class Waker(Protocol):
    """Tells the workers of all processes to look for work."""

    def wake(self) -> None:
        """Ask for a wake-up. Returns at once, never raises; calls in a short time become one."""
        ...
