"""Things as the API, the command line and the tools show them (DESIGN §13)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentsched.core.summary import run_view, summary
from agentsched.core.timing import Kind, occurrences
from agentsched.core.words import (
    Misfire,
    Mode,
    Notify,
    Overlap,
    PauseReason,
    Reason,
    RunStatus,
    ScheduleStatus,
    TaskKind,
    TaskStatus,
    Trigger,
)
from agentsched.store.changes import ChangeRow
from agentsched.store.conversations import ConversationRow
from agentsched.store.entries import EntryRow
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow

NEXT_RUNS = 3


class View(BaseModel):
    """Something shown. Instants are UTC."""

    model_config = ConfigDict(frozen=True)


class AgentView(View):
    harness: str
    model: str | None
    instructions: str | None
    tools: list[str]
    settings: dict[str, Any]


class ConversationView(View):
    id: int
    title: str | None
    agent: AgentView
    timezone: str | None
    parent_id: int | None
    parent_seq: int | None
    run_id: int | None
    last_seq: int
    busy: bool
    created_at: datetime


class ScheduledMark(View):
    """That an entry is a scheduled prompt, and of what; a person did not write it."""

    schedule_id: int
    run_id: int | None
    fire_at: datetime


class EntryView(View):
    seq: int
    role: str
    content: str
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    run_id: int | None
    scheduled: ScheduledMark | None
    created_at: datetime


class NextRun(View):
    """An occurrence, by the clock of the schedule's zone and in UTC."""

    local: str
    utc: str


class RetryView(View):
    max_attempts: int
    initial_delay_seconds: int
    max_delay_seconds: int


class PoliciesView(View):
    """The policies in force, each with its effective value."""

    mode: Mode
    overlap: Overlap
    max_concurrency: int | None
    queue_limit: int | None
    cancel_grace_seconds: int | None
    misfire: Misfire
    misfire_grace_seconds: int
    start_deadline_seconds: int
    timeout_seconds: int
    retry: RetryView
    pause_after_failures: int | None
    notify: Notify
    daily_run_limit: int | None
    daily_token_limit: int | None
    max_history_entries: int | None


class ScheduleFacts(View):
    """What a schedule is, beside its policies."""

    id: int
    number: int
    conversation_id: int
    name: str | None
    summary: str
    kind: Kind
    cron: str | None
    every_minutes: int | None
    anchor_at: datetime | None
    at: datetime | None
    timezone: str
    prompt: str
    agent: AgentView = Field(description="Of `fresh` runs; the others use the conversation's, as it is when they fire")
    status: ScheduleStatus
    pause_reason: PauseReason | None
    pause_note: str | None
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    next_runs: list[NextRun]
    consecutive_failures: int
    version: int
    max_runs: int | None
    ends_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ScheduleView(PoliciesView, ScheduleFacts):
    """A schedule: its facts, then its policies."""


class NewScheduleView(ScheduleView):
    """A schedule that has been made. A webhook's token is shown here and never again."""

    token: str | None = Field(None, exclude_if=lambda token: token is None, description="Of a new webhook")
    webhook_url: str | None = Field(
        None, exclude_if=lambda url: url is None, description="Where a new webhook is called; the token is in it"
    )


class ChangeView(View):
    """A change in a schedule's history."""

    id: int
    version: int = Field(description="The version that it left; pauses and resumes leave it as it is")
    action: str = Field(description="created, updated, paused, resumed, cancelled, …")
    actor: str = Field(description="Who: a credential such as `key:3`, or `service`")
    changes: dict[str, Any] = Field(description="What was asked for")
    created_at: datetime


class RunView(View):
    id: int
    schedule_id: int
    conversation_id: int | None
    trigger: Trigger
    fire_at: datetime
    status: RunStatus
    reason: Reason | None
    reason_text: str | None
    attempt: int
    restarts: int
    missed_count: int | None
    missed_until: datetime | None
    retry_at: datetime | None
    error_code: str | None
    error: str | None
    idempotency_key: str
    cancel_requested: bool
    result: str | None
    usage: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    discarded_at: datetime | None
    requeue_of: int | None
    dead_letter: bool


class DeadLetterDone(View):
    """A dead letter that is one no longer."""

    run_id: int
    new_run_id: int | None = Field(description="The run that was made for it; null for one that was discarded")


class DeadLetterRefused(View):
    """A run that stays as it was."""

    run_id: int
    code: str = Field(description="Stable, for programs")
    problem: str = Field(description="Why, for people")


class DeadLettersDone(View):
    """What became of the chosen runs, in the order in which they were dealt with."""

    count: int = Field(description="How many were requeued or discarded")
    runs: list[DeadLetterDone]
    refused: list[DeadLetterRefused]
    remaining: int = Field(description="How many more fit, beyond `limit` or what 20 seconds allow; ask again")


class TaskView(View):
    id: int
    kind: TaskKind
    conversation_id: int
    run_id: int | None
    parent_task_id: int | None
    status: TaskStatus
    attempt: int
    restarts: int
    fence: int
    harness: str
    worker: str | None
    error_code: str | None
    error: str | None
    result: str | None
    usage: dict[str, Any] | None
    lease_expires_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def conversation_view(row: ConversationRow) -> ConversationView:
    return ConversationView(
        id=row.id,
        title=row.title,
        agent=_agent_view(row),
        timezone=row.timezone,
        parent_id=row.parent_id,
        parent_seq=row.parent_seq,
        run_id=row.run_id,
        last_seq=row.last_seq,
        busy=row.active_task_id is not None,
        created_at=row.created_at,
    )


def _agent_view(row: ConversationRow | ScheduleRow) -> AgentView:
    return AgentView(**{name: getattr(row, name) for name in AgentView.model_fields})


def entry_view(row: EntryRow) -> EntryView:
    mark = None
    if row.schedule_id is not None and row.fire_at is not None:
        mark = ScheduledMark(schedule_id=row.schedule_id, run_id=row.run_id, fire_at=row.fire_at)
    return EntryView(
        seq=row.seq,
        role=row.role,
        content=row.content,
        tool_calls=row.tool_calls,
        tool_call_id=row.tool_call_id,
        run_id=row.run_id,
        scheduled=mark,
        created_at=row.created_at,
    )


def schedule_view(row: ScheduleRow) -> ScheduleView:
    """A schedule with its effective policies and its next fires."""
    fields = {name: getattr(row, name) for name in ScheduleView.model_fields if hasattr(row, name)}
    return ScheduleView(
        **fields,
        agent=_agent_view(row),
        summary=summary(row.timing),
        next_runs=next_runs(row),
        retry=_retry_view(row._asdict()),
    )


def new_schedule_view(row: ScheduleRow, token: str | None) -> NewScheduleView:
    """A schedule with the token of its webhook, if it is new and has one."""
    url = None if token is None else webhook_url(token)
    return NewScheduleView(**dict(schedule_view(row)), token=token, webhook_url=url)


def webhook_url(token: str) -> str:
    """Where a webhook is called, on whatever address the service has for its callers."""
    return f"/hooks/{token}"


def policies_view(policies: Mapping[str, Any]) -> PoliciesView:
    """Effective policies under the names of ``store.schedules.Definition``."""
    return PoliciesView(**{**policies, "retry": _retry_view(policies)})


def _retry_view(policies: Mapping[str, Any]) -> RetryView:
    return RetryView(**{name: policies[f"retry_{name}"] for name in RetryView.model_fields})


def next_runs(row: ScheduleRow, count: int = NEXT_RUNS) -> list[NextRun]:
    """The next fires of an active schedule, as far as ``ends_at`` allows."""
    return [next_run(instant, row.timezone) for instant in next_instants(row, count)]


def next_instants(row: ScheduleRow, count: int) -> list[datetime]:
    """When an active schedule fires next, as far as ``ends_at`` allows."""
    if row.next_fire_at is None:
        return []
    if row.max_runs is not None:
        count = min(count, row.max_runs - row.runs_admitted)
    shown = [row.next_fire_at]
    for instant in occurrences(row.timing, row.next_fire_at, row.ends_at):
        if len(shown) >= count:
            break
        shown.append(instant)
    return shown[:count]


def change_view(row: ChangeRow) -> ChangeView:
    fields = row._asdict()
    del fields["schedule_id"]
    return ChangeView(**fields)


def next_run(instant: datetime, timezone: str) -> NextRun:
    """An occurrence as people read it."""
    return NextRun(**run_view(instant, timezone))


def run_view_of(row: RunRow, served: frozenset[str] | None = None) -> RunView:
    """A run; ``served`` are the harnesses that workers serve, to say why a pending one does not start."""
    fields = {name: getattr(row, name) for name in RunView.model_fields if hasattr(row, name)}
    fields["reason_text"] = row.reason_text or _waiting_text(row, served)
    return RunView(
        **fields,
        idempotency_key=f"run-{row.id}-attempt-{max(row.attempt, 1)}",
        cancel_requested=row.cancel_requested_at is not None,
    )


def _waiting_text(row: RunRow, served: frozenset[str] | None) -> str | None:
    match row.status:
        case RunStatus.QUEUED:
            return "queued: it waits in line for a slot of its schedule"
        case RunStatus.PENDING if served is not None and row.harness is not None and row.harness not in served:
            return f"pending: no worker serves the harness {row.harness}"
        case RunStatus.PENDING:
            return "pending: it waits for a worker, or for its conversation to be free"
        case RunStatus.RETRY_WAIT:
            return f"retry_wait: attempt {row.attempt} failed ({row.error or row.error_code}); it will be tried again"
        case _:
            return None
