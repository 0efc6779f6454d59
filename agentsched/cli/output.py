"""How commands print: tables for people, one line of JSON with ``--json``."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

Command = TypeVar("Command", bound=Callable[..., Any])

AS_JSON = "agentsched.as_json"


def json_option(command: Command) -> Command:
    """Add ``--json``; refusals follow it as well."""
    return click.option("--json", "as_json", is_flag=True, callback=_note, help="Print JSON, for scripts.")(command)


def _note(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    context.meta[AS_JSON] = value
    return value


def print_json(value: object, *, error: bool = False) -> None:
    """One document on one line, on standard output or error."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str), err=error)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; texts are shown as they are, never as markup."""
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    _console().print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """A name and a value a line."""
    grid = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        grid.add_row(Text(name, style="bold"), Text(shown(value)))
    _console().print(grid)


def shown(value: object) -> str:
    """A value of a JSON document for people."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{name} {shown(each)}" for name, each in value.items())
        case _:
            return str(value)


def _console() -> Console:
    # Made anew, as it looks up the terminal, and tests replace standard output. A pipe has no width to respect.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    return console
