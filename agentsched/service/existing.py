"""What a model asks for may exist already, because it repeats itself or a call was sent twice (DESIGN §10)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from agentsched.core.timing import Timing
from agentsched.service.requests import NewSchedule
from agentsched.store.schedules import ScheduleRow

REPEATED_WITHIN = timedelta(minutes=2)
"""The same ``in``, sent again so much later, means the same instant."""


def find_existing(live: Sequence[ScheduleRow], request: NewSchedule, timing: Timing | None) -> ScheduleRow | None:
    """The live schedule of the conversation that has the name asked for, else one with the same timing and prompt.

    ``timing`` is None where it could not be computed.
    """
    named = next((row for row in live if request.name is not None and row.name == request.name), None)
    if named is not None or timing is None:
        return named
    slack = REPEATED_WITHIN if request.in_ is not None else timedelta()
    return next((row for row in live if row.prompt == request.prompt and _is_same(row.timing, timing, slack)), None)


def _is_same(one: Timing, other: Timing, slack: timedelta) -> bool:
    """Whether both mean the same, wherever an interval is counted from."""
    return _words(one) == _words(other) and _is_near(one.at, other.at, slack)


def _words(timing: Timing) -> tuple[object, ...]:
    cron = None if timing.cron is None else timing.cron.split()
    return timing.kind, cron, timing.every_minutes, timing.timezone


def _is_near(one: datetime | None, other: datetime | None, slack: timedelta) -> bool:
    return one == other if one is None or other is None else abs(one - other) <= slack
