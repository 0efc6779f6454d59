"""What a check of `agentsched doctor` says."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What one check found; ``advice`` is what to do about it, where there is something to do."""

    check: str
    state: State
    finding: str
    advice: str | None = None
