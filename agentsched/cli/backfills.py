"""`agentsched schedules backfill`, and `agentsched backfills`: run slots that have passed, over HTTP."""

from datetime import datetime
from typing import Any

import rich_click as click

from agentsched.cli.client import Client, client_options
from agentsched.cli.output import json_option, print_fields, print_json, print_table, shown
from agentsched.cli.pages import cursor_option, limit_option, say_more
from agentsched.core.words import Reprocess
from agentsched.service.requests import BackfillRequest

PATH = "/v1/backfills"

backfill_argument = click.argument("backfill", type=int, metavar="BACKFILL")


class Instant(click.ParamType["datetime"]):
    """An instant with its offset from UTC; the zone of this machine is never guessed."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no instant. Write one such as 2026-12-03T09:00Z or 2026-12-03T09:00+01:00.")
        if instant.tzinfo is None:
            minute = f"{instant:%Y-%m-%dT%H:%M}"
            self.fail(f"{value!r} has no offset from UTC. Write {minute}Z for UTC, or give one such as {minute}+01:00.")
        return instant


def _help(field: str) -> str:
    return (BackfillRequest.model_fields[field].description or "").replace("`", "")


@click.command()
@click.argument("schedule", type=int, metavar="SCHEDULE")
@click.option("--from", "from_", type=Instant(), required=True, help=_help("from_"))
@click.option("--to", type=Instant(), required=True, help=_help("to"))
@click.option("--reprocess", type=click.Choice([each.value for each in Reprocess]), help=_help("reprocess"))
@click.option("--dry-run", is_flag=True, help="Only count the slots.")
@click.option("--confirm", is_flag=True, help="Run them however many they are, up to the limit.")
@click.option("--limit", type=int, help=_help("limit"))
@json_option
@client_options
def backfill(
    client: Client,
    schedule: int,
    from_: datetime,
    to: datetime,
    reprocess: str | None,
    dry_run: bool,
    confirm: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """Run slots of a SCHEDULE that have passed, one at a time and in order, behind whatever is due.

    For example: agentsched schedules backfill 1 --from 2026-05-01T00:00Z --to 2026-05-02T00:00Z --dry-run
    """
    optional: dict[str, object] = {"reprocess": reprocess, "limit": limit}
    body = {"from": from_.isoformat(), "to": to.isoformat(), "dry_run": dry_run, "confirm": confirm}
    answer = client.post(
        f"/v1/schedules/{schedule}/backfills",
        body | {name: value for name, value in optional.items() if value is not None},
    )
    if as_json:
        print_json(answer)
    elif dry_run:
        click.echo(_counted(answer))
    else:
        click.echo(f"Backfill {answer['id']} is {answer['status']}: {_slots(answer['count'])}.")


@click.group()
def backfills() -> None:
    """See and cancel backfills; `agentsched schedules backfill` makes them. SCHEDULE and BACKFILL are ids."""


@backfills.command("list")
@click.argument("schedule", type=int, metavar="SCHEDULE")
@limit_option
@cursor_option
@json_option
@client_options
def list_(client: Client, schedule: int, limit: int, cursor: str | None, as_json: bool) -> None:
    """List the backfills of a schedule, newest first."""
    page = client.get(f"/v1/schedules/{schedule}/backfills", limit=limit, cursor=cursor)
    if as_json:
        print_json(page)
        return
    columns = ("id", "from", "to", "reprocess", "status", "count")
    print_table(
        [*(name.upper() for name in columns), "PROGRESS"],
        ((*(each[name] for name in columns), shown(each["progress"])) for each in page["items"]),
    )
    say_more(page)


@backfills.command()
@backfill_argument
@json_option
@client_options
def show(client: Client, backfill: int, as_json: bool) -> None:
    """Show a backfill, and how far it is."""
    found = client.get(f"{PATH}/{backfill}")
    if as_json:
        print_json(found)
    else:
        print_fields({name.replace("_", " "): value for name, value in found.items()})


@backfills.command()
@backfill_argument
@click.option("--stop-running", is_flag=True, help="Ask the run that has started to stop as well.")
@json_option
@client_options
def cancel(client: Client, backfill: int, stop_running: bool, as_json: bool) -> None:
    """Cancel a backfill: what waits is skipped, what has started finishes."""
    answer = client.delete(f"{PATH}/{backfill}", stop_running=stop_running or None)
    if as_json:
        print_json(answer)
    else:
        click.echo(f"Backfill {backfill} is {answer['status']}: {shown(answer['progress']) or _slots(0)}.")


def _counted(preview: dict[str, Any]) -> str:
    count = preview["count"]
    if not preview["count_is_exact"]:
        return f"More than {count} slots lie in this range; ask for a smaller one."
    if count == 0:
        return "No slot would run."
    needed = []
    if preview["over_limit"]:
        needed.append(f"--limit {count}")
    if preview["needs_confirm"]:
        needed.append("--confirm")
    span = preview["first"] if count == 1 else f"{preview['first']} to {preview['last']}"
    return f"{_slots(count)} would run: {span}." + (f" It needs {' and '.join(needed)}." if needed else "")


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
