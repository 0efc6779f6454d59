"""The tools: names, descriptions, arguments, answers, and which of them a caller is offered (DESIGN §10)."""

from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from agentsched.service.caller import Caller
from agentsched.service.errors import Forbidden
from agentsched.service.permission import Act, require
from agentsched.tools import answers, arguments
from agentsched.tools.arguments import Arguments
from agentsched.tools.schema import plain_schema

NO_SCHEDULE = 0
"""An id that no schedule has: for a caller whose own schedule is no longer known."""


class ToolSpec(BaseModel):
    """A tool. ``act``: what its caller must be allowed to do; None for reading."""

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[BaseModel]
    act: Act | None
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return plain_schema(self.arguments)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of ``Answer.data`` unless it is a refusal."""
        return plain_schema(self.answer, answer=True)


TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name="schedule_create",
        title="Create a schedule",
        description="Schedule work of this conversation's agent: once, again and again, or whenever another system "
        "calls. Give a prompt and exactly one of cron, every, at, in and webhook. Times are local, in the person's "
        "zone: do not convert them to UTC. Create one only when the person asks for it. The answer proves what was "
        "made and when it runs next; check that this is what the person meant, and tell them. If such a schedule "
        "exists already it is returned and nothing is made.",
        arguments=arguments.Create,
        answer=answers.ScheduleAnswer,
        act=Act.SCHEDULE,
        idempotent=True,
    ),
    ToolSpec(
        name="schedule_list",
        title="List schedules",
        description="The schedules of this conversation: what they do, their next runs in the person's local time, "
        "and whether they are paused. Look here before you create, change or cancel one.",
        arguments=arguments.List,
        answer=answers.ListAnswer,
        act=None,
        read_only=True,
        idempotent=True,
    ),
    ToolSpec(
        name="schedule_update",
        title="Change a schedule",
        description="Change a schedule that is active or paused: only the arguments that you send change. To change "
        "when it runs send one of cron, every, at and in; times are local, in the person's zone: do not convert them "
        "to UTC. Never cancel a schedule and create it anew in order to change it.",
        arguments=arguments.Update,
        answer=answers.ScheduleAnswer,
        act=Act.SCHEDULE,
        idempotent=True,
    ),
    ToolSpec(
        name="schedule_cancel",
        title="Cancel a schedule",
        description="End a schedule for good. It cannot be brought back; to stop it for a while, pause it. A run that "
        "has started finishes, unless you ask to stop it.",
        arguments=arguments.Cancel,
        answer=answers.ScheduleAnswer,
        act=Act.CANCEL_SCHEDULE,
        destructive=True,
        idempotent=True,
    ),
    ToolSpec(
        name="schedule_pause",
        title="Pause a schedule",
        description="Stop a schedule for a while. What would have run in the pause is not run.",
        arguments=arguments.Pause,
        answer=answers.ScheduleAnswer,
        act=Act.SCHEDULE,
        idempotent=True,
    ),
    ToolSpec(
        name="schedule_resume",
        title="Resume a schedule",
        description="Let a paused schedule run again, from now on.",
        arguments=arguments.Resume,
        answer=answers.ScheduleAnswer,
        act=Act.SCHEDULE,
        idempotent=True,
    ),
    ToolSpec(
        name="schedule_run_now",
        title="Run a schedule now",
        description="Start one run of a schedule at once, also of a paused one. Its next runs stay as they are. Every "
        "call starts a run.",
        arguments=arguments.RunNow,
        answer=answers.RunAnswer,
        act=Act.SCHEDULE,
    ),
    ToolSpec(
        name="schedule_history",
        title="Show past runs",
        description="The newest runs of a schedule: when, what came out of them, and why some did not run or failed.",
        arguments=arguments.History,
        answer=answers.HistoryAnswer,
        act=None,
        read_only=True,
        idempotent=True,
    ),
)


def offered(caller: Caller) -> tuple[ToolSpec, ...]:
    """The tools that the caller's credential and lineage allow; what would be refused is not offered."""
    return tuple(spec for spec in TOOLS if _is_allowed(caller, spec))


def permit(caller: Caller, spec: ToolSpec) -> None:
    """Raises Forbidden for a tool that is not offered; the service decides again, about the very schedule."""
    if spec.act is not None:
        own = None if caller.task is None else caller.task.scheduled_by
        require(caller, spec.act, schedule_id=own or NO_SCHEDULE)


def _is_allowed(caller: Caller, spec: ToolSpec) -> bool:
    try:
        permit(caller, spec)
    except Forbidden:
        return False
    return True
