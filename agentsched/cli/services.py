"""`agentsched up`, `serve` and `worker`: the processes that run until they are stopped."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import TYPE_CHECKING

import rich_click as click
from arq.connections import ArqRedis

from agentsched.cli.configuration import read_settings
from agentsched.cli.data_dir import DataDir
from agentsched.cli.hosting import Part, host, listen, serve_api, url_of
from agentsched.cli.invocation import command, host_configuration
from agentsched.cli.output import json_option, print_json
from agentsched.cli.refusal import CommandRefused
from agentsched.cli.runtime import Place, place, prepared, set_up, usable
from agentsched.runners.protocol import Assignment
from agentsched.runners.registry import runners
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools.call import Toolbox
from agentsched.worker.process import ProcessWaker, connect_redis, run_worker, worker_name

if TYPE_CHECKING:
    from agentsched.tools.toolset import Toolset

DOCS_PATH = "/schema"
MCP_PATH = "/mcp"

host_option = click.option("--host", metavar="ADDRESS", help="Listen on this address.  [AGENTSCHED_HOST, 127.0.0.1]")
port_option = click.option("--port", type=int, help="Listen on this port; 0 takes a free one.  [AGENTSCHED_PORT, 8420]")


@click.command()
@host_option
@port_option
@json_option
def up(host: str | None, port: int | None, as_json: bool) -> None:
    """Run everything in one process: database, API and worker.

    Ctrl-C stops it, gives unfinished work back and leaves the database in order.
    """
    _serve(read_settings(host=host, port=port), as_json=as_json, with_worker=True)


@click.command()
@host_option
@port_option
@json_option
def serve(host: str | None, port: int | None, as_json: bool) -> None:
    """Run the API only: no tick, no sweep, no agents. It needs a worker beside it."""
    _serve(read_settings(host=host, port=port), as_json=as_json, with_worker=False)


@click.command()
@json_option
def worker(as_json: bool) -> None:
    """Run a worker only: the tick, the sweep and the agents."""
    settings = read_settings()
    with place(settings) as where:
        asyncio.run(_run_worker(where, as_json=as_json))


def _serve(settings: Settings, *, as_json: bool, with_worker: bool) -> None:
    with (
        _announced(settings, required=with_worker) as announced,
        contextlib.closing(listen(settings.host, settings.port)) as listener,
        place(settings) as where,
    ):
        asyncio.run(_run_api(where, listener, announced, as_json=as_json, with_worker=with_worker))


@contextlib.contextmanager
def _announced(settings: Settings, *, required: bool) -> Iterator[DataDir | None]:
    """The data directory in which this process is the one that clients find; None where there is none to be.

    With a given database nothing is announced: its processes may be on any machine.
    """
    if settings.database_url is not None:
        yield None
        return
    data_dir = DataDir.of(settings)
    with contextlib.ExitStack() as open_until_the_end:
        with usable(data_dir):
            first = open_until_the_end.enter_context(data_dir.serving())
        if required and not first:
            raise CommandRefused("already_up", _already_up(data_dir))
        yield data_dir if first else None


def _already_up(data_dir: DataDir) -> str:
    url = data_dir.served_url()
    where = "is just being started by another process" if url is None else f"runs already at {url}"
    return (
        f"agentsched {where}, with the data directory {data_dir.path}. "
        "Use that one, stop it first, or give another directory with AGENTSCHED_DATA_DIR and another port with --port."
    )


async def _run_api(
    where: Place, listener: socket.socket, announced: DataDir | None, *, as_json: bool, with_worker: bool
) -> None:
    from agentsched.api.app import create_app

    settings = where.settings
    url = url_of(listener)
    async with prepared(where) as db, _wake_ups(db, settings) as (redis, waker):
        key = await set_up(where, db)
        app = create_app(db, settings, waker)
        parts: list[Part] = [partial(serve_api, app, listener, graceful_seconds=settings.shutdown_seconds)]
        if with_worker:
            parts.append(_worker_part(settings, db, redis, waker, worker_name()))

        def on_ready() -> None:
            if announced is not None:
                announced.announce(url)
            if as_json:
                ready = {"url": url, "api_key": key, "mcp_url": url + MCP_PATH, "database_url": where.database_url}
                print_json(ready)
            else:
                click.echo(_welcome(where, url, found_by_clients=announced is not None, with_worker=with_worker))

        await host(parts, on_ready)


async def _run_worker(where: Place, *, as_json: bool) -> None:
    name = worker_name()
    async with prepared(where) as db, _wake_ups(db, where.settings) as (redis, waker):
        await set_up(where, db)

        def on_ready() -> None:
            if as_json:
                print_json({"worker": name, "database_url": where.database_url})
            else:
                click.echo(f"The worker {name} is there. Ctrl-C stops it.")

        await host([_worker_part(where.settings, db, redis, waker, name)], on_ready)


def _worker_part(settings: Settings, db: Database, redis: ArqRedis, waker: ProcessWaker, name: str) -> Part:
    async def part(stop: asyncio.Event, ready: asyncio.Event) -> None:
        await run_worker(settings, db, runners=makers, redis=redis, waker=waker, stop=stop, name=name, ready=ready)

    async def schedule_tools(assignment: Assignment) -> "Toolset":
        # By the time that there is an assignment, its runner has imported pydantic-ai, which takes a second.
        from agentsched.tools.toolset import ScheduleTools

        return await ScheduleTools(db, Toolbox(db, settings, waker))(assignment)

    makers = runners(schedule_tools)
    return part


@contextlib.asynccontextmanager
async def _wake_ups(db: Database, settings: Settings) -> AsyncIterator[tuple[ArqRedis, ProcessWaker]]:
    """Redis, which for others is only there if it is a given one, and the waker of this process."""
    try:
        redis = connect_redis(settings)
    except ValueError as error:
        raise CommandRefused("redis_url_invalid", f"AGENTSCHED_REDIS_URL cannot be used: {error}") from error
    waker = ProcessWaker(db, None if settings.redis_url is None else redis)
    try:
        yield redis, waker
    finally:
        await waker.close()
        await redis.aclose(close_connection_pool=True)


def _welcome(where: Place, url: str, *, found_by_clients: bool, with_worker: bool) -> str:
    program = command(where.settings)
    lines = [
        "agentsched is up." if with_worker else "The API is up. Nothing fires without a worker beside it.",
        "",
        f"  API      {url}",
        f"  Docs     {url}{DOCS_PATH}",
        f"  MCP      {url}{MCP_PATH}",
    ]
    if where.data_dir is None:
        lines.append(f"  API key  make one with: {program} keys create")
    else:
        lines.append(f"  API key  {where.data_dir.api_key_file}")
    if found_by_clients:
        lines += [
            "",
            "Try next, in another terminal (the first conversation has the number 1):",
            "",
            f"  {program} chat",
            f"  {program} schedules create 1 --cron '*/5 * * * *' --prompt 'Say hello'",
            f"  {program} schedules list 1",
            "",
            "For an MCP host on this machine, in its configuration:",
            "",
            f"  {host_configuration(where.settings)}",
        ]
    return "\n".join([*lines, "", "Ctrl-C stops it."])
