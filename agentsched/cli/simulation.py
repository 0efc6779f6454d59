"""`schedules preview --simulate`: its options, and the table of what would happen."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import rich_click as click
from click import get_current_context
from click.core import ParameterSource

from agentsched.cli.output import print_table
from agentsched.core.durations import format_seconds
from agentsched.core.zones import zone
from agentsched.service.requests import Supposition

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = ("from_", "span", "run_seconds", "stop_seconds", "fails_every", "down")
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
COLUMNS = ("SLOT", "", "WHAT HAPPENS", "STARTED", "ENDED", "WAITED", "IN LINE")
FOLDED_FROM = 3
"""So many rows in a row that differ in nothing but the time are shown as one."""


class Duration(click.ParamType[int]):
    """Seconds, from a duration such as `90s`, `40m` or `1h30m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        parts = re.findall(r"([0-9]{1,9})([smhd])", str(value))
        if not parts or "".join(map("".join, parts)) != value:
            self.fail(
                f"{value!r} is no duration. Write a number with s, m, h or d, such as 90s, 40m or 1h30m.", param, ctx
            )
        return sum(int(count) * UNITS[unit] for count, unit in parts)


class Window(click.ParamType[dict[str, str]]):
    """A time down, from two instants with a slash between them."""

    name = "from/until"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        since, slash, until = str(value).partition("/")
        if not (since and slash and until):
            self.fail(f"{value!r} is no FROM/UNTIL. Write 2026-12-03T09:00/2026-12-03T11:00.", param, ctx)
        return {"from": since, "until": until}


def simulation_options(command: Command) -> Command:
    """Add ``--simulate`` and what is supposed then."""
    added = [
        click.option("--simulate", is_flag=True, help="Show what its policies would do, given how long runs take."),
        click.option("--from", "from_", metavar="INSTANT", help=_help("from_")),
        click.option("--span", metavar="DURATION", help=_help("span")),
        click.option("--run-takes", "run_seconds", type=Duration(), help=_help("run_seconds")),
        click.option("--stop-takes", "stop_seconds", type=Duration(), help=_help("stop_seconds")),
        click.option("--fails-every", type=int, help=_help("fails_every")),
        click.option("--down", type=Window(), multiple=True, help=f"{_help('down')}; may be repeated."),
    ]
    for option in reversed(added):
        command = option(command)
    return command


def take_supposition(options: dict[str, Any]) -> dict[str, Any] | None:
    """Take the options of a simulation out of all; what they suppose, or None if none is wanted.

    Raises UsageError for those that say nothing beside the others.
    """
    wanted = options.pop("simulate")
    given = {name: options.pop(name) for name in OPTIONS}
    body = {name.rstrip("_"): value for name, value in given.items() if value not in (None, ())}
    context = get_current_context()
    if wanted and context.get_parameter_source("count") is not ParameterSource.DEFAULT:
        raise click.UsageError("A simulation has a --span, not a --count.")
    if body and not wanted:
        raise click.UsageError(
            "Only --simulate takes --from, --span, --run-takes, --stop-takes, --fails-every and --down."
        )
    return body if wanted else None


def print_simulation(answer: Mapping[str, Any]) -> None:
    """What happens to every slot, and all of it in a sentence."""
    click.echo(f"{answer['summary']}.")
    if answer["runs"]:
        print_table(COLUMNS, _rows(answer["runs"], answer["timezone"]))
    click.echo(answer["outcome"])


class _Look(NamedTuple):
    """What is the same in rows that differ in nothing but the time."""

    what: str
    waited: int | None
    took: float | None
    in_line: int


def _rows(runs: Sequence[Mapping[str, Any]], timezone: str) -> Iterator[Sequence[object]]:
    for look, group in groupby(runs, key=_look):
        same = list(group)
        if len(same) >= FOLDED_FROM:
            slots = sum(run["missed_count"] or 1 for run in same)
            yield _row(look, same[0], f"× {slots}", timezone, last=same[-1])
        else:
            for run in same:
                count = run["missed_count"] or 1
                yield _row(look, run, f"× {count}" if count > 1 else "", timezone, last=None)


def _row(
    look: _Look, run: Mapping[str, Any], count: str, timezone: str, *, last: Mapping[str, Any] | None
) -> Sequence[object]:
    slot = run["local"] if last is None else f"{run['local']} … {last['local']}"
    worked = last is None and run["started_at"] is not None
    started, ended = (run[name] if worked else None for name in ("started_at", "ended_at"))
    return (
        slot,
        count,
        look.what,
        _clock(started, run["fire_at"], timezone),
        _clock(ended, run["fire_at"], timezone),
        format_seconds(look.waited) if look.waited else "",
        look.in_line or "",
    )


def _look(run: Mapping[str, Any]) -> _Look:
    what = run["status"]
    if (why := run["reason"] or run["error_code"]) is not None:
        what += f" ({why})"
    if run["attempts"] > 1:
        what += f", attempt {run['attempts']}"
    took = None
    if run["started_at"] is not None and run["ended_at"] is not None:
        took = (datetime.fromisoformat(run["ended_at"]) - datetime.fromisoformat(run["started_at"])).total_seconds()
    return _Look(what, run["waited_seconds"], took, run["in_line"])


def _clock(instant: str | None, slot: str, timezone: str) -> str:
    """The time of day in the schedule's zone, with the day where that is not the slot's."""
    if instant is None:
        return ""
    local, day = (datetime.fromisoformat(each).astimezone(zone(timezone)) for each in (instant, slot))
    return f"{local:%H:%M:%S}" if local.date() == day.date() else f"{local:%a %Y-%m-%d %H:%M:%S}"


def _help(field: str) -> str:
    description: str = Supposition.model_fields[field].description or ""
    return description.replace("`", "")
