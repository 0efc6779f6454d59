"""`agentsched`: one command for everything (DESIGN §14). Exit codes: 0, 1 for what is refused, 2 for usage."""

import importlib
from typing import Any

import rich_click as click
from click.exceptions import Exit

import agentsched
from agentsched.cli.output import AS_JSON, print_json
from agentsched.telemetry import configure

COMMANDS = {
    "up": ("services", "up"),
    "serve": ("services", "serve"),
    "worker": ("services", "worker"),
    "migrate": ("database", "migrate"),
    "keys": ("keys", "keys"),
    "tick": ("database", "tick"),
    "doctor": ("doctor", "doctor"),
    "openapi": ("openapi", "openapi"),
    "chat": ("chat", "chat"),
    "conversations": ("conversations", "conversations"),
    "schedules": ("schedules", "schedules"),
    "runs": ("runs", "runs"),
    "backfills": ("backfills", "backfills"),
    "mcp": ("mcp", "mcp"),
}
"""Each command's module and object. A module is imported when its command is asked for: clients start quickly."""


class Commands(click.RichGroup):
    """Finds the commands, and ends them with a message where they refuse."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        found: click.Command = getattr(importlib.import_module(f"agentsched.cli.{module}"), name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        from agentsched.cli.refusal import EXPECTED, document_of, lines_of

        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            document = document_of(error)
            if ctx.meta.get(AS_JSON):
                print_json(document, error=True)
            else:
                click.echo("\n".join(lines_of(document)), err=True)
            raise Exit(1) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(agentsched.__version__, prog_name="agentsched", message="%(prog)s %(version)s")
def main() -> None:
    """The scheduler for AI conversations."""
    configure()


if __name__ == "__main__":
    main()
