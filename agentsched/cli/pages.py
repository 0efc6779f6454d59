"""Lists in pages, as commands ask for them and print them."""

from typing import Any

import rich_click as click

limit_option = click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most.")
cursor_option = click.option("--cursor", help="Go on after a page, with its next_cursor.")


def say_more(page: dict[str, Any]) -> None:
    """How to get the next page, where there is one."""
    if page["next_cursor"] is not None:
        click.echo(f"There are more: --cursor {page['next_cursor']}", err=True)


def beginning(text: str, width: int = 60) -> str:
    """A text on one line of a table, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
