"""Let a schedule's time pass, event after event, and keep its ledger (DESIGN §6 to §9).

What is decided here is only what happens next. At one instant the order is that of the service: what a worker reports,
then what the reaper finds in the order of DESIGN §6, then the fire. A run that ends at 09:00 frees its slot for the
fire of 09:00.
"""

from datetime import date, datetime
from heapq import heappop, heappush
from itertools import chain, islice
from typing import assert_never

from agentsched.core.attempt import Attempt, End, Verdict, judge_end, runs_late
from agentsched.core.fire import DueSchedule, FireDecision, decide_fire
from agentsched.core.misfire import Stretch
from agentsched.core.overlap import Flight, Line, Waiting, on_slot_open
from agentsched.core.simulation import Assumptions, Moment, Plan, Simulation, check_span
from agentsched.core.simulation_events import Event, Order, Run, first_end, later
from agentsched.core.stranding import stranding_outage
from agentsched.core.timing import next_occurrence, occurrences
from agentsched.core.uptime import Uptime
from agentsched.core.words import Lane, Misfire, Overlap, Reason, RunStatus, ScheduleStatus, Trigger
from agentsched.core.zones import zone

WAITING_TO_SEE = 100
"""So much of a line is looked at when a slot opens, as the service does; a long one takes long to look at."""

ERROR_CODES = {End.FAILED: "error", End.TIMED_OUT: "timeout", End.LOST: "lost"}


def simulate(plan: Plan, start: datetime, until: datetime, assumptions: Assumptions) -> Simulation:
    """What becomes of the slots in (``start``, ``until``], both whole minutes in UTC.

    Raises Refused where the span has too much in it, or a time down is outside of it.
    """
    check_span(plan.timing, start, until, assumptions.down)
    return _Simulator(plan, start, until, assumptions).play()


class _Simulator:
    def __init__(self, plan: Plan, start: datetime, until: datetime, assumptions: Assumptions) -> None:
        self._plan = plan
        self._start = start
        self._until = until
        self._assume = assumptions
        self._uptime = Uptime(assumptions.down)
        self._trigger = Trigger(plan.timing.kind.value)
        self._runs: list[Run] = []
        self._in_flight: dict[int, Flight] = {}
        self._waiting: dict[int, Waiting] = {}
        self._events: list[Event] = []
        self._timeline = [Moment(start, 0, 0)]
        self._status = ScheduleStatus.ACTIVE
        self._next_fire_at: datetime | None = None
        self._paused_at: datetime | None = None
        self._version = 0
        self._admitted = plan.runs_admitted
        self._failures = 0
        self._attempts = 0
        self._day: date | None = None
        self._day_runs = 0

    def play(self) -> Simulation:
        after = max(self._start, self._plan.accounted_until or self._start)
        first, ends_at = next_occurrence(self._plan.timing, after), self._plan.ends_at
        self._fire_next_at(None if first is None or (ends_at is not None and first > ends_at) else first)
        for outage in self._uptime.outages:
            heappush(self._events, Event(outage.until_minute, Order.STRANDING))
        while self._events and self._events[0].at <= self._until:
            event = heappop(self._events)
            if self._is_current(event):
                self._happen(event)
                self._note(event.at)
        return Simulation(
            start=self._start,
            until=self._until,
            runs=tuple(run.shown() for run in self._runs),
            timeline=tuple(self._timeline),
            status=self._status,
            next_fire_at=self._next_fire_at,
            paused_at=self._paused_at,
        )

    def _is_current(self, event: Event) -> bool:
        if event.order is Order.STRANDING:
            return True
        current = self._run(event.run_id).version if event.run_id else self._version
        return event.version == current

    def _happen(self, event: Event) -> None:
        match event.order:
            case Order.STRANDING:
                self._strand(event.at)
            case Order.REPORT | Order.LOST | Order.TIMED_OUT | Order.FENCED_OFF:
                self._end_attempt(self._run(event.run_id), event.end, event.at)
            case Order.RETRY:
                self._retry(self._run(event.run_id), event.at)
            case Order.FIRE:
                self._fire(event.at)
            case _:
                assert_never(event.order)

    def _note(self, at: datetime) -> None:
        """Of several changes at one instant only the last is a moment: nobody sees the others."""
        if self._timeline[-1].at == at:
            self._timeline.pop()
        moment = Moment(at, len(self._in_flight), len(self._waiting))
        if not self._timeline or self._timeline[-1][1:] != moment[1:]:
            self._timeline.append(moment)

    def _fire(self, now: datetime) -> None:
        if self._next_fire_at is None:
            raise AssertionError("a fire without a slot that is due")
        decision = decide_fire(
            DueSchedule(
                timing=self._plan.timing,
                limits=self._plan.limits,
                misfire=self._plan.misfire,
                misfire_grace_seconds=self._plan.misfire_grace_seconds,
                next_fire_at=self._next_fire_at,
                ends_at=self._plan.ends_at,
                max_runs=self._plan.max_runs,
                runs_admitted=self._admitted,
                runs_left=self._runs_left(now),
                line=self._line_to_fire(),
            ),
            now,
            keep=self._assume.misfire_all_keep,
        )
        self._make_way(decision, now)
        known = len(self._runs)
        self._record(decision, now)
        self._admitted += decision.admitted
        self._day_runs += decision.admitted
        self._fire_next_at(decision.next_fire_at)
        self._start_waiting(now)
        for run in self._runs[known:]:
            run.in_line = len(self._waiting)

    def _fire_next_at(self, fire_at: datetime | None) -> None:
        self._version += 1
        self._next_fire_at = fire_at
        if fire_at is None:
            self._status = ScheduleStatus.COMPLETED
        else:
            heappush(self._events, Event(self._uptime.up_from(fire_at), Order.FIRE, version=self._version))

    def _runs_left(self, now: datetime) -> int | None:
        if self._plan.daily_run_limit is None:
            return None
        today = now.astimezone(zone(self._plan.timing.timezone)).date()
        if today != self._day:
            self._day, self._day_runs = today, 0
        return self._plan.daily_run_limit - self._day_runs

    def _line_to_fire(self) -> Line:
        """Of a bounded line the fire needs no more than its bound; the other policies name whom they supersede."""
        needed = None
        if self._plan.limits.overlap in (Overlap.QUEUE, Overlap.ALLOW):
            needed = self._plan.limits.queue_limit or 1
        return Line(tuple(self._in_flight.values()), tuple(islice(self._waiting.values(), needed)))

    def _make_way(self, decision: FireDecision, now: datetime) -> None:
        for run_id in decision.supersede:
            self._skip(self._run(run_id), Reason.SUPERSEDED, now)
        for run_id in decision.cancel:
            self._end_run(self._run(run_id), RunStatus.CANCELLED, now)
        for run_id in decision.ask:
            self._run(run_id).asked_at = now
            self._in_flight[run_id] = self._in_flight[run_id]._replace(asked=True)
            self._await_end(self._run(run_id))

    def _record(self, decision: FireDecision, now: datetime) -> None:
        if decision.missed is not None:
            self._add(decision.missed.first, RunStatus.MISSED, Reason.MISFIRE, now).missed = decision.missed
        for slot in decision.slots:
            run = self._add(slot.fire_at, slot.status, slot.reason, now)
            run.overdue = slot.overdue
            if slot.status is RunStatus.QUEUED:
                self._waiting[run.id] = Waiting(run.id, Lane.LIVE, slot.overdue, self._trigger)
            elif slot.status is RunStatus.PENDING:
                self._start_run(run, now)

    def _add(self, fire_at: datetime, status: RunStatus, reason: Reason | None, now: datetime) -> Run:
        run = Run(len(self._runs) + 1, fire_at, status, reason)
        if reason is not None:
            run.ended_at = now
        self._runs.append(run)
        return run

    def _run(self, run_id: int) -> Run:
        return self._runs[run_id - 1]

    def _start_waiting(self, now: datetime) -> None:
        if not self._waiting:
            return
        newest_only = self._plan.limits.overlap in (Overlap.QUEUE_LATEST, Overlap.REPLACE)
        line = islice(self._waiting.values(), None if newest_only else WAITING_TO_SEE)
        paused = self._status is ScheduleStatus.PAUSED
        opening = on_slot_open(self._plan.limits, Line(tuple(self._in_flight.values()), tuple(line)), paused=paused)
        for run_id in opening.supersede:
            self._skip(self._run(run_id), Reason.SUPERSEDED, now)
        for run_id in opening.starts:
            del self._waiting[run_id]
            self._start_run(self._run(run_id), now)

    def _start_run(self, run: Run, now: datetime) -> None:
        run.first_started_at = now
        self._attempts += 1
        run.fails = self._fails(self._attempts)
        self._work_on(run, now)

    def _work_on(self, run: Run, now: datetime) -> None:
        """A worker claims it at once."""
        run.status, run.started_at, run.asked_at = RunStatus.RUNNING, now, None
        self._in_flight[run.id] = Flight(run.id, self._trigger, RunStatus.RUNNING, overdue=run.overdue)
        self._await_end(run)

    def _fails(self, attempt: int) -> bool:
        every = self._assume.fails_every
        return every > 0 and attempt % every == 0

    def _await_end(self, run: Run) -> None:
        run.version += 1
        heappush(self._events, first_end(run, self._plan, self._assume, self._uptime))

    def _end_attempt(self, run: Run, end: End, now: datetime) -> None:
        run.losses += end is End.LOST
        verdict = self._judge(run, end, now)
        if verdict.outcome != "restart":
            run.error_code = ERROR_CODES.get(end)
        match verdict.outcome:
            case "complete":
                self._end_run(run, RunStatus.COMPLETED, now)
                self._failures = 0
            case "fail":
                self._end_run(run, RunStatus.FAILED, now)
                self._failures += 1
                limit = self._plan.pause_after_failures
                if limit is not None and self._failures >= limit and self._status is ScheduleStatus.ACTIVE:
                    self._pause(now)
            case "cancel":
                self._end_run(run, RunStatus.CANCELLED, now)
            case "abandon":
                self._end_run(run, RunStatus.ABANDONED, now)
            case "retry":
                self._await_retry(run, verdict)
            case "restart":
                run.restarts += 1
                self._work_on(run, now)
            case _:
                assert_never(verdict.outcome)
        self._start_waiting(now)

    def _judge(self, run: Run, end: End, now: datetime) -> Verdict:
        return judge_end(
            Attempt(
                trigger=self._trigger,
                fire_at=run.fire_at,
                attempt=run.attempt,
                losses=run.losses,
                asked=run.asked_at is not None,
                misfire=self._plan.misfire,
                misfire_grace_seconds=self._plan.misfire_grace_seconds,
                retry_max_attempts=self._plan.retry_max_attempts,
                retry_initial_delay_seconds=self._plan.retry_initial_delay_seconds,
                retry_max_delay_seconds=self._plan.retry_max_delay_seconds,
                overdue=run.overdue,
            ),
            end,
            now,
        )

    def _await_retry(self, run: Run, verdict: Verdict) -> None:
        if verdict.retry_at is None:
            raise AssertionError("a retry has an instant")
        run.version += 1
        run.status, run.retry_at = RunStatus.RETRY_WAIT, verdict.retry_at
        self._in_flight[run.id] = self._in_flight[run.id]._replace(status=RunStatus.RETRY_WAIT)
        heappush(self._events, Event(self._uptime.up_from(run.retry_at), Order.RETRY, run.id, run.version))

    def _retry(self, run: Run, now: datetime) -> None:
        late_is_fine = runs_late(self._trigger, self._plan.misfire, overdue=run.overdue)
        if not late_is_fine and now >= later(run.retry_at, self._plan.start_deadline_seconds):
            run.error_code = None
            self._end_run(run, RunStatus.ABANDONED, now)
            self._start_waiting(now)
            return
        run.attempt += 1
        self._attempts += 1
        run.fails = self._fails(self._attempts)
        self._work_on(run, now)

    def _end_run(self, run: Run, status: RunStatus, now: datetime) -> None:
        run.version += 1
        run.status, run.ended_at = status, now
        del self._in_flight[run.id]

    def _skip(self, run: Run, reason: Reason, now: datetime, status: RunStatus = RunStatus.SKIPPED) -> None:
        run.status, run.reason, run.ended_at = status, reason, now
        del self._waiting[run.id]

    def _pause(self, now: datetime) -> None:
        """What is due but has not fired, and what waits, is skipped; nothing fires any more."""
        first, ends_at = self._next_fire_at, self._plan.ends_at
        for run_id in list(self._waiting):
            self._skip(self._run(run_id), Reason.PAUSED, now)
        if first is not None and first <= now:
            end = now if ends_at is None else min(now, ends_at)
            for slot in chain((first,), occurrences(self._plan.timing, first, end)):
                self._add(slot, RunStatus.SKIPPED, Reason.PAUSED, now)
        self._version += 1
        self._status, self._next_fire_at, self._paused_at = ScheduleStatus.PAUSED, None, now

    def _strand(self, now: datetime) -> None:
        if self._plan.misfire is not Misfire.SKIP:
            return
        outages = [outage for outage in self._uptime.outages if outage.until_minute <= now]
        for run_id in list(self._waiting):
            run = self._run(run_id)
            outage = stranding_outage(
                fire_at=run.fire_at,
                queued_at=run.fire_at,
                following=next_occurrence(self._plan.timing, run.fire_at),
                outages=outages,
                window_seconds=self._assume.queue_adoption_window_seconds,
            )
            if outage is not None:
                run.missed = Stretch(run.fire_at, run.fire_at, 1)
                self._skip(run, Reason.STRANDED, now, RunStatus.MISSED)
