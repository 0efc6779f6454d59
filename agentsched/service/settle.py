"""The end of an attempt, in one transaction: transcript, task, run, failure count, next in line (DESIGN §5, §9).

Workers report ends (``service.finish``), the reaper finds them (``service.reap``); both come here with the locks held.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.attempt import Attempt, End, judge_end, runs_late
from agentsched.core.payload import payload_part
from agentsched.core.problems import Refused
from agentsched.core.words import COUNTED, Misfire, NoteKind, PauseReason, RunStatus, TaskStatus, Trigger
from agentsched.runners.protocol import Entry
from agentsched.service.budget import spend_tokens
from agentsched.service.line import start_waiting
from agentsched.service.pause import pause_locked
from agentsched.settings import Settings
from agentsched.store import changes, conversations, deliveries, entries, ledger, notes, runs, schedules, tasks
from agentsched.store.entries import NewEntry
from agentsched.store.ledger import RunFacts
from agentsched.store.notes import Note
from agentsched.store.runs import Ending
from agentsched.store.schedules import ScheduleRow
from agentsched.store.tasks import TaskRow

log = structlog.get_logger()

WITH_PAYLOAD = (Trigger.WEBHOOK, Trigger.REQUEUE)
"""Runs of these triggers may have a payload; a requeue has that of the run that it repeats."""


@dataclass(frozen=True)
class Report:
    """How an attempt ended. ``entries``, ``result`` and ``usage`` come with a completion, the error with the others."""

    end: End
    entries: Sequence[Entry] = ()
    result: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    error_code: str | None = None
    error: str | None = None
    retryable: bool = True


@dataclass(frozen=True)
class Locked:
    """A task with everything that its end writes, locked in order: conversation, schedule, run, task.

    ``schedule`` is the run's, or for a sub-task the one whose run it works for.
    """

    task: TaskRow
    run: RunFacts | None
    schedule: ScheduleRow | None


async def lock_task(conn: AsyncConnection, task_id: int) -> Locked | None:
    """Lock a task and what belongs to it; None if there is no such task."""
    seen = await tasks.read(conn, task_id)
    if seen is None:
        return None
    await conversations.lock(conn, seen.conversation_id)
    schedule = None if seen.schedule_id is None else await schedules.lock(conn, seen.schedule_id)
    if seen.run_id is not None:
        await runs.lock(conn, seen.run_id)
    await tasks.lock(conn, task_id)
    task = await tasks.read(conn, task_id)
    if task is None:
        return None
    run = None if task.run_id is None else await ledger.read_facts(conn, task.run_id)
    return Locked(task, run, schedule)


async def settle(conn: AsyncConnection, settings: Settings, locked: Locked, report: Report, now: datetime) -> None:
    """Write what follows from the end of a running attempt. The caller has checked fence and status."""
    if locked.run is None or locked.schedule is None:
        await _settle_turn(conn, locked.task, report, now)
    else:
        await _settle_run(conn, settings, locked.task, locked.run, locked.schedule, report, now)
    if locked.schedule is not None:
        await spend_tokens(conn, locked.schedule, report.usage, now)


async def _settle_turn(conn: AsyncConnection, task: TaskRow, report: Report, now: datetime) -> None:
    """A person's turn has no retry and fails visibly: the person's message and an error entry stay."""
    completed = report.end is End.COMPLETED
    said = NewEntry("user", task.prompt or "")
    answer = [_new_entry(entry) for entry in report.entries] if completed else [_error_entry(report)]
    await entries.append(conn, task.conversation_id, [said, *answer], task_id=task.id, run_id=None, now=now)
    if completed:
        status = TaskStatus.COMPLETED
    elif task.cancel_requested_at is not None:
        status = TaskStatus.CANCELLED
    else:
        status = TaskStatus.FAILED
    await _finish_task(conn, task, status, report, now)


async def _settle_run(
    conn: AsyncConnection,
    settings: Settings,
    task: TaskRow,
    run: RunFacts,
    schedule: ScheduleRow,
    report: Report,
    now: datetime,
) -> None:
    losses = await tasks.count_losses(conn, run.id) + 1 if report.end is End.LOST else 0
    verdict = judge_end(_attempt(run, losses), report.end, now, retryable=report.retryable)
    match verdict.outcome:
        case "complete":
            await entries.append(
                conn,
                task.conversation_id,
                [await _prompt_entry(conn, run), *(_new_entry(entry) for entry in report.entries)],
                task_id=task.id,
                run_id=run.id,
                now=now,
            )
            await _finish_task(conn, task, TaskStatus.COMPLETED, report, now)
            await _finish_run(conn, settings, run, schedule, RunStatus.COMPLETED, report, now)
        case "fail":
            await entries.append(
                conn,
                task.conversation_id,
                [await _prompt_entry(conn, run), _error_entry(report)],
                task_id=task.id,
                run_id=run.id,
                now=now,
            )
            await _finish_task(conn, task, TaskStatus.FAILED, report, now)
            await _finish_run(conn, settings, run, schedule, RunStatus.FAILED, report, now)
        case "cancel":
            await _finish_task(conn, task, TaskStatus.CANCELLED, report, now)
            await _finish_run(conn, settings, run, schedule, RunStatus.CANCELLED, report, now)
        case "abandon":
            await _finish_task(conn, task, TaskStatus.ABANDONED, report, now)
            await _finish_run(conn, settings, run, schedule, RunStatus.ABANDONED, report, now)
        case "retry":
            if verdict.retry_at is None:
                raise AssertionError("a retry has an instant")
            await _finish_task(conn, task, TaskStatus.FAILED, report, now)
            await runs.await_retry(
                conn,
                run.id,
                retry_at=verdict.retry_at,
                error_code=report.error_code or "error",
                error=report.error or "",
            )
        case "restart":
            await restart(conn, task, run, lost=True, now=now)
        case _:
            assert_never(verdict.outcome)


async def restart(conn: AsyncConnection, task: TaskRow, run: RunFacts, *, lost: bool, now: datetime) -> None:
    """running → pending on the same row and attempt: lost, or handed back by a worker that shuts down."""
    late_is_fine = runs_late(Trigger(run.trigger), Misfire(run.misfire), overdue=run.overdue)
    deadline = None if late_is_fine else run.start_deadline_seconds
    await tasks.return_to_pending(conn, task, lost=lost, start_deadline_seconds=deadline, now=now)
    await runs.return_to_pending(conn, run.id, lost=lost)


async def end_unstarted(
    conn: AsyncConnection, settings: Settings, run: RunFacts, schedule: ScheduleRow, ending: Ending, now: datetime
) -> None:
    """End a run in flight that no worker holds, and start the next in line."""
    await runs.finish(conn, run.id, ending, now)
    await start_next(conn, settings, schedule, now)


async def start_next(conn: AsyncConnection, settings: Settings, schedule: ScheduleRow, now: datetime) -> None:
    """Start the next in line. In a zone that this process' tzdata does not have it stays, and what ends still ends."""
    try:
        await start_waiting(conn, settings, schedule, now)
    except Refused as refused:
        log.warning("line.left", schedule_id=schedule.id, error=str(refused))


async def _finish_task(conn: AsyncConnection, task: TaskRow, status: TaskStatus, report: Report, now: datetime) -> None:
    await tasks.finish(
        conn,
        task,
        status,
        error_code=report.error_code,
        error=report.error,
        result=report.result,
        usage=json.dumps(dict(report.usage)) if report.usage else None,
        now=now,
    )


async def _finish_run(
    conn: AsyncConnection,
    settings: Settings,
    run: RunFacts,
    schedule: ScheduleRow,
    status: RunStatus,
    report: Report,
    now: datetime,
) -> None:
    ending = Ending(
        status,
        error_code=None if status is RunStatus.COMPLETED else report.error_code,
        error=None if status is RunStatus.COMPLETED else report.error,
        reason_text=_ending_text(status, run, report),
        result=report.result,
        usage=json.dumps(dict(report.usage)) if report.usage else None,
    )
    await runs.finish(conn, run.id, ending, now)
    schedule = await _account(conn, run, schedule, status, report, now)
    await start_next(conn, settings, schedule, now)


async def _account(
    conn: AsyncConnection,
    run: RunFacts,
    schedule: ScheduleRow,
    status: RunStatus,
    report: Report,
    now: datetime,
) -> ScheduleRow:
    """The failure count: +1 for a final failure of a timed or webhook run, 0 after its completion (DESIGN §9)."""
    if run.trigger not in COUNTED or status not in (RunStatus.COMPLETED, RunStatus.FAILED):
        return schedule
    failures = 0 if status is RunStatus.COMPLETED else schedule.consecutive_failures + 1
    if failures != schedule.consecutive_failures:
        await schedules.set_failures(conn, schedule.id, failures, now)
    limit = schedule.pause_after_failures
    if failures == 0 or limit is None or failures < limit or schedule.status != "active":
        return schedule
    note = f"{failures} runs in a row have failed; the last one: {report.error or report.error_code}"
    await pause_locked(conn, schedule, PauseReason.FAILURES, note, now)
    await changes.record(
        conn,
        schedule.id,
        schedule.version,
        action="paused",
        actor="service",
        changes=json.dumps({"note": note}),
        now=now,
    )
    text = f"{schedule.title} was paused after {note}. Resume it when the cause is gone."
    await notes.insert_notes(
        conn, [Note(schedule.conversation_id, NoteKind.SCHEDULE_PAUSED, text, schedule.id, run.id)], now
    )
    return schedule._replace(status="paused")


def _attempt(run: RunFacts, losses: int) -> Attempt:
    return Attempt(
        trigger=Trigger(run.trigger),
        fire_at=run.fire_at,
        attempt=run.attempt,
        losses=losses,
        asked=run.cancel_requested_at is not None,
        misfire=Misfire(run.misfire),
        misfire_grace_seconds=run.misfire_grace_seconds,
        retry_max_attempts=run.retry_max_attempts,
        retry_initial_delay_seconds=run.retry_initial_delay_seconds,
        retry_max_delay_seconds=run.retry_max_delay_seconds,
        overdue=run.overdue,
    )


def _ending_text(status: RunStatus, run: RunFacts, report: Report) -> str | None:
    if status is RunStatus.COMPLETED:
        return None
    if status is RunStatus.CANCELLED:
        return f"cancelled: {report.error or 'it was asked to stop, and stopped'}"
    if status is RunStatus.ABANDONED:
        late = f"it is later than the grace of {run.misfire_grace_seconds} s, and `misfire: skip` runs none that late"
        return f"abandoned: {report.error}; {late}"
    return f"{status.value}: {report.error or report.error_code or 'the attempt failed'}"


async def _prompt_entry(conn: AsyncConnection, run: RunFacts) -> NewEntry:
    """The scheduled prompt, marked as such and never passed off as a person's words (DESIGN §9).

    With the payload, if it had one: what follows in the conversation is about it.
    """
    delivered = await deliveries.of_run(conn, run.id) if run.trigger in WITH_PAYLOAD else None
    said = run.prompt if delivered is None else f"{run.prompt}\n\n{payload_part(**delivered._asdict())}"
    return NewEntry("user", said, schedule_id=run.schedule_id, fire_at=run.fire_at)


def _error_entry(report: Report) -> NewEntry:
    return NewEntry("error", report.error or report.error_code or "The turn failed.")


def _new_entry(entry: Entry) -> NewEntry:
    calls = [call.to_json() for call in entry.tool_calls]
    return NewEntry(entry.role, entry.content, json.dumps(calls) if calls else None, entry.tool_call_id)
