"""What can be asked for, as pydantic models: the API, the command line and the tools validate with the same ones."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from agentsched.core.backfill import ASKS_ABOVE, CAP, HIGHEST_CAP
from agentsched.core.words import Misfire, Mode, Notify, Overlap, Reprocess

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")
]
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
Seconds = Annotated[int, Field(ge=0, le=31_536_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]


def _in_utc(instant: datetime) -> datetime:
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("datetime_out_of_range", "not within the years 1 to 9999 in UTC") from None


Instant = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""An instant with its offset from UTC, which is where it is stored."""


class Request(BaseModel):
    """A request that has these fields and no others."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, str_max_length=1_000_000)


class AgentSpec(Request):
    """Who does the work. ``settings`` are in the words of the harness."""

    harness: Name = Field("echo", description="The runner that serves this agent, such as `echo` or `pydantic-ai`")
    model: Name | None = Field(None, description="The model, in the words of the harness")
    instructions: Text | None = Field(None, description="What the agent is told before every conversation")
    tools: list[Name] = Field([], max_length=200, description="Names of tools that the harness gives to the agent")
    settings: dict[str, Any] = Field(
        {},
        description="Model settings and whatever else the harness reads; with `schedule_tools: false` the agents of "
        "`pydantic-ai` do without the tools for schedules, which they have otherwise",
    )


class NewConversation(Request):
    """A conversation to be made; everything is optional."""

    title: Name | None = Field(None, description="What people call it")
    agent: AgentSpec | None = Field(None, description="The agent that answers; without one, the configured default")
    timezone: str | None = Field(
        None, max_length=64, description="The IANA zone of its people, such as `Europe/Berlin`"
    )


class NewMessage(Request):
    """What a person says."""

    text: Text = Field(description="The message")


class NewSubtask(Request):
    """Work that a running task asks for."""

    prompt: Text = Field(description="What is to be done")
    agent: AgentSpec | None = Field(None, description="Who does it; else the agent of the task that asks")


class RetryPolicy(Request):
    """How often and when a failed attempt is tried again."""

    max_attempts: Annotated[int, Field(ge=0, le=100)] = Field(1, description="Attempts in all; 0 or 1 = no retry")
    initial_delay_seconds: Seconds = Field(30, description="The delay after the first failure; it doubles each time")
    max_delay_seconds: Seconds = Field(900, description="The longest delay")


class ScheduleFields(Request):
    """The fields that a new schedule and a patch have in common. All are optional here."""

    cron: str | None = Field(None, max_length=256, description="Five-field cron expression in the schedule's zone")
    every: str | None = Field(None, max_length=32, description="An interval such as `2h` or `90m`")
    at: str | None = Field(None, max_length=64, description="Local wall clock, such as `2026-12-03T09:00`; fires once")
    in_: str | None = Field(None, alias="in", max_length=32, description="From now, such as `20m`; fires once")
    name: Name | None = Field(None, description="Unique among the conversation's live schedules")
    timezone: str | None = Field(None, max_length=64, description="IANA zone; else the conversation's, else yours")
    mode: Mode | None = Field(None, description="Where runs happen: `fork` (default), `append`, `fresh`")
    agent: AgentSpec | None = Field(None, description="The agent of fresh runs; else a snapshot of the conversation's")
    overlap: Overlap | None = Field(None, description="What a fire does when earlier runs hold the slots")
    max_concurrency: Count | None = Field(None, description="How many runs may be in flight; 1, and no cap for `allow`")
    queue_limit: Count | None = Field(None, description="How many runs may wait in line; null = no limit")
    cancel_grace_seconds: Seconds | None = Field(None, description="How long a run may take to stop; null = for ever")
    misfire: Misfire | None = Field(None, description="What happens to fires that are late: `skip`, `latest`, `all`")
    catch_up: bool | None = Field(None, description="`true` is short for `misfire: latest`")
    misfire_grace_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None, description="How late is on time"
    )
    start_deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(
        None, description="A timed run that nobody started by then is missed"
    )
    timeout_seconds: Seconds | None = Field(None, description="The longest attempt; 0 = five times the period")
    retry: RetryPolicy | None = Field(None, description="How failures are tried again")
    pause_after_failures: Count | None = Field(None, description="Failures in a row that pause it; null = never")
    notify: Notify | None = Field(None, description="When a note goes to the owner's inbox")
    max_runs: Count | None = Field(None, description="It is completed after this many runs")
    ends_at: datetime | None = Field(None, description="It is completed after this instant, inclusive")
    daily_run_limit: Count | None = Field(None, description="Runs a day of the schedule's zone; null = no own limit")
    daily_token_limit: Annotated[int, Field(ge=1, le=10**15)] | None = Field(None, description="Tokens a day")
    max_history_entries: Count | None = Field(None, description="How much of a long transcript a run is given")


class NewSchedule(ScheduleFields):
    """A schedule to be made: exactly one of ``cron``, ``every``, ``at``, ``in``, ``webhook``, and a prompt."""

    webhook: bool = Field(False, description="`true`: fires when its URL is called")
    prompt: Text = Field(description="What the agent is asked at every fire")


class SchedulePatch(ScheduleFields):
    """Changes to a schedule: fields that are not sent stay as they are."""

    prompt: Text | None = Field(None, description="What the agent is asked at every fire from now on")


class PauseRequest(Request):
    """Why it is paused."""

    note: Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$")] | None = Field(
        None, description="Shown beside the pause"
    )


class ResumeRequest(Request):
    """What becomes of the slots that passed in the pause."""

    catch_up: Literal["latest", "all"] | None = Field(
        None, description="Run the `latest` slot that passed in the pause, or `all` of them; else none"
    )


class TokenRotation(Request):
    """How a webhook's token is replaced."""

    grace_seconds: Seconds = Field(86_400, description="How long the old tokens go on working; 0 = not at all")


class PreviewRequest(NewSchedule):
    """A schedule that is not saved: what it would be called, and when it would fire."""

    prompt: Text = Field("preview", description="Not needed for a preview")
    count: Annotated[int, Field(ge=1, le=100)] = Field(5, description="How many fires to show")


class DownTime(Request):
    """A time in which neither the service nor its workers live."""

    from_: datetime = Field(alias="from", description="Its first instant; without an offset in the schedule's zone")
    until: datetime = Field(description="When it is over: ticks resume at the first whole minute from here")


class Supposition(Request):
    """Over which span a schedule is simulated, and what is supposed."""

    from_: datetime | None = Field(
        None, alias="from", description="After which slots count; without an offset in the schedule's zone. Else now"
    )
    span: str = Field("24h", max_length=32, description="How long, such as `24h` or `7d`; at most 31 days")
    run_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = Field(60, description="How long an attempt takes")
    stop_seconds: Seconds = Field(5, description="How long an attempt goes on once it is asked to stop")
    fails_every: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        0, description="Every n-th attempt fails; 0 = none does"
    )
    down: list[DownTime] = Field([], max_length=100, description="Times in which neither service nor workers live")


class SimulationRequest(Supposition, NewSchedule):
    """A schedule that is not saved, and what is supposed."""

    prompt: Text = Field("simulation", description="Not needed for a simulation")


class BackfillRequest(Request):
    """Slots that have passed, to be run now: those after ``from``, up to ``to``."""

    from_: datetime = Field(alias="from", description="Slots after this instant; may lie before the creation")
    to: datetime = Field(description="Slots up to this instant, inclusive; before the next fire")
    reprocess: Reprocess = Field(
        Reprocess.MISSING,
        description="`missing`: slots that have not run; `failed`: those that only failed; `all`: every slot",
    )
    dry_run: bool = Field(False, description="`true`: only count the slots")
    confirm: bool = Field(False, description=f"`true`: run more than {ASKS_ABOVE} slots")
    limit: Annotated[int, Field(ge=1, le=HIGHEST_CAP)] | None = Field(
        None, description=f"How many slots it may have at most; {CAP} unless given"
    )


class DeadLetterChoice(Request):
    """Dead letters: named ones, or those that fit all of the criteria."""

    run_ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="These runs; then no other criterion"
    )
    schedule_id: Id | None = Field(None, description="Those of this schedule")
    error_code: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Those that failed with this `error_code`"
    )
    failed_after: Instant | None = Field(None, description="Those that failed at this instant or later")
    failed_before: Instant | None = Field(None, description="Those that failed before this instant")
    everything: bool = Field(False, alias="all", description="`true`: all, where no other criterion is given")
    limit: Annotated[int, Field(ge=1, le=1000)] = Field(100, description="At most so many, the oldest first")
