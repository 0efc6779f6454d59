"""Executors that are closed after each test, and a redis-server where there is one."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker.executor import Executor
from agentsched.worker.waker import ProcessWaker
from tests import people
from tests.clock import Clock
from tests.worker.outage import Watched
from tests.worker.redis_server import RedisServer
from tests.worker.scene import Runners, Scene

MakeExecutor = Callable[..., Executor]


@pytest.fixture
async def scene(db: Database, settings: Settings, clock: Clock) -> Scene:
    return await Scene(db, settings, clock).begin()


@pytest.fixture
async def waker(db: Database) -> AsyncIterator[ProcessWaker]:
    waker = ProcessWaker(db)
    yield waker
    await waker.close()


@pytest.fixture
async def executor_for(db: Database, settings: Settings, waker: ProcessWaker) -> AsyncIterator[MakeExecutor]:
    made: list[Executor] = []
    shared = db

    def make(runners: Runners | Any, *, name: str = "w1", db: Database | None = None, **changed: object) -> Executor:
        factories = runners if isinstance(runners, dict) else {people.HARNESS: lambda: runners}
        executor = Executor(db or shared, settings.model_copy(update=changed), waker, name=name, runners=factories)
        made.append(executor)
        return executor

    yield make
    for executor in made:
        await executor.close()


@pytest.fixture
async def background() -> AsyncIterator[Callable[[Awaitable[Any]], "asyncio.Task[Any]"]]:
    """Tasks that end with the test."""
    started: list[asyncio.Task[Any]] = []

    def start(work: Any) -> "asyncio.Task[Any]":
        started.append(asyncio.create_task(work))
        return started[-1]

    yield start
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


@pytest.fixture
async def watched_db(db: Database, database_url: str) -> AsyncIterator[Watched]:
    watched = Watched(database_url)
    yield watched
    await watched.close()


@pytest.fixture
async def redis_server() -> AsyncIterator[RedisServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("there is no redis-server on the PATH (Debian: apt-get install redis-server)")
    server = RedisServer()
    await server.start()
    yield server
    await server.close()
