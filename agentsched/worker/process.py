"""A worker: all its duties in one event loop, alone or beside the API (DESIGN §6, §9, §14)."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping

import structlog
from arq.connections import ArqRedis

from agentsched.runners.protocol import Runner
from agentsched.service.tzdata import recompute_after_tzdata_change
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.collector import calm_collector
from agentsched.worker.executor import Executor
from agentsched.worker.listener import Listener
from agentsched.worker.pruner import PRUNE_SECONDS, Pruner
from agentsched.worker.redis import connect_redis
from agentsched.worker.supervise import supervise
from agentsched.worker.sweep import Sweep
from agentsched.worker.ticker import Ticker, WakeJobs
from agentsched.worker.waker import ProcessWaker

__all__ = ["ProcessWaker", "connect_redis", "run_worker", "worker_name"]

log = structlog.get_logger()


def worker_name() -> str:
    """A name that no other worker has, and that tells a person where to look: host, process id, random suffix."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


async def run_worker(
    settings: Settings,
    db: Database,
    *,
    runners: Mapping[str, Callable[[], Runner]],
    redis: ArqRedis | None,
    waker: ProcessWaker,
    stop: asyncio.Event,
    name: str,
    ready: asyncio.Event | None = None,
) -> None:
    """Tick, sweep, prune, listen and execute until ``stop`` is set; then finish or hand back what runs.

    Without a ``redis`` the sweep does the tick. Database, Redis and waker belong to the caller, who closes them
    afterwards. Raises the database's error when it is away at the start, and never because of it later.
    """
    await recompute_after_tzdata_change(db)
    calm_collector()
    executor = Executor(db, settings, waker, name=name, runners=runners)
    listener = Listener(db, waker, executor.hear_stop)
    duties = {
        "listen": supervise("listen", listener.run_once, pause=0.5, most=30),
        "sweep": supervise(
            "sweep",
            Sweep(db, settings, waker).run_once,
            pause=settings.sweep_seconds,
            most=settings.sweep_seconds,
        ),
        "prune": supervise("prune", Pruner(db, settings).run_once, pause=PRUNE_SECONDS, most=PRUNE_SECONDS),
    }
    if redis is not None:
        duties["tick"] = supervise("tick", Ticker(db, settings, redis, waker).run_once, pause=0.5, most=5)
    if redis is not None and settings.redis_url is not None:
        # On a Redis of its own a process hears nobody.
        duties["wake"] = supervise("wake", WakeJobs(redis, waker).run_once, pause=0.5, most=5)
    log.info("worker.started", worker=name, harnesses=sorted(runners), duties=sorted(duties))
    try:
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(duty, name=f"agentsched-{key}") for key, duty in duties.items()]
            group.create_task(executor.run(), name="agentsched-execute")
            if ready is not None:
                ready.set()
            await stop.wait()
            for task in background:
                task.cancel()
            executor.stop()
    finally:
        await listener.close()
    log.info("worker.stopped", worker=name)
