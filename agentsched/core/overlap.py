"""What becomes of a run when others of its schedule are in flight or wait (DESIGN §7).

One line, two moments: ``on_due`` when a slot comes due, ``on_slot_open`` when something left. Both are pure, and the
simulation uses them too.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, assert_never

from agentsched.core.words import Lane, Overlap, Reason, RunStatus, Trigger


class Limits(NamedTuple):
    """The part of a schedule's policies that decides overlaps. ``cap`` is ``max_concurrency``; None = no cap."""

    overlap: Overlap
    cap: int | None
    queue_limit: int | None


@dataclass(frozen=True, slots=True)
class Flight:
    """A run in flight. ``asked``: it has been asked to stop."""

    run_id: int
    trigger: Trigger
    status: RunStatus
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued run. ``overdue``: admitted late by misfire ``all``."""

    run_id: int
    lane: Lane
    overdue: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """What a schedule has in flight, and what waits, in order."""

    in_flight: tuple[Flight, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def live_waiting(self) -> tuple[Waiting, ...]:
        return tuple(w for w in self.waiting if w.lane is Lane.LIVE)


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on one due slot, and what it does to the runs before it.

    ``supersede``: queued runs that become ``skipped(superseded)``. ``cancel``: runs in flight without a worker, cancelled
    at once. ``ask``: running ones that are asked to stop.
    """

    verdict: Literal["start", "wait"] | Reason
    supersede: tuple[int, ...] = ()
    cancel: tuple[int, ...] = ()
    ask: tuple[int, ...] = ()


START = Admission("start")
WAIT = Admission("wait")


def on_due(limits: Limits, line: Line, *, overdue: bool = False) -> Admission:
    """Decide one live slot that comes due.

    ``overdue`` slots (misfire ``all``) wait in line whatever ``overlap`` says, past ``queue_limit``, one at a time unless
    ``max_concurrency`` is given. A slot that only backfill runs block waits, whatever ``overlap`` says; at most one does,
    but under ``queue`` all wait.
    """
    if not line.in_flight and not line.waiting:
        return START
    cap = 1 if overdue and limits.cap is None else limits.cap
    ahead = line.live_waiting()
    free = cap is None or (len(line.in_flight) < cap and not ahead)
    if free and limits.overlap is not Overlap.REPLACE:
        return START
    if overdue:
        return WAIT
    match limits.overlap:
        case Overlap.SKIP:
            if _only_backfill_blocks(cap, line):
                return Admission("wait", supersede=_replaceable(ahead))
            return Admission(Reason.OVERLAP)
        case Overlap.QUEUE | Overlap.ALLOW:
            if limits.queue_limit is not None and len(ahead) >= limits.queue_limit:
                return Admission(Reason.QUEUE_FULL)
            return WAIT
        case Overlap.QUEUE_LATEST:
            return Admission("wait", supersede=_replaceable(ahead))
        case Overlap.REPLACE:
            return _replace(cap, line, ahead)
        case _:
            assert_never(limits.overlap)


def on_slot_open(limits: Limits, line: Line, *, paused: bool = False) -> tuple[int, ...]:
    """The queued runs that start now, in order: live before backfill, as many as there are slots.

    Backfill runs of a schedule go one at a time. While the schedule is paused only backfill goes on. ``replace`` starts
    the newest when all runs that it stopped are gone.
    """
    starts: list[int] = []
    flying = len(line.in_flight)
    backfill_flies = any(f.trigger is Trigger.BACKFILL for f in line.in_flight)
    stopping = limits.overlap is Overlap.REPLACE and any(f.asked for f in line.in_flight)
    for waiting in (*line.live_waiting(), *(w for w in line.waiting if w.lane is Lane.BACKFILL)):
        cap = 1 if limits.cap is None and (waiting.overdue or waiting.lane is Lane.BACKFILL) else limits.cap
        if cap is not None and flying >= cap:
            break
        if waiting.lane is Lane.LIVE:
            if paused or stopping:
                continue
        elif backfill_flies:
            break
        else:
            backfill_flies = True
        starts.append(waiting.run_id)
        flying += 1
    return tuple(starts)


def _only_backfill_blocks(cap: int | None, line: Line) -> bool:
    others = sum(1 for f in line.in_flight if f.trigger is not Trigger.BACKFILL)
    return cap is not None and others < cap


def _replaceable(ahead: tuple[Waiting, ...]) -> tuple[int, ...]:
    return tuple(w.run_id for w in ahead if not w.overdue)


def _replace(cap: int | None, line: Line, ahead: tuple[Waiting, ...]) -> Admission:
    stoppable = tuple(f for f in line.in_flight if f.trigger not in (Trigger.MANUAL, Trigger.BACKFILL))
    cancel = tuple(f.run_id for f in stoppable if f.status is not RunStatus.RUNNING)
    ask = tuple(f.run_id for f in stoppable if f.status is RunStatus.RUNNING and not f.asked)
    left = len(line.in_flight) - len(cancel)
    gone = all(f.status is not RunStatus.RUNNING for f in stoppable)
    starts = gone and (cap is None or left < cap)
    return Admission("start" if starts else "wait", supersede=tuple(w.run_id for w in ahead), cancel=cancel, ask=ask)
