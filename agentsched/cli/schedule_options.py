"""The fields of a schedule as options, with the descriptions of the request that they become (DESIGN §13)."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import rich_click as click

from agentsched.core.words import Misfire, Mode, Notify, Overlap
from agentsched.service.requests import AgentSpec, NewSchedule, PreviewRequest, RetryPolicy

Command = TypeVar("Command", bound=Callable[..., Any])

TIMINGS = ("cron", "every", "at", "in_")
SAYS_WHEN = "--cron, --every, --at or --in"
TEXTS = (*TIMINGS, "timezone", "name", "ends_at")
CHOICES: Mapping[str, type[StrEnum]] = {"mode": Mode, "overlap": Overlap, "misfire": Misfire, "notify": Notify}
NUMBERS = (
    "max_concurrency",
    "queue_limit",
    "cancel_grace_seconds",
    "misfire_grace_seconds",
    "start_deadline_seconds",
    "timeout_seconds",
    "pause_after_failures",
    "max_runs",
    "daily_run_limit",
    "daily_token_limit",
    "max_history_entries",
)
NONE_ALLOWED = (
    "max_concurrency",
    "queue_limit",
    "cancel_grace_seconds",
    "pause_after_failures",
    "daily_run_limit",
    "daily_token_limit",
    "max_history_entries",
)
"""Those for which a null says something, as ``service.policies`` has it; that would take long to import."""

RETRY = {f"retry_{name}": name for name in RetryPolicy.model_fields}
AGENT = ("harness", "model", "instructions")
MODEL_HARNESS = "pydantic-ai"


class NumberOrNone(click.ParamType["int | str"]):
    """A whole number, or the word `none` for an explicit null."""

    name = "number|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "none":
            return "none"
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither a whole number nor none.", param, ctx)


def schedule_options(command: Command) -> Command:
    """Add an option for every field of a schedule but its prompt."""
    added = [
        *(_option(name, str, NewSchedule) for name in TEXTS),
        *(_option(name, click.Choice([each.value for each in of]), NewSchedule) for name, of in CHOICES.items()),
        click.option("--catch-up", is_flag=True, default=None, help=_help(NewSchedule, "catch_up")),
        *(_option(name, NumberOrNone() if name in NONE_ALLOWED else int, NewSchedule) for name in NUMBERS),
        *(click.option(_flag(name), name, type=int, help=_help(RetryPolicy, field)) for name, field in RETRY.items()),
        *(click.option(_flag(name), name, help=f"Of fresh runs: {_help(AgentSpec, name)}") for name in AGENT),
    ]
    for option in reversed(added):
        command = option(command)
    return command


preview_count = click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=PreviewRequest.model_fields["count"].default,
    show_default=True,
    help=PreviewRequest.model_fields["count"].description,
)


def as_body(options: Mapping[str, Any]) -> dict[str, Any]:
    """The request that the options ask for. Raises UsageError unless exactly one of them says when."""
    timings = [_flag(name) for name in TIMINGS if options[name] is not None]
    if len(timings) != 1:
        got = " and ".join(timings) if timings else "none of them"
        raise click.UsageError(f"Give exactly one of {SAYS_WHEN}; this has {got}.")
    return as_patch(options)


def as_patch(options: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that the options ask for."""
    body = {
        name.rstrip("_"): None if options[name] == "none" and name in NUMBERS else options[name]
        for name in (*TEXTS, *CHOICES, "catch_up", *NUMBERS)
        if options[name] is not None
    }
    retry = {field: options[name] for name, field in RETRY.items() if options[name] is not None}
    agent = agent_body(**{name: options[name] for name in AGENT})
    return body | ({"retry": retry} if retry else {}) | ({"agent": agent} if agent else {})


def agent_body(*, harness: str | None, model: str | None, instructions: str | None) -> dict[str, str]:
    """The agent that these options ask for, empty for none. A model alone is meant for the harness of models."""
    given = {"harness": harness, "model": model, "instructions": instructions}
    agent = {name: value for name, value in given.items() if value is not None}
    return {"harness": MODEL_HARNESS, **agent} if model is not None else agent


def _option(name: str, kind: Any, request: type[NewSchedule]) -> Callable[[Command], Command]:
    return click.option(_flag(name), name, type=kind, help=_help(request, name))


def _flag(name: str) -> str:
    return f"--{name.strip('_').replace('_', '-')}"


def _help(request: type[Any], field: str) -> str:
    description: str = request.model_fields[field].description
    return description.replace("null =", "`none` =").replace("`", "")
