"""Lines of a schedule, written one letter a run; ids go by place: in flight from 1, waiting from 11.

In flight: p pending, r running, w retry_wait, a running and asked to stop (all cron); h webhook and q requeue, running;
m manual and b backfill, running; M manual and B backfill, pending.
Waiting: l live, o overdue, f backfill.
"""

from agentsched.core.overlap import Flight, Line, Waiting
from agentsched.core.words import Lane, RunStatus, Trigger

FLIGHTS = {
    "p": (Trigger.CRON, RunStatus.PENDING, False),
    "r": (Trigger.CRON, RunStatus.RUNNING, False),
    "w": (Trigger.CRON, RunStatus.RETRY_WAIT, False),
    "a": (Trigger.CRON, RunStatus.RUNNING, True),
    "h": (Trigger.WEBHOOK, RunStatus.RUNNING, False),
    "q": (Trigger.REQUEUE, RunStatus.RUNNING, False),
    "m": (Trigger.MANUAL, RunStatus.RUNNING, False),
    "M": (Trigger.MANUAL, RunStatus.PENDING, False),
    "b": (Trigger.BACKFILL, RunStatus.RUNNING, False),
    "B": (Trigger.BACKFILL, RunStatus.PENDING, False),
}
WAITING = {"l": (Lane.LIVE, False), "o": (Lane.LIVE, True), "f": (Lane.BACKFILL, False)}


def line(flights: str, waiting: str) -> Line:
    return Line(
        tuple(Flight(number, *FLIGHTS[letter]) for number, letter in enumerate(flights, 1)),
        tuple(Waiting(number, *WAITING[letter]) for number, letter in enumerate(waiting, 11)),
    )
