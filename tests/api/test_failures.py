"""Failures of ours: no details to the caller, no secrets to the log; a database that is away is a 503."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from httpx import AsyncClient
from litestar import Litestar
from sqlalchemy import text

from agentsched.api.app import create_app
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import CountingWaker, client_with, key_of

pytestmark = pytest.mark.anyio


class BrokenWaker:
    """Breaks the promise never to raise."""

    def wake(self) -> None:
        raise RuntimeError("a detail that nobody outside may see")


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as events:
        yield events


async def test_a_failure_shows_nothing_of_itself(db: Database, settings: Settings, logged: list[Any]) -> None:
    key = await key_of(db, "ada")
    app = create_app(db, settings, BrokenWaker())
    async with app.lifespan(), client_with(app, None) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        client.event_hooks = {}
        owner = await steps.conversation(client)

        answer = await client.post(f"/v1/conversations/{owner}/messages", json={"text": "hello"})

    details = steps.problem(answer, 500)
    assert details["code"] == "internal_error"
    assert "detail that nobody" not in answer.text
    assert "Traceback" not in answer.text
    [event] = logged
    assert (event["event"], event["route"]) == ("request_failed", "/v1/conversations/{conversation_id}/messages")
    assert "detail that nobody" in repr(event["exc_info"])
    assert key not in repr(event)


async def test_a_database_that_is_away_is_a_503(settings: Settings, db: Database, logged: list[Any]) -> None:
    key = await key_of(db, "ada")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        away = Database(f"postgresql://nobody@127.0.0.1:{listener.getsockname()[1]}/nothing")
        app = create_app(away, settings, CountingWaker())
        async with app.lifespan(), client_with(app, key) as client:
            for answer in (await client.get("/v1/conversations"), await client.get("/health/ready")):
                assert steps.problem(answer, 503)["code"] == "database_unavailable"
                assert int(answer.headers["retry-after"]) > 0
                assert "127.0.0.1" not in answer.text
            assert (await client.get("/health/live")).status_code == 200
        await away.close()
    assert {event["event"] for event in logged} == {"database_away"}


async def test_connections_that_the_server_ends_are_a_503_or_replaced(client: AsyncClient, db: Database) -> None:
    async with db.autocommit() as conn:
        await conn.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    answers = await asyncio.gather(*(client.get("/v1/conversations") for _ in range(5)))
    assert {answer.status_code for answer in answers} <= {200, 503}
    assert (await client.get("/v1/conversations")).status_code == 200


async def test_an_exhausted_pool_is_a_503(database_url: str, settings: Settings, db: Database) -> None:
    key = await key_of(db, "ada")
    small = Database(database_url, pool_size=1)
    small.engine.pool._timeout = 0.05  # type: ignore[attr-defined]  # not to wait for half a minute
    app = create_app(small, settings, CountingWaker())
    async with app.lifespan(), client_with(app, key) as client, small.begin(), small.begin():
        answer = await client.get("/v1/conversations")
    await small.close()
    assert steps.problem(answer, 503)["code"] == "database_unavailable"


async def test_an_outdated_schema_is_not_ready(app: Litestar, db: Database) -> None:
    async with db.begin() as conn:
        head = (await conn.execute(text("SELECT version_num FROM alembic_version"))).scalar_one()
        await conn.execute(text("UPDATE alembic_version SET version_num = 'older'"))
    try:
        async with client_with(app, None) as nobody:
            details = steps.problem(await nobody.get("/health/ready"), 503)
    finally:
        async with db.begin() as conn:
            await conn.execute(text("UPDATE alembic_version SET version_num = :head"), {"head": head})
    assert details["code"] == "schema_outdated"
    assert "agentsched migrate" in details["detail"]
