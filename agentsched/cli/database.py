"""`agentsched migrate` and `tick`: what is done to the database by hand."""

import asyncio
from dataclasses import asdict

import rich_click as click

from agentsched.cli import runtime
from agentsched.cli.configuration import read_settings
from agentsched.cli.output import json_option, print_fields, print_json
from agentsched.cli.runtime import Place
from agentsched.service import tick as service
from agentsched.service.tick import TickReport
from agentsched.store import migrate as schema
from agentsched.worker.waker import ProcessWaker


@click.command()
@json_option
def migrate(as_json: bool) -> None:
    """Bring the database to the schema of this version. The embedded one does so at every start."""
    with runtime.place(read_settings()) as where:
        revision = asyncio.run(_migrate(where))
    if as_json:
        print_json({"revision": revision})
    else:
        click.echo(f"The schema is at revision {revision}.")


@click.command()
@json_option
def tick(as_json: bool) -> None:
    """Do one tick now: fire whatever is due, and print the counts. Workers do it every minute by themselves."""
    with runtime.place(read_settings()) as where:
        report = asyncio.run(_tick(where))
    if as_json:
        print_json({**asdict(report), "minute": report.minute.isoformat()})
    else:
        print_fields({**asdict(report), "minute": f"{report.minute:%Y-%m-%d %H:%M} UTC"})


async def _migrate(where: Place) -> str:
    async with runtime.database(where) as db:
        return await schema.migrate(db)


async def _tick(where: Place) -> TickReport:
    async with runtime.prepared(where) as db:
        waker = ProcessWaker(db)
        try:
            report = await service.tick(db, where.settings)
            waker.wake()
        finally:
            await waker.close()
        return report
