"""The API behind a real server on a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn

from agentsched.api.app import create_app
from agentsched.core.hook_body import MAX_BODY_BYTES
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import CountingWaker, key_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(db: Database, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A server, and a client of Ada's."""
    key = await key_of(db, "ada")
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(db, settings, CountingWaker()), log_config=None))
    running = asyncio.create_task(server.serve([listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        # The socket listens already: the first request waits for the server, however long it takes to start.
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        await running
        listener.close()


async def test_a_schedule_is_created_over_a_socket(db: Database, settings: Settings) -> None:
    async with serving(db, settings) as client:
        owner = await steps.conversation(client)
        made = await steps.schedule(client, owner, every="1h")
        assert (await client.get(f"/v1/schedules/{made['id']}")).json() == made
        steps.problem(await client.get("/v1/schedules/%ff%00"), 404)
        steps.problem(await client.get("/v1/tasks/1", headers={"Authorization": "Bearer x"}), 401)
        big = await client.post("/v1/conversations", content=b"x" * 2_000_000)
        steps.problem(big, 415 if big.status_code == 415 else 413)


async def test_a_chunked_delivery(db: Database, settings: Settings) -> None:
    async with serving(db, settings) as client:
        made = await steps.schedule(client, await steps.conversation(client), webhook=True)

        async def chunks() -> AsyncIterator[bytes]:
            yield b'{"n":'
            yield b" 1}"

        taken = await client.post(made["webhook_url"], content=chunks(), headers={"content-type": "application/json"})
        assert (taken.status_code, taken.request.headers["transfer-encoding"]) == (202, "chunked")


async def test_a_chunked_delivery_that_goes_on_is_cut_off(db: Database, settings: Settings) -> None:
    async with serving(db, settings) as client:
        made = await steps.schedule(client, await steps.conversation(client), webhook=True)
        head = (
            f"POST {made['webhook_url']} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            "transfer-encoding: chunked\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(head.encode() + f"{MAX_BODY_BYTES + 1:x}\r\n".encode() + b" " * (MAX_BODY_BYTES + 1) + b"\r\n")
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close\r\n" in answer.lower()
        assert b'"code":"body_too_large"' in answer
        assert (await client.get("/v1/runs")).json()["items"] == []
