"""Which queued runs an outage has stranded (DESIGN §8): what waited in line so long is not run hours later."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

PERIODS_OF_THE_BOUND = 2


class Outage(NamedTuple):
    """A hole between two recorded ticks, by their minutes (UTC). It is as long as the two are apart."""

    last_minute: datetime
    until_minute: datetime


def stranding_outage(
    *,
    fire_at: datetime,
    queued_at: datetime,
    following: datetime | None,
    outages: Iterable[Outage],
    window_seconds: int | None,
) -> Outage | None:
    """The outage that strands a queued timed run of a ``misfire: skip`` schedule; None if it may still run.

    ``following`` is the occurrence after ``fire_at``. An outage strands what was in line when it began, if it lasted
    longer than twice the run's period, or than ``window_seconds`` in place of that. A ``once`` has no period.
    A line that is deep without an outage is kept, however old.
    """
    if window_seconds is not None:
        bound = timedelta(seconds=window_seconds)
    elif following is not None:
        bound = PERIODS_OF_THE_BOUND * (following - fire_at)
    else:
        return None
    for outage in outages:
        waited = fire_at <= outage.last_minute and queued_at < outage.until_minute
        if waited and outage.until_minute - outage.last_minute > bound:
            return outage
    return None
