"""`agentsched schedules`: create, see and steer the schedules of conversations, over HTTP."""

from typing import Any

import rich_click as click

from agentsched.cli.backfills import backfill
from agentsched.cli.client import Client, client_options
from agentsched.cli.output import json_option, print_fields, print_json, print_table, shown
from agentsched.cli.pages import beginning, cursor_option, limit_option, say_more
from agentsched.cli.refusal import CommandRefused
from agentsched.cli.runs import print_runs
from agentsched.cli.schedule_options import SAYS_WHEN, as_body, as_patch, preview_count, schedule_options
from agentsched.cli.simulation import print_simulation, simulation_options, take_supposition
from agentsched.core.words import RunStatus, ScheduleStatus

PATH = "/v1/schedules"

schedule_argument = click.argument("schedule", type=int, metavar="SCHEDULE")
conversation_argument = click.argument("conversation", type=int, metavar="CONVERSATION")


@click.group()
def schedules() -> None:
    """Create, see and steer schedules. CONVERSATION and SCHEDULE are ids."""


schedules.add_command(backfill)


@schedules.command("list")
@click.argument("conversation", type=int, required=False, metavar="[CONVERSATION]")
@click.option(
    "--status",
    multiple=True,
    type=click.Choice([status.value for status in ScheduleStatus]),
    help="Only these; without it those that are neither cancelled nor completed.",
)
@limit_option
@cursor_option
@json_option
@client_options
def list_(
    client: Client, conversation: int | None, status: tuple[str, ...], limit: int, cursor: str | None, as_json: bool
) -> None:
    """List the schedules of a conversation, or of all, oldest first."""
    path = PATH if conversation is None else f"/v1/conversations/{conversation}/schedules"
    page = client.get(path, status=status or None, limit=limit, cursor=cursor)
    if as_json:
        print_json(page)
        return
    print_table(
        ("ID", "CONVERSATION", "NAME", "WHEN", "STATUS", "NEXT FIRE", "PROMPT"),
        (
            (
                each["id"],
                each["conversation_id"],
                each["name"],
                each["summary"],
                each["status"],
                _next(each),
                beginning(each["prompt"]),
            )
            for each in page["items"]
        ),
    )
    say_more(page)


@schedules.command()
@schedule_argument
@json_option
@client_options
def show(client: Client, schedule: int, as_json: bool) -> None:
    """Show a schedule with its policies and its next fires."""
    found = client.get(f"{PATH}/{schedule}")
    if as_json:
        print_json(found)
    else:
        print_fields({name.replace("_", " "): value for name, value in found.items() if name != "next_runs"})
        _print_next(found)


@schedules.command()
@conversation_argument
@click.option("--prompt", required=True, help="What the agent is asked at every fire.")
@schedule_options
@json_option
@client_options
def create(client: Client, conversation: int, prompt: str, as_json: bool, **options: Any) -> None:
    """Give a conversation a schedule: exactly one of --cron, --every, --at and --in, and a prompt.

    For example: agentsched schedules create 1 --cron '0 9 * * 1-5' --prompt 'Check my open pull requests'
    """
    made = client.post(f"/v1/conversations/{conversation}/schedules", {"prompt": prompt, **as_body(options)})
    if as_json:
        print_json(made)
    else:
        click.echo(f"Schedule {made['id']} is {made['status']}: {made['summary']}.")
        _print_next(made)


@schedules.command()
@schedule_argument
@click.option("--prompt", help="What the agent is asked at every fire from now on.")
@click.option("--version", type=int, help="Only if the schedule is still at this version.  [the one it has now]")
@schedule_options
@json_option
@client_options
def update(
    client: Client, schedule: int, prompt: str | None, version: int | None, as_json: bool, **options: Any
) -> None:
    """Change a schedule; what is not given stays as it is.

    A new timing counts from now. For example: agentsched schedules update 1 --cron '30 8 * * 1-5'
    """
    body = as_patch(options) | ({} if prompt is None else {"prompt": prompt})
    if not body:
        raise click.UsageError("Give at least one option that says what to change.")
    if version is None:
        version = client.get(f"{PATH}/{schedule}")["version"]
    changed = client.patch(f"{PATH}/{schedule}", body, version=version)
    if as_json:
        print_json(changed)
    else:
        click.echo(f"Schedule {schedule} is at version {changed['version']}: {changed['summary']}.")
        _print_next(changed)


@schedules.command()
@schedule_argument
@click.option("--stop-running", is_flag=True, help="Ask runs that have fired to stop as well.")
@json_option
@client_options
def cancel(client: Client, schedule: int, stop_running: bool, as_json: bool) -> None:
    """Cancel a schedule for good. What has fired finishes."""
    # Without the option nothing is sent, so that the service's own default holds.
    answer = client.delete(f"{PATH}/{schedule}", stop_running=stop_running or None)
    _print_change(client, schedule, answer, as_json=as_json)


@schedules.command()
@schedule_argument
@click.option("--note", help="Why; shown beside the pause.")
@json_option
@client_options
def pause(client: Client, schedule: int, note: str | None, as_json: bool) -> None:
    """Pause a schedule: the fires until it is resumed are not due."""
    answer = client.post(f"{PATH}/{schedule}/pause", {} if note is None else {"note": note})
    _print_change(client, schedule, answer, as_json=as_json)


@schedules.command()
@schedule_argument
@click.option(
    "--catch-up",
    type=click.Choice(["latest", "all"]),
    help="Also run the latest slot that passed in the pause, or all of them.",
)
@json_option
@client_options
def resume(client: Client, schedule: int, catch_up: str | None, as_json: bool) -> None:
    """Resume a paused schedule from now on."""
    body = {} if catch_up is None else {"catch_up": catch_up}
    _print_change(client, schedule, client.post(f"{PATH}/{schedule}/resume", body), as_json=as_json)


@schedules.command("run-now")
@schedule_argument
@json_option
@client_options
def run_now(client: Client, schedule: int, as_json: bool) -> None:
    """Run once, at once, beside the cadence."""
    answer = client.post(f"{PATH}/{schedule}/run-now")
    if as_json:
        print_json(answer)
        return
    run = answer["run"]
    click.echo(f"Run {run['id']} is {run['status']}; its conversation is {run['conversation_id']}.")


@schedules.command()
@click.argument("schedule", type=int, required=False, metavar="[SCHEDULE]")
@click.option("--prompt", hidden=True)
@schedule_options
@preview_count
@simulation_options
@json_option
@client_options
def preview(client: Client, schedule: int | None, count: int, as_json: bool, **options: Any) -> None:
    """Show the next fires of a SCHEDULE, or of one that would have these options. Nothing is saved.

    With --simulate: what becomes of every slot over a span. For example: agentsched schedules preview --simulate
    --cron '*/15 * * * *' --overlap queue --run-takes 40m --span 6h
    """
    supposed = take_supposition(options)
    prompt = options.pop("prompt")
    if schedule is None:
        body = as_body(options) | ({} if prompt is None else {"prompt": prompt})
        path, body = (
            (f"{PATH}/preview", {**body, "count": count}) if supposed is None else (f"{PATH}/simulate", body | supposed)
        )
        answer = client.post(path, body)
    elif prompt is not None or any(value is not None for value in options.values()):
        raise click.UsageError(f"Give either a SCHEDULE or what a new one would have ({SAYS_WHEN}), not both.")
    elif supposed is None:
        answer = client.get(f"{PATH}/{schedule}/preview", count=count)
    else:
        answer = client.post(f"{PATH}/{schedule}/simulate", supposed)
    if as_json:
        print_json(answer)
    elif supposed is None:
        click.echo(f"{answer['summary']}.")
        _print_next(answer)
    else:
        print_simulation(answer)
    if answer["problems"]:
        document = {
            "code": answer["problems"][0]["code"],
            "detail": "It would be refused.",
            "errors": answer["problems"],
        }
        raise CommandRefused(document["code"], document["detail"], document=document)


@schedules.command()
@schedule_argument
@click.option("--status", multiple=True, type=click.Choice([status.value for status in RunStatus]), help="Only these.")
@limit_option
@cursor_option
@json_option
@client_options
def runs(client: Client, schedule: int, status: tuple[str, ...], limit: int, cursor: str | None, as_json: bool) -> None:
    """List the runs of a schedule, newest first, and why there was none where there was none."""
    page = client.get(f"{PATH}/{schedule}/runs", status=status or None, limit=limit, cursor=cursor)
    if as_json:
        print_json(page)
    else:
        print_runs(page)


@schedules.command()
@schedule_argument
@limit_option
@cursor_option
@json_option
@client_options
def changes(client: Client, schedule: int, limit: int, cursor: str | None, as_json: bool) -> None:
    """Show the history of a schedule: who changed what, and when."""
    page = client.get(f"{PATH}/{schedule}/changes", limit=limit, cursor=cursor)
    if as_json:
        print_json(page)
        return
    print_table(
        ("WHEN", "WHO", "WHAT", "VERSION", "ASKED FOR"),
        (
            (each["created_at"], each["actor"], each["action"], each["version"], shown(each["changes"]))
            for each in page["items"]
        ),
    )
    say_more(page)


def _print_next(schedule: dict[str, Any]) -> None:
    """The next fires of a schedule or a preview."""
    for run in schedule["next_runs"]:
        click.echo(f"  {run['local']}   {run['utc']}")


def _print_change(client: Client, schedule: int, answer: dict[str, Any] | None, *, as_json: bool) -> None:
    changed = client.get(f"{PATH}/{schedule}") if answer is None else answer
    if as_json:
        print_json(changed)
    else:
        click.echo(f"Schedule {schedule} is {changed['status']}. Next fire: {_next(changed) or 'none'}.")


def _next(schedule: dict[str, Any]) -> str:
    return str(schedule["next_runs"][0]["local"]) if schedule["next_runs"] else ""
