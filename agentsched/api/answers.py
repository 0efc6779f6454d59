"""What routes answer beside the views that the service has for all its edges."""

from datetime import datetime
from typing import Any

from pydantic import Field

from agentsched.api.problems import FieldProblem, field_problem
from agentsched.core.words import Reason, RunStatus
from agentsched.service.schedules import Preview
from agentsched.service.status import Status
from agentsched.service.tick import TickReport
from agentsched.service.views import NextRun, PoliciesView, RunView, TaskView, View
from agentsched.store.notes import NoteRow
from agentsched.store.shown_tasks import ShownTask


class TaskAccepted(View):
    """The message will be answered by this task."""

    task_id: int


class ChatReply(View):
    """The message was a command, which the service has answered itself."""

    reply: str = Field(description="Markdown")


class RunStarted(View):
    """The run that somebody has asked for."""

    run: RunView


class HookAnswer(View):
    """What becomes of a delivery that was accepted."""

    run_id: int
    status: RunStatus = Field(description="`pending`: it starts; `queued`: it waits in line; `skipped`: see `reason`")
    reason: Reason | None = Field(None, exclude_if=lambda reason: reason is None)
    reason_text: str | None = Field(None, exclude_if=lambda text: text is None, description="The reason in words")


class TokenRotated(View):
    """A new token of a webhook, which is not shown again."""

    token: str
    webhook_url: str = Field(description="Where the webhook is called from now on")
    old_valid_until: datetime = Field(description="Until when the tokens before it work, at most")


class NoteView(View):
    id: int
    kind: str
    text: str
    schedule_id: int | None
    run_id: int | None
    created_at: datetime


class PreviewView(View):
    """When a schedule fires or would fire."""

    summary: str = Field(description="The timing in words")
    timezone: str
    next_runs: list[NextRun]
    policies: PoliciesView = Field(description="Those that were not given have their defaults")
    problems: list[FieldProblem] = Field(description="Limits that would refuse it")


class TickView(View):
    """What a tick did with the slots that were due, and what it ended and started beside them."""

    minute: datetime
    due: int
    fired: int
    skipped: int
    missed: int
    reaped: int = Field(description="Tasks that were lost, late or over, and dealt with")
    started: int = Field(description="Queued runs that got a slot")


class LastTickView(View):
    minute: datetime
    started_at: datetime
    finished_at: datetime
    due: int
    fired: int
    skipped: int
    missed: int


class WorkerView(View):
    name: str
    harnesses: list[str]


class StatusView(View):
    """The service as one principal sees it; counts are of its own things."""

    now: datetime = Field(description="The database's clock, which decides everything")
    last_tick: LastTickView | None
    tick_is_late: bool
    schedules: dict[str, int] = Field(description="How many there are of each status")
    runs: dict[str, int] = Field(description="How many wait in line and are in flight, by status")
    dead_letters: int = Field(description="Failed runs that nobody has requeued or discarded")
    tasks: dict[str, int] = Field(description="How many are pending and running")
    workers: list[WorkerView] = Field(description="Those heard within the last minute")
    unserved_harnesses: dict[str, int] = Field(description="Pending tasks that no worker can take, by harness")


class HealthView(View):
    status: str


def note_view(row: NoteRow) -> NoteView:
    return NoteView(**row._asdict())


def task_view(row: ShownTask) -> TaskView:
    return TaskView(**row._asdict())


def preview_view(preview: Preview) -> PreviewView:
    return PreviewView(
        summary=preview.summary,
        timezone=preview.timezone,
        next_runs=preview.next_runs,
        policies=preview.policies,
        problems=[field_problem(problem) for problem in preview.problems],
    )


def tick_view(report: TickReport) -> TickView:
    return TickView(**vars(report))


def status_view(status: Status) -> StatusView:
    fields: dict[str, Any] = vars(status) | {
        "last_tick": None if status.last_tick is None else LastTickView(**status.last_tick._asdict()),
        "workers": [WorkerView(**worker._asdict()) for worker in status.workers],
    }
    return StatusView(**fields)
