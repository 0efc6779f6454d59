"""What the tools answer: the proof of what was done, in data and in text that says all of it (DESIGN §10)."""

from dataclasses import dataclass
from json import dumps
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True)
class Answer:
    """An answer to a model. ``text`` carries everything that ``data`` has, since some clients show only that.

    ``data`` fits the tool's answer model, or ``Refusal`` if ``is_error``; members that are empty are left out.
    """

    is_error: bool
    text: str
    data: dict[str, Any]


class Shown(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Coming(Shown):
    """A run to come."""

    local: str = Field(description="By the clocks of the schedule's zone, with weekday, year and offset from UTC")
    from_now: str = Field(description="How long until then")
    for_person: str | None = Field(None, description="By the person's clocks, where these are other ones")

    def __str__(self) -> str:
        for_person = "" if self.for_person is None else f", for the person {self.for_person}"
        return f"{self.local}, {self.from_now}{for_person}"


class ScheduleFacts(Shown):
    """A schedule."""

    id: int
    number: int = Field(description="Its number in its conversation, by which the person knows it")
    name: str | None = None
    summary: str = Field(description="When it runs, in words")
    timezone: str
    schedule_status: Literal["active", "paused", "cancelled", "completed"]
    pause: str | None = Field(None, description="Why it is paused")
    next_runs: list[Coming] = Field(description="The next runs; none while it is paused, or once it has ended")
    mode: Literal["fork", "append", "fresh"]
    mode_means: str = Field(description="Where its runs happen and their results appear")
    max_runs: int | None = Field(None, description="It ends after this many runs")
    ends_at: str | None = Field(None, description="It ends after this moment, by the clocks of its zone")
    policies: str = Field(description="What else applies to its runs")
    prompt: str = Field(description="What the agent is asked at every run, shortened")


class Standing(Shown):
    """What every answer ends with."""

    now: str = Field(description="The current local time")
    live: int = Field(description="How many schedules of this conversation are live, that is active or paused")
    live_limit: int = Field(description="How many may be")
    say: str = Field(description="What to say to the person")


Done = Literal[
    "created",
    "already_exists",
    "updated",
    "paused",
    "already_paused",
    "resumed",
    "already_active",
    "cancelled",
    "already_cancelled",
    "completed",
]


class ScheduleAnswer(Standing, ScheduleFacts):
    """What was done with a schedule, and how it is now."""

    status: Done
    hint: str | None = Field(None, description="What to do next, if anything")
    webhook_address: str | None = Field(None, description="Where it is called, without the secret part")
    webhook_page: str | None = Field(None, description="Where the person gets the whole address, with their own key")


class ListAnswer(Standing):
    """Schedules of the conversation, oldest first."""

    schedules: list[ScheduleFacts]
    next_after: int | None = Field(None, description="There are more: send this as `after`")


class RunAnswer(Standing, ScheduleFacts):
    """A run that was started."""

    status: Literal["started"]
    run_id: int
    conversation_id: int | None = Field(None, description="The conversation in which its result will appear")


class RunLine(Shown):
    """A run, as it ended or goes on."""

    run_id: int
    local: str = Field(description="The instant that it was for, by the clocks of the schedule's zone")
    when: str = Field(description="How long ago that was")
    trigger: str
    status: str
    why: str | None = Field(None, description="Why it did not run, waits or failed")
    result: str | None = Field(None, description="What came out of it, shortened")
    conversation_id: int | None = Field(None, description="Where it ran")


class HistoryAnswer(Standing, ScheduleFacts):
    """The newest runs of a schedule, newest first."""

    runs: list[RunLine]
    more: bool = Field(description="Whether there are older ones")


class Fault(Shown):
    """One thing that is wrong with a call."""

    code: str
    field: str
    got: Any = None
    problem: str
    fix: str

    def __str__(self) -> str:
        got = "" if self.got is None else f", got {self.got if isinstance(self.got, str) else dumps(self.got)}"
        return f"{self.field} ({self.code}){got}: {self.problem} {self.fix}"


class Candidate(Shown):
    """A schedule that may be meant, or that takes up room."""

    id: int
    number: int
    name: str | None = None
    summary: str
    schedule_status: str

    def __str__(self) -> str:
        name = "without a name" if self.name is None else self.name
        return f"id {self.id}, number {self.number}, {name}: {self.summary}, {self.schedule_status}"


class Refusal(Shown):
    """Nothing was done, and why; what to write instead."""

    status: Literal["refused"] = "refused"
    code: str = Field(description="Stable; with several errors that of the first")
    message: str
    errors: list[Fault] = Field(description="Everything that is wrong with the arguments")
    schedules: list[Candidate] = Field(description="The schedules that may be meant, or that fill the limit")
    retry_after_seconds: int | None = Field(None, description="When it may be possible")
    now: str = Field(description="The current local time")
    stop: str | None = Field(None, description="This call has been refused too often")
