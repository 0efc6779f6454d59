"""What becomes of a run when others of its schedule are in flight or wait (DESIGN §7).

One line, two moments: ``on_due`` when a slot comes due, ``on_slot_open`` when something left. Both are pure, and the
simulation uses them too.
"""

from typing import Literal, NamedTuple, assert_never

from agentsched.core.words import Lane, Overlap, Reason, RunStatus, Trigger


class Limits(NamedTuple):
    """The part of a schedule's policies that decides overlaps. ``cap`` is ``max_concurrency``; None = no cap."""

    overlap: Overlap
    cap: int | None
    queue_limit: int | None


class Flight(NamedTuple):
    """A run in flight. ``asked``: it has been asked to stop. ``overdue``: as of ``Waiting``."""

    run_id: int
    trigger: Trigger
    status: RunStatus
    asked: bool = False
    overdue: bool = False


class Waiting(NamedTuple):
    """A queued run. ``overdue``: admitted late by misfire ``all``, by a resume that catches up, or by a requeue."""

    run_id: int
    lane: Lane
    overdue: bool = False
    trigger: Trigger = Trigger.CRON


class Line(NamedTuple):
    """What a schedule has in flight, and what waits, in order."""

    in_flight: tuple[Flight, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def live_waiting(self) -> tuple[Waiting, ...]:
        return tuple(w for w in self.waiting if w.lane is Lane.LIVE)


class Admission(NamedTuple):
    """The verdict on one due slot, and what it does to the runs before it.

    ``supersede``: queued runs that become ``skipped(superseded)``. ``cancel``: runs in flight without a worker,
    cancelled at once. ``ask``: running ones that are asked to stop.
    """

    verdict: Literal["start", "wait"] | Reason
    supersede: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()
    ask: tuple[int, ...] = ()


class Opening(NamedTuple):
    """What an open slot does to the line: the runs that start, in order, and those that are superseded."""

    starts: tuple[int, ...]
    supersede: tuple[int, ...] = ()


START = Admission("start")
WAIT = Admission("wait")


def on_due(limits: Limits, line: Line, *, overdue: bool = False) -> Admission:
    """Decide one live slot that comes due. While a slot is free and nobody waits, it starts under every policy.

    ``overdue`` slots wait in line whatever ``overlap`` says, past ``queue_limit``, one at a time unless
    ``max_concurrency`` is given, and nothing supersedes them. A slot that only backfill runs block waits, whatever
    ``overlap`` says; at most one does, but under ``queue`` and ``allow``, which have a line, all wait.
    """
    cap, ahead = limits.cap, line.live_waiting()
    if cap is None:
        others = overdue and (any(w.overdue for w in ahead) or any(f.overdue for f in line.in_flight))
        return WAIT if others else START
    if len(line.in_flight) < cap and not ahead:
        return START
    if overdue:
        return WAIT
    replaceable = tuple(w.run_id for w in ahead if not w.overdue)
    match limits.overlap:
        case Overlap.SKIP:
            if _only_backfill_blocks(cap, line):
                return Admission("wait", supersede=replaceable)
            return Admission(Reason.OVERLAP)
        case Overlap.QUEUE | Overlap.ALLOW:
            if limits.queue_limit is not None and len(ahead) >= limits.queue_limit:
                return Admission(Reason.QUEUE_FULL)
            return WAIT
        case Overlap.QUEUE_LATEST:
            return Admission("wait", supersede=replaceable)
        case Overlap.REPLACE:
            stoppable = [f for f in line.in_flight if _may_be_stopped(f)]
            cancel = tuple(f.run_id for f in stoppable if f.status is not RunStatus.RUNNING)
            ask = tuple(f.run_id for f in stoppable if f.status is RunStatus.RUNNING and not f.asked)
            gone = len(cancel) == len(stoppable) and len(replaceable) == len(ahead)
            starts = gone and len(line.in_flight) - len(cancel) < cap
            return Admission("start" if starts else "wait", supersede=replaceable, cancel=cancel, ask=ask)
        case _:
            assert_never(limits.overlap)


def on_slot_open(limits: Limits, line: Line, *, paused: bool = False) -> Opening:
    """The queued runs that start now: live before backfill, as many as there are slots.

    Backfill runs of a schedule go one at a time, and so do overdue ones where there is no cap. While the schedule is
    paused only backfill goes on, and what people requeue. ``queue_latest`` and ``replace`` leave only the newest of
    a line that an earlier policy has left; ``replace`` starts it when all runs that it stopped are gone.
    """
    starts: list[int] = []
    flying = len(line.in_flight)
    live, supersede = line.live_waiting(), tuple[int, ...]()
    if limits.overlap in (Overlap.QUEUE_LATEST, Overlap.REPLACE) and not paused:
        supersede = tuple(w.run_id for w in live if not w.overdue)[:-1]
    overdue_flies = limits.cap is None and any(f.overdue for f in line.in_flight)
    backfill_flies = any(f.trigger is Trigger.BACKFILL for f in line.in_flight)
    stopping = limits.overlap is Overlap.REPLACE and any(f.asked and _may_be_stopped(f) for f in line.in_flight)
    for waiting in (*live, *(w for w in line.waiting if w.lane is Lane.BACKFILL)):
        if (limits.cap is not None and flying >= limits.cap) or waiting.run_id in supersede:
            continue
        if waiting.lane is Lane.BACKFILL:
            if backfill_flies:
                continue
            backfill_flies = True
        elif (paused and waiting.trigger is not Trigger.REQUEUE) or stopping or (waiting.overdue and overdue_flies):
            continue
        else:
            overdue_flies = limits.cap is None and (overdue_flies or waiting.overdue)
        starts.append(waiting.run_id)
        flying += 1
    return Opening(tuple(starts), supersede)


def _only_backfill_blocks(cap: int, line: Line) -> bool:
    return sum(f.trigger is not Trigger.BACKFILL for f in line.in_flight) < cap


def _may_be_stopped(flight: Flight) -> bool:
    return flight.trigger not in (Trigger.MANUAL, Trigger.BACKFILL)
