"""`agentsched runs`: read the ledger, cancel runs, and requeue or discard those that failed, over HTTP."""

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click
from click.exceptions import Exit

from agentsched.cli.client import Client, client_options
from agentsched.cli.output import json_option, print_fields, print_json, print_table
from agentsched.cli.pages import beginning, cursor_option, limit_option, say_more
from agentsched.core.words import RunStatus

PATH = "/v1/runs"

Command = TypeVar("Command", bound=Callable[..., Any])

run_argument = click.argument("run", type=int, metavar="RUN")


@click.group()
def runs() -> None:
    """See runs, cancel them, and requeue or discard those that failed. RUN is an id."""


@runs.command("list")
@click.option("--schedule", type=int, help="Only those of this schedule.")
@click.option("--status", multiple=True, type=click.Choice([status.value for status in RunStatus]), help="Only these.")
@click.option("--dead", is_flag=True, help="Only failed ones that nobody has requeued or discarded.")
@limit_option
@cursor_option
@json_option
@client_options
def list_(
    client: Client,
    schedule: int | None,
    status: tuple[str, ...],
    dead: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List the runs of a schedule, or of all, newest first."""
    path = PATH if schedule is None else f"/v1/schedules/{schedule}/runs"
    page = client.get(path, status=status or None, dead_letter=dead or None, limit=limit, cursor=cursor)
    if as_json:
        print_json(page)
    else:
        print_runs(page)


@runs.command()
@run_argument
@json_option
@client_options
def show(client: Client, run: int, as_json: bool) -> None:
    """Show a run with its attempts."""
    found = client.get(f"{PATH}/{run}")
    attempts = client.get(f"{PATH}/{run}/tasks")["items"]
    if as_json:
        print_json({**found, "attempts": attempts})
        return
    print_fields({name.replace("_", " "): value for name, value in found.items()})
    if attempts:
        click.echo()
        print_table(
            ("ATTEMPT", "TASK", "STATUS", "WORKER", "STARTED", "FINISHED", "ERROR"),
            (
                (
                    each["attempt"],
                    each["id"],
                    each["status"],
                    each["worker"],
                    each["started_at"],
                    each["finished_at"],
                    beginning(each["error"] or each["error_code"] or ""),
                )
                for each in attempts
            ),
        )


@runs.command()
@run_argument
@json_option
@client_options
def cancel(client: Client, run: int, as_json: bool) -> None:
    """Cancel a run that has not ended; where a worker holds it, by asking."""
    cancelled = client.post(f"{PATH}/{run}/cancel")
    if as_json:
        print_json(cancelled)
    elif cancelled["status"] == RunStatus.CANCELLED:
        click.echo(f"Run {run} is cancelled.")
    else:
        click.echo(f"Run {run} is {cancelled['status']}, and was asked to stop.")


def choice_options(command: Command) -> Command:
    """Add RUN… and the criteria of dead letters."""
    options = (
        click.argument("run", type=int, nargs=-1, metavar="[RUN]..."),
        click.option("--schedule", "schedule_id", type=int, help="Those of this schedule."),
        click.option("--error-code", help="Those that failed with this error code."),
        click.option("--failed-after", help="Those that failed at this instant (2026-12-03T09:00:00Z) or later."),
        click.option("--failed-before", help="Those that failed before this instant."),
        click.option("--all", "everything", is_flag=True, help="All, where no other criterion is given."),
        click.option("--limit", type=click.IntRange(1, 1000), help="At most so many, the oldest first.  [100]"),
    )
    for option in reversed(options):
        command = option(command)
    return command


@runs.command()
@choice_options
@json_option
@client_options
def requeue(client: Client, run: tuple[int, ...], as_json: bool, **criteria: Any) -> None:
    """Run failed runs again, as new ones: those named, or all dead letters that fit.

    For example: agentsched runs requeue --schedule 3 --error-code timeout
    """
    body = _body(run, criteria)
    if len(run) == 1:
        new = client.post(f"{PATH}/{run[0]}/requeue")["run"]
        answer = {"count": 1, "runs": [{"run_id": run[0], "new_run_id": new["id"]}], "refused": [], "remaining": 0}
    else:
        answer = client.post(f"{PATH}/requeue", body)
    _print(answer, lambda done: f"Run {done['run_id']} is requeued as run {done['new_run_id']}.", as_json=as_json)


@runs.command()
@choice_options
@json_option
@client_options
def discard(client: Client, run: tuple[int, ...], as_json: bool, **criteria: Any) -> None:
    """Say of failed runs that nobody needs them: those named, or all dead letters that fit.

    For example: agentsched runs discard --failed-before 2026-05-01T00:00:00Z
    """
    body = _body(run, criteria)
    if len(run) == 1:
        client.post(f"{PATH}/{run[0]}/discard")
        answer = {"count": 1, "runs": [{"run_id": run[0], "new_run_id": None}], "refused": [], "remaining": 0}
    else:
        answer = client.post(f"{PATH}/discard", body)
    _print(answer, lambda done: f"Run {done['run_id']} is discarded.", as_json=as_json)


def print_runs(page: dict[str, Any]) -> None:
    """A page of runs, and why there was none where there was none."""
    print_table(
        ("ID", "SCHEDULE", "FIRE", "TRIGGER", "STATUS", "CONVERSATION", "WHAT HAPPENED"),
        (
            (
                each["id"],
                each["schedule_id"],
                each["fire_at"],
                each["trigger"],
                each["status"] if each["reason"] is None else f"{each['status']} ({each['reason']})",
                each["conversation_id"],
                beginning(each["error"] or each["reason_text"] or each["result"] or ""),
            )
            for each in page["items"]
        ),
    )
    say_more(page)


def _body(run: tuple[int, ...], criteria: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in criteria.items() if value not in (None, False)}
    if run and given:
        raise click.UsageError("Give either RUN… or options that choose dead letters, not both.")
    if not run and not given.keys() - {"limit"}:
        raise click.UsageError(
            "Say which ones: RUN…, --schedule, --error-code, --failed-after, --failed-before, --all."
        )
    if run:
        return {"run_ids": list(run)}
    return {"all" if name == "everything" else name: value for name, value in given.items()}


def _print(answer: dict[str, Any], line: Callable[[dict[str, Any]], str], *, as_json: bool) -> None:
    """What was done and what was refused; a refusal makes the exit code 1, though others were done."""
    if as_json:
        print_json(answer)
    else:
        for done in answer["runs"]:
            click.echo(line(done))
        for refused in answer["refused"]:
            click.echo(f"Run {refused['run_id']}: {refused['problem']}", err=True)
        if answer["remaining"]:
            click.echo(f"{answer['remaining']} more are left. Do it again for them.", err=True)
        if not answer["runs"] and not answer["refused"]:
            click.echo("No dead letter fits.", err=True)
    if answer["refused"]:
        raise Exit(1)
