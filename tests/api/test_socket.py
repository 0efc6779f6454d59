"""The API behind a real server on a real socket."""

import asyncio
import socket

import httpx
import pytest
import uvicorn

from agentsched.api.app import create_app
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import CountingWaker, key_of

pytestmark = pytest.mark.anyio


async def test_a_schedule_is_created_over_a_socket(db: Database, settings: Settings) -> None:
    key = await key_of(db, "ada")
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(db, settings, CountingWaker()), log_config=None))
    serving = asyncio.create_task(server.serve([listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        # The socket listens already: the first request waits for the server, however long it takes to start.
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            owner = await steps.conversation(client)
            made = await steps.schedule(client, owner, every="1h")
            assert (await client.get(f"/v1/schedules/{made['id']}")).json() == made
            steps.problem(await client.get("/v1/schedules/%ff%00"), 404)
            steps.problem(await client.get("/v1/tasks/1", headers={"Authorization": "Bearer x"}), 401)
            big = await client.post("/v1/conversations", content=b"x" * 2_000_000)
            steps.problem(big, 415 if big.status_code == 415 else 413)
    finally:
        server.should_exit = True
        await serving
        listener.close()
