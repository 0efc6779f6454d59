"""`agentsched chat`: talk with a conversation, a line at a time, also from a pipe."""

import math
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import rich_click as click
from click.exceptions import Exit

from agentsched.cli.client import Client, client_options
from agentsched.cli.output import json_option, print_json
from agentsched.cli.schedule_options import agent_body
from agentsched.core.words import TERMINAL_TASK, TaskStatus

FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
PAGE = 1000
SHOWN_AT_FIRST = 20


@click.command()
@click.argument("conversation", type=int, required=False, metavar="[CONVERSATION]")
@click.option("--title", help="The title of a new conversation.")
@click.option("--timezone", help="The time zone of a new conversation, such as Europe/Berlin.")
@click.option("--model", help="The model that answers in a new conversation, such as openai:gpt-5.")
@click.option("--harness", help="The harness that serves a new conversation: echo, pydantic-ai or another one.")
@click.option("--instructions", help="What the agent of a new conversation is told first.")
@json_option
@client_options
def chat(client: Client, conversation: int | None, as_json: bool, **new: str | None) -> None:
    """Talk with a CONVERSATION, or with a new one. The end of the input (Ctrl-D) ends it.

    An empty line shows what schedules have said in the meantime. /help lists commands, which no agent reads.

    With --json every entry is a line of JSON, after a first line with the conversation; so is the reply to a command.
    """
    if conversation is not None and any(value is not None for value in new.values()):
        raise click.UsageError("A conversation that exists keeps its title, zone and agent. Leave CONVERSATION out.")
    found = _new(client, new) if conversation is None else client.get(f"/v1/conversations/{conversation}")
    talk = Talk(client, found["id"], as_json=as_json)
    talk.introduce(found)
    failed = False
    for line in _lines(prompting=not as_json and sys.stdin.isatty()):
        if line.strip():
            failed = not talk.turn(line) or failed
        else:
            talk.look()
    # Whoever pipes messages in wants to know; whoever types has seen it.
    if failed and not sys.stdin.isatty():
        raise Exit(1)


class Talk:
    """One conversation as it is printed: each entry once, in order."""

    def __init__(self, client: Client, conversation: int, *, as_json: bool) -> None:
        self._client = client
        self._path = f"/v1/conversations/{conversation}"
        self._as_json = as_json
        self._seen = 0
        self._cursor: str | None = None

    def introduce(self, conversation: dict[str, Any]) -> None:
        """Print which conversation it is, and what has been said in it."""
        if self._as_json:
            print_json(conversation)
        else:
            title = f" “{conversation['title']}”" if conversation["title"] else ""
            click.echo(f"Conversation {conversation['id']}{title}, answered by {_agent(conversation['agent'])}.")
        entries = list(self._new_entries())
        earlier = 0 if self._as_json else max(0, len(entries) - SHOWN_AT_FIRST)
        if earlier:
            click.echo(f"… {earlier} earlier entries")
        self._print_all(entries[earlier:])

    def turn(self, text: str) -> bool:
        """Say something and print what comes of it; False if the turn failed."""
        answer = self._client.post(f"{self._path}/messages", {"text": text})
        if "reply" in answer:
            if self._as_json:
                print_json(answer)
            else:
                click.echo(answer["reply"])
            return True
        task = self._finished(answer["task_id"])
        self._print_all(self._new_entries(), said=text)
        if task["status"] == TaskStatus.COMPLETED:
            return True
        reason = task["error"] or task["error_code"] or "no reason is known"
        click.echo(f"The turn is {task['status']}: {reason}", err=True)
        return False

    def look(self) -> None:
        """Print what has been said since."""
        self._print_all(self._new_entries())

    def _finished(self, task_id: int) -> dict[str, Any]:
        pause = FIRST_POLL_SECONDS
        hint_at = time.monotonic() + PATIENCE_SECONDS
        while True:
            task: dict[str, Any] = self._client.get(f"/v1/tasks/{task_id}")
            if task["status"] in TERMINAL_TASK:
                return task
            if task["status"] == TaskStatus.PENDING and time.monotonic() > hint_at:
                click.echo(f"Waiting for a worker that serves {task['harness']}; see `agentsched doctor`.", err=True)
                hint_at = math.inf
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_POLL_SECONDS)

    def _print_all(self, entries: Iterable[dict[str, Any]], *, said: str | None = None) -> None:
        """Print entries that have not been printed, but, for people, not what they have just ``said``."""
        for entry in entries:
            self._seen = entry["seq"]
            own = entry["role"] == "user" and entry["scheduled"] is None and entry["content"] == said
            if own:
                said = None
            if not own or self._as_json:
                self._print(entry)

    def _new_entries(self) -> Iterator[dict[str, Any]]:
        while True:
            page = self._client.get(f"{self._path}/entries", cursor=self._cursor, limit=PAGE)
            yield from (entry for entry in page["items"] if entry["seq"] > self._seen)
            if page["next_cursor"] is None:
                return
            self._cursor = page["next_cursor"]

    def _print(self, entry: dict[str, Any]) -> None:
        if self._as_json:
            print_json(entry)
        else:
            click.echo(_line(entry))


def _new(client: Client, given: dict[str, str | None]) -> dict[str, Any]:
    agent = agent_body(harness=given["harness"], model=given["model"], instructions=given["instructions"])
    asked = {"title": given["title"], "timezone": given["timezone"], "agent": agent or None}
    made: dict[str, Any] = client.post(
        "/v1/conversations", {name: value for name, value in asked.items() if value is not None}
    )
    return made


def _lines(*, prompting: bool) -> Iterator[str]:
    while True:
        if prompting:
            click.echo("> ", nl=False)
        line = sys.stdin.readline()
        if not line:
            if prompting:
                click.echo()
            return
        yield line.removesuffix("\n")


def _agent(agent: dict[str, Any]) -> str:
    return str(agent["harness"] if agent["model"] is None else f"{agent['harness']} with {agent['model']}")


def _line(entry: dict[str, Any]) -> str:
    scheduled = entry.get("scheduled")
    who = entry["role"]
    if scheduled is not None:
        who = f"schedule {scheduled['schedule_id']}, {scheduled['fire_at']}"
    calls = "".join(f" [calls {call['name']}]" for call in entry.get("tool_calls") or ())
    return f"{who}: {entry['content']}{calls}"
