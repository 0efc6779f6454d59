"""Lines of a schedule, written one letter a run; ids go by place: in flight from 1, waiting from 11.

In flight: p pending, r running, w retry_wait, a running and asked to stop, o running and overdue (all cron);
h webhook and q requeue, running; m manual and b backfill, running; M manual and B backfill, pending.
Waiting: l live, o overdue, f backfill.
"""

from agentsched.core.overlap import Flight, Line, Waiting
from agentsched.core.words import Lane, RunStatus, Trigger

FLIGHTS = {
    "p": (Trigger.CRON, RunStatus.PENDING, False, False),
    "r": (Trigger.CRON, RunStatus.RUNNING, False, False),
    "w": (Trigger.CRON, RunStatus.RETRY_WAIT, False, False),
    "a": (Trigger.CRON, RunStatus.RUNNING, True, False),
    "o": (Trigger.CRON, RunStatus.RUNNING, False, True),
    "h": (Trigger.WEBHOOK, RunStatus.RUNNING, False, False),
    "q": (Trigger.REQUEUE, RunStatus.RUNNING, False, False),
    "m": (Trigger.MANUAL, RunStatus.RUNNING, False, False),
    "M": (Trigger.MANUAL, RunStatus.PENDING, False, False),
    "b": (Trigger.BACKFILL, RunStatus.RUNNING, False, False),
    "B": (Trigger.BACKFILL, RunStatus.PENDING, False, False),
}
WAITING = {"l": (Lane.LIVE, False), "o": (Lane.LIVE, True), "f": (Lane.BACKFILL, False)}


def line(flights: str, waiting: str) -> Line:
    return Line(
        tuple(Flight(number, *FLIGHTS[letter]) for number, letter in enumerate(flights, 1)),
        tuple(Waiting(number, *WAITING[letter]) for number, letter in enumerate(waiting, 11)),
    )


def has_overdue(at: Line) -> bool:
    return any(flight.overdue for flight in at.in_flight) or any(waiting.overdue for waiting in at.waiting)
