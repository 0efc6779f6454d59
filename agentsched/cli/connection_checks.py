"""The checks of `agentsched doctor` that ask the database and Redis."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from redis.exceptions import RedisError
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.cli.finding import Finding, State
from agentsched.cli.runtime import Place, database
from agentsched.service.status import LATE_TICK_SECONDS
from agentsched.settings import Settings
from agentsched.store import clock, ticks, workers
from agentsched.store.migrate import is_current
from agentsched.store.ticks import TickRow
from agentsched.store.workers import Worker
from agentsched.telemetry import redacted_text
from agentsched.worker.redis import connect_redis

POSTGRESQL = range(15, 19)
ANSWER_SECONDS = 5.0

_SERVER = text("SELECT current_setting('server_version_num')::int / 10000, current_setting('server_version')")
_CLOCK = text("SELECT shift, frozen_at FROM clock")
_PENDING = text("SELECT harness, count(*) FROM tasks WHERE status = 'pending' GROUP BY harness")


async def check_database(where: Place) -> list[Finding]:
    """Version, schema, clock, tick and workers. Raises CommandRefused if the database does not answer."""
    async with database(where) as db:
        current = await is_current(db)
        async with db.begin() as conn:
            major, version = (await conn.execute(_SERVER)).one()
            findings = [_server(major, version, where), _schema(current)]
            return findings + (await _life(conn) if current else [])


async def check_redis(settings: Settings) -> Finding:
    """Whether Redis answers, if there is one to ask."""
    if settings.redis_url is None:
        return Finding("redis", State.OK, "inside each process: AGENTSCHED_REDIS_URL is not given")
    try:
        redis = connect_redis(settings)
    except ValueError as error:
        return Finding("redis", State.PROBLEM, redacted_text(str(error)), "Write redis://host:6379/0.")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await redis.ping()
    except (OSError, TimeoutError, RedisError) as error:
        return Finding(
            "redis",
            State.PROBLEM,
            f"does not answer: {redacted_text(str(error) or type(error).__name__)}",
            "Start it, or correct AGENTSCHED_REDIS_URL. Until then the sweep does its work, a little later.",
        )
    finally:
        await redis.aclose(close_connection_pool=True)
    return Finding("redis", State.OK, "answers")


async def _life(conn: AsyncConnection) -> list[Finding]:
    """What the rows say, which only a current schema can be asked for."""
    now = await clock.now(conn)
    shift, frozen_at = (await conn.execute(_CLOCK)).one()
    present = await workers.present(conn)
    pending = {row[0]: row[1] for row in await conn.execute(_PENDING)}
    return [
        _clock(shift, frozen_at, now),
        _tick(await ticks.last(conn, now), now),
        _workers(present),
        *_unserved(pending, present),
    ]


def _server(major: int, version: str, where: Place) -> Finding:
    found = f"PostgreSQL {version}{'' if where.data_dir is None else ', embedded'}"
    if major in POSTGRESQL:
        return Finding("database", State.OK, found)
    return Finding("database", State.PROBLEM, found, f"Use PostgreSQL {POSTGRESQL.start} to {POSTGRESQL.stop - 1}.")


def _schema(current: bool) -> Finding:
    if current:
        return Finding("schema", State.OK, "current")
    return Finding("schema", State.PROBLEM, "not the one that this version needs", "Run `agentsched migrate`.")


def _clock(shift: timedelta | None, frozen_at: datetime | None, now: datetime) -> Finding:
    if shift is None and frozen_at is None:
        return Finding("clock", State.OK, f"the database's, {now:%Y-%m-%d %H:%M:%S} UTC; no other one counts")
    how = f"frozen at {frozen_at}" if frozen_at is not None else f"shifted by {shift}"
    return Finding(
        "clock", State.WARNING, how, "For tests only: UPDATE clock SET shift = NULL, frozen_at = NULL sets it right."
    )


def _tick(last: TickRow | None, now: datetime) -> Finding:
    if last is None:
        return Finding("tick", State.WARNING, "there has been none", "Start a worker: `agentsched up` or `worker`.")
    age = int((now - last.minute).total_seconds())
    if age > LATE_TICK_SECONDS:
        return Finding(
            "tick", State.WARNING, f"the last was {age} s ago", "Start a worker: `agentsched up` or `worker`."
        )
    return Finding("tick", State.OK, f"the last was {age} s ago")


def _workers(present: Iterable[Worker]) -> Finding:
    heard = [f"{worker.name} ({', '.join(worker.harnesses)})" for worker in present]
    if heard:
        return Finding("workers", State.OK, "; ".join(heard))
    return Finding("workers", State.WARNING, "none is heard", "Start one: `agentsched up` or `agentsched worker`.")


def _unserved(pending: Mapping[str, int], present: Iterable[Worker]) -> Iterator[Finding]:
    served = {harness for worker in present for harness in worker.harnesses}
    for harness in sorted(pending.keys() - served):
        yield Finding(
            "harness",
            State.PROBLEM,
            f"{pending[harness]} tasks wait for {harness}, which no worker serves",
            f"Start a worker that serves {harness}, or give those conversations another agent.",
        )
