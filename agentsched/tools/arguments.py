"""What each tool takes: flat, without unions, and nothing that the credential already says (DESIGN §10).

Schema, validation and documentation come from these models. Descriptions hold no samples, because models copy them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from agentsched.service.requests import Count, Name, Text

LOCAL = "in local time, in the person's zone; do not convert to UTC"
MOMENT = "as YYYY-MM-DDTHH:MM without an offset"
RUNS_SHOWN = 10

Short = Annotated[str, StringConstraints(max_length=64)]
Duration = Annotated[str, StringConstraints(max_length=32)]
Cron = Annotated[str, StringConstraints(max_length=256)]
Which = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]


class Arguments(BaseModel):
    """Arguments of a tool, and no others."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, str_max_length=1_000_000)

    @model_validator(mode="before")
    @classmethod
    def _left_out(cls, given: Any) -> Any:
        """Models send null or nothing in quotes for what they leave out."""
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value is not None and value != ""}


class _Asked(Arguments):
    prompt: Text = Field(
        description="What the agent is asked at every run, in words that stand on their own. Say what to do and leave "
        "out when or how often: the schedule knows that, and a run that reads it may try to schedule itself",
    )
    name: Name | None = Field(None, description="A few words by which the person will recognise it")


class _Timing(Arguments):
    cron: Cron | None = Field(
        None,
        description=f"Repeats {LOCAL}: a cron expression of exactly five fields, which are minute, hour, day of the "
        "month, month and day of the week (0 or 7 is Sunday). No seconds, no year",
    )
    every: Duration | None = Field(
        None,
        description="Repeats at an interval of elapsed time: a whole number directly followed by m, h, d or w, for "
        "minutes, hours, days or weeks. For a time of day use cron",
    )
    at: Short | None = Field(None, description=f"Runs once, {LOCAL}, {MOMENT}")
    in_: Duration | None = Field(
        None,
        alias="in",
        description="Runs once, so long from now: a whole number directly followed by m, h, d or w. Better than `at` "
        "whenever the person names a duration, because you may be wrong about the current time",
    )


class _Policies(Arguments):
    timezone: Short | None = Field(
        None, description="An IANA zone, only if the person names a place or zone other than their own"
    )
    mode: Literal["fork", "append", "fresh"] | None = Field(
        None,
        description="Where runs happen. `fork`, the default: each run copies this conversation and its result "
        "appears in a new one. `append`: in this conversation itself. `fresh`: in a new one that starts empty",
    )
    overlap: Literal["skip", "queue", "queue_latest", "replace", "allow"] | None = Field(
        None,
        description="What happens when it is due while an earlier run still goes on. `skip`: no run. `queue`: wait in "
        "line. `queue_latest`: only the newest waits. `replace`: stop the earlier one. `allow`: run beside it",
    )
    misfire: Literal["skip", "latest", "all"] | None = Field(
        None,
        description="What happens to runs that were missed while the service was down. `skip`, the default: they are "
        "recorded as missed. `latest`: only the newest is run late. `all`: every one is",
    )
    max_runs: Count | None = Field(None, description="It ends after this many runs")
    ends_at: Short | None = Field(None, description=f"It ends after this moment, {LOCAL}, {MOMENT}")
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="How often a failing run is tried in all; 1, the default, is no retry"
    )
    notify: Literal["always", "failures", "never"] | None = Field(
        None, description="When the person gets a note about a run; `failures` is the default"
    )
    daily_run_limit: Count | None = Field(None, description="Runs a day at most")
    daily_token_limit: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        None, description="Tokens a day at most; then it rests until the next day"
    )


class Create(_Policies, _Timing, _Asked):
    """Arguments of ``schedule_create``."""

    webhook: bool | None = Field(
        None, description="`true`: runs whenever another system calls the schedule's web address"
    )


class List(Arguments):
    """Arguments of ``schedule_list``."""

    status: Literal["live", "active", "paused", "completed", "cancelled", "all"] = Field(
        "live", description="Which schedules; `live`, the default, is active and paused ones"
    )
    after: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        0, description="Only schedules with greater ids, to go on where the answer before ended"
    )


class _Chosen(Arguments):
    schedule: Which = Field(description="The schedule's id, or its name if only one has this name")


class Update(_Policies, _Timing, _Chosen):
    """Arguments of ``schedule_update``."""

    prompt: Text | None = Field(None, description="What the agent is asked at every run from now on")
    name: Name | None = Field(None, description="A new name for it")


class Cancel(_Chosen):
    """Arguments of ``schedule_cancel``."""

    stop_running: bool = Field(False, description="`true`: also ask runs that have started to stop")


class Pause(_Chosen):
    """Arguments of ``schedule_pause``."""

    note: Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$")] | None = Field(
        None, description="Why, for the person who looks at it later"
    )


class Resume(_Chosen):
    """Arguments of ``schedule_resume``."""

    catch_up: Literal["latest", "all"] | None = Field(
        None, description="Also run what passed in the pause: the `latest` run, or `all`. Left out: none"
    )


class RunNow(_Chosen):
    """Arguments of ``schedule_run_now``."""


class History(_Chosen):
    """Arguments of ``schedule_history``."""

    limit: Annotated[int, Field(ge=1, le=50)] = Field(RUNS_SHOWN, description="How many of the newest runs")
