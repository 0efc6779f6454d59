"""Which slots of a range a backfill runs, and what it may run without being asked twice (DESIGN §8)."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Literal, assert_never

from agentsched.core.words import IN_FLIGHT, Reprocess, RunStatus

ASKS_ABOVE = 25
"""More slots than that need a confirmation."""

CAP = 1_000
"""The most slots of a backfill that says nothing else."""

HIGHEST_CAP = 10_000
"""The most slots that a backfill can be allowed."""

DID_NOT_RUN = frozenset((RunStatus.SKIPPED, RunStatus.MISSED, RunStatus.CANCELLED, RunStatus.ABANDONED))
MAY_YET_SUCCEED = frozenset((*IN_FLIGHT, RunStatus.QUEUED, RunStatus.COMPLETED))


def qualifying(
    slots: Iterable[datetime], had: Mapping[datetime, Collection[RunStatus]], reprocess: Reprocess
) -> list[datetime]:
    """The slots that run, in order. ``had``: the statuses of the runs that each has had; absent = none.

    A missed stretch is one row at its first slot, and never makes a slot count as run, so the others need no row.
    """
    return [slot for slot in slots if runs_again(had.get(slot, ()), reprocess)]


def runs_again(had: Collection[RunStatus], reprocess: Reprocess) -> bool:
    """Whether a slot that has had runs of these statuses runs (again)."""
    match reprocess:
        case Reprocess.MISSING:
            return DID_NOT_RUN.issuperset(had)
        case Reprocess.FAILED:
            return RunStatus.FAILED in had and MAY_YET_SUCCEED.isdisjoint(had)
        case Reprocess.ALL:
            return True
        case _:
            assert_never(reprocess)


def refusal(count: int, *, cap: int, confirmed: bool) -> Literal["too_many_slots", "confirmation_required"] | None:
    """Why a backfill of that many slots is refused whole; None if it is not. The cap holds for confirmed ones too."""
    if count > cap:
        return "too_many_slots"
    return "confirmation_required" if count > ASKS_ABOVE and not confirmed else None
