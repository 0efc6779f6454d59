"""The range of a backfill: what is wrong with it, and the slots that lie in it (DESIGN §8)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from agentsched.core.problems import Problem
from agentsched.core.timing import Kind, Timing, occurrences
from agentsched.core.words import Reprocess, ScheduleStatus
from agentsched.service.requests import BackfillRequest
from agentsched.store.schedules import ScheduleRow

WALK_AT_MOST = 100_000
"""More slots than that are not counted."""

SLOTS_A_STEP = 1_000
"""So many are computed before others in the process have their turn."""

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""Before, zones had local times that are no whole minutes apart."""


class Walk(NamedTuple):
    """The slots of a range, in order. ``more``: there are more than these, and nobody walks so far."""

    slots: list[datetime]
    more: bool


async def walk(timing: Timing, after: datetime, until: datetime) -> Walk:
    """Compute the slots in (``after``, ``until``], in turns with whatever else the event loop has to do."""
    slots: list[datetime] = []
    for slot in occurrences(timing, after, until):
        if len(slots) == WALK_AT_MOST:
            return Walk(slots, more=True)
        slots.append(slot)
        if len(slots) % SLOTS_A_STEP == 0:
            await asyncio.sleep(0)
    return Walk(slots, more=False)


def range_problems(row: ScheduleRow, request: BackfillRequest, now: datetime, *, retention_days: int) -> list[Problem]:
    """Everything that is wrong with the range of a backfill of this schedule."""
    found = [*_instant_problems("from", request.from_), *_instant_problems("to", request.to)]
    if row.kind == Kind.WEBHOOK:
        found.append(
            Problem(
                "webhook_has_no_slots",
                "from",
                request.from_.isoformat(),
                "A webhook schedule fires when it is called, and has no slots that could be run again.",
                "Requeue its failed runs, or call its URL.",
            )
        )
    if found:
        return found
    if request.to <= request.from_:
        found.append(
            Problem(
                "range_empty",
                "to",
                request.to.isoformat(),
                f"It is not after `from`, {_shown(request.from_)}.",
                "Write an instant after `from`; the slots after `from` and up to `to` are run.",
            )
        )
    found += _end_problems(row, request.to, now)
    kept_since = now - timedelta(days=retention_days)
    if request.reprocess is Reprocess.MISSING and request.from_ < kept_since:
        found.append(
            Problem(
                "from_before_retention",
                "from",
                request.from_.isoformat(),
                f"Ended runs are kept for {retention_days} days, so nobody knows which of the earlier slots ran.",
                f"Write {_shown(kept_since + timedelta(minutes=1))} or later, or run them all again with "
                "`reprocess: all`.",
            )
        )
    return found


def _instant_problems(field: str, instant: datetime) -> list[Problem]:
    if instant.tzinfo is None:
        return [
            Problem(
                "instant_naive",
                field,
                instant.isoformat(),
                "It has no offset from UTC.",
                f"Write an instant, such as {instant.isoformat()}Z.",
            )
        ]
    try:
        too_early = instant.astimezone(UTC) < EARLIEST
    except OverflowError:
        too_early = True
    if not too_early:
        return []
    return [
        Problem(
            "instant_out_of_range",
            field,
            instant.isoformat(),
            "It is not within the years 1970 to 9999 in UTC.",
            "Write an instant since the schedule's creation, or somewhat before.",
        )
    ]


def _end_problems(row: ScheduleRow, to: datetime, now: datetime) -> list[Problem]:
    """A backfill runs what has passed; the next fire comes by itself."""
    if row.status == ScheduleStatus.ACTIVE:
        if row.next_fire_at is None or to < row.next_fire_at:
            return []
        return [
            Problem(
                "to_not_before_next_fire",
                "to",
                to.isoformat(),
                f"The slot of {_shown(row.next_fire_at)} is the next fire, which comes by itself.",
                f"Write an instant before {_shown(row.next_fire_at)}.",
            )
        ]
    if to <= now:
        return []
    return [
        Problem(
            "to_in_the_future",
            "to",
            to.isoformat(),
            f"The schedule is {row.status}, and only slots that have passed can be run again.",
            f"Write {_shown(now)} or earlier.",
        )
    ]


def _shown(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
