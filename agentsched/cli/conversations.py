"""`agentsched conversations`: make, read and delete conversations, and their inbox, over HTTP."""

from typing import Any

import rich_click as click

from agentsched.cli.client import Client, client_options
from agentsched.cli.output import json_option, print_json, print_table
from agentsched.cli.pages import cursor_option, limit_option, say_more
from agentsched.cli.schedule_options import agent_body

PATH = "/v1/conversations"

conversation_argument = click.argument("conversation", type=int, metavar="CONVERSATION")


@click.group()
def conversations() -> None:
    """Make, read and delete conversations. CONVERSATION is an id."""


@conversations.command("list")
@limit_option
@cursor_option
@json_option
@client_options
def list_(client: Client, limit: int, cursor: str | None, as_json: bool) -> None:
    """List the conversations, those that runs have made too."""
    page = client.get(PATH, limit=limit, cursor=cursor)
    _print(
        page,
        ("ID", "TITLE", "AGENT", "TIME ZONE", "FORK OF", "RUN", "ENTRIES", "CREATED"),
        lambda each: (
            each["id"],
            each["title"],
            each["agent"]["model"] or each["agent"]["harness"],
            each["timezone"],
            each["parent_id"],
            each["run_id"],
            each["last_seq"],
            each["created_at"],
        ),
        as_json=as_json,
    )


@conversations.command()
@click.option("--title", help="What people call it.")
@click.option("--timezone", help="The IANA zone of its people, such as Europe/Berlin.")
@click.option("--harness", help="The runner that serves its agent.")
@click.option("--model", help="The agent's model, in the words of the harness.")
@click.option("--instructions", help="What the agent is told before the conversation.")
@json_option
@client_options
def create(client: Client, title: str | None, timezone: str | None, as_json: bool, **options: Any) -> None:
    """Make a conversation; everything is optional."""
    agent = agent_body(**options)
    asked = {"title": title, "timezone": timezone, "agent": agent or None}
    made = client.post(PATH, {name: value for name, value in asked.items() if value is not None})
    if as_json:
        print_json(made)
    else:
        click.echo(f"Conversation {made['id']} is there; its agent is {made['agent']['harness']}.")


@conversations.command()
@conversation_argument
@limit_option
@cursor_option
@json_option
@client_options
def entries(client: Client, conversation: int, limit: int, cursor: str | None, as_json: bool) -> None:
    """Read the transcript, oldest first."""
    page = client.get(f"{PATH}/{conversation}/entries", limit=limit, cursor=cursor)
    _print(
        page,
        ("#", "WHO", "SAYS", "AT"),
        lambda each: (
            each["seq"],
            f"schedule {each['scheduled']['schedule_id']}" if each["scheduled"] else each["role"],
            each["content"],
            each["created_at"],
        ),
        as_json=as_json,
    )


@conversations.command()
@conversation_argument
@json_option
@client_options
def inbox(client: Client, conversation: int, as_json: bool) -> None:
    """Read the notes for the conversation's people, newest first."""
    _print(
        client.get(f"{PATH}/{conversation}/inbox"),
        ("WHEN", "KIND", "NOTE"),
        lambda each: (each["created_at"], each["kind"], each["text"]),
        as_json=as_json,
    )


@conversations.command()
@conversation_argument
@json_option
@client_options
def delete(client: Client, conversation: int, as_json: bool) -> None:
    """Delete a conversation: its schedules are cancelled, its keys revoked."""
    client.delete(f"{PATH}/{conversation}")
    if as_json:
        print_json({"deleted": conversation})
    else:
        click.echo(f"Conversation {conversation} is deleted, and its schedules are cancelled.")


def _print(page: dict[str, Any], columns: tuple[str, ...], cells: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(page)
        return
    print_table(columns, (cells(each) for each in page["items"]))
    say_more(page)
