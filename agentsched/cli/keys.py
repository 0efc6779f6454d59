"""`agentsched keys`: API keys, made and revoked on the database itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import rich_click as click

from agentsched.cli import runtime
from agentsched.cli.configuration import read_settings
from agentsched.cli.output import json_option, print_json, print_table
from agentsched.cli.runtime import Place
from agentsched.core.words import Scope
from agentsched.service import keys as service
from agentsched.store.database import Database
from agentsched.store.principals import PrincipalRow

Result = TypeVar("Result")

principal_option = click.option(
    "--principal",
    default=service.DEFAULT_PRINCIPAL,
    show_default=True,
    help="Whose keys: principals share nothing. An unknown name is a new principal.",
)


@click.group()
def keys() -> None:
    """Make, list and revoke API keys."""


@keys.command()
@click.option(
    "--scope",
    type=click.Choice([scope.value for scope in Scope]),
    default=Scope.USER.value,
    show_default=True,
    help="What the key may do; admin includes the others.",
)
@click.option("--label", default="", help="What it is for, to tell keys apart.")
@click.option("--conversation", type=int, metavar="ID", help="A key for this conversation only.")
@principal_option
@json_option
def create(scope: str, label: str, conversation: int | None, principal: str, as_json: bool) -> None:
    """Make a key. It is printed once and stored nowhere."""

    async def make(db: Database, owner: PrincipalRow) -> tuple[int, str]:
        return await service.create_key(db, owner.id, scope=Scope(scope), label=label, conversation_id=conversation)

    key_id, key = _run(principal, make, new=True)
    if as_json:
        print_json({"id": key_id, "api_key": key, "scope": scope, "label": label, "conversation_id": conversation})
    else:
        click.echo(key)
        click.echo(f"Key {key_id} ({scope}). It is not shown again.", err=True)


@keys.command("list")
@principal_option
@json_option
def list_(principal: str, as_json: bool) -> None:
    """List keys, revoked ones too, without the keys themselves."""
    rows = _run(principal, lambda db, owner: service.list_keys(db, owner.id))
    if as_json:
        print_json({"items": [_shown(row._asdict()) for row in rows], "next_cursor": None})
    else:
        print_table(
            ("ID", "STARTS WITH", "SCOPE", "LABEL", "CONVERSATION", "LAST USED", "REVOKED"),
            (
                (row.id, row.prefix, row.scope, row.label, row.conversation_id, row.last_used_at, row.revoked_at)
                for row in rows
            ),
        )


@keys.command()
@click.argument("key_id", type=int, metavar="ID")
@principal_option
@json_option
def revoke(key_id: int, principal: str, as_json: bool) -> None:
    """Revoke a key, from now on."""
    _run(principal, lambda db, owner: service.revoke_key(db, owner.id, key_id))
    if as_json:
        print_json({"id": key_id, "revoked": True})
    else:
        click.echo(f"Key {key_id} is revoked.")


def _run(principal: str, use: Callable[[Database, PrincipalRow], Awaitable[Result]], *, new: bool = False) -> Result:
    """Do something for a principal; only a `new` one may be an unknown name, but for the default's."""

    async def on(where: Place) -> Result:
        async with runtime.prepared(where) as db:
            if new or principal == service.DEFAULT_PRINCIPAL:
                owner = await service.ensure_principal(db, principal, runtime.host_timezone(where.settings))
            else:
                owner = await service.find_principal(db, principal)
            return await use(db, owner)

    with runtime.place(read_settings()) as where:
        return asyncio.run(on(where))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "principal_id"}
