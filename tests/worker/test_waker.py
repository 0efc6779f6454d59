"""Wake-ups: one NOTIFY for many, to every process, and nobody is harmed when they fail."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.store.database import Database
from agentsched.worker.listener import Listener
from agentsched.worker.supervise import supervise
from agentsched.worker.waker import CHANNEL, Coalesced, ProcessWaker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def elsewhere(db: Database) -> AsyncIterator[ProcessWaker]:
    """The waker of another process."""
    waker = ProcessWaker(db)
    yield waker
    await waker.close()


async def test_many_calls_become_one_notify(db: Database) -> None:
    waker = ProcessWaker(db)
    local = waker.subscribe()
    heard: asyncio.Queue[str] = asyncio.Queue()
    ears = db.apart(pool_size=0)
    async with ears.autocommit() as conn:
        driver: Any = (await conn.get_raw_connection()).driver_connection
        await driver.add_listener(CHANNEL, lambda *_: heard.put_nowait("wake"))
        await driver.add_listener("marker", lambda *_: heard.put_nowait("marker"))
        for _ in range(100):
            waker.wake()
        assert local.is_set()
        async with asyncio.timeout(10):
            assert await heard.get() == "wake"
        waker.wake()
        await waker.close()
        async with db.autocommit() as other:
            await other.execute(text("NOTIFY marker"))
        async with asyncio.timeout(10):
            assert [await heard.get(), await heard.get()] == ["wake", "marker"]
        await driver.reset()


async def test_what_is_asked_for_while_one_is_sent_is_sent_as_well() -> None:
    sent = 0
    sending, go = asyncio.Event(), asyncio.Event()

    async def send() -> None:
        nonlocal sent
        sent += 1
        sending.set()
        await go.wait()

    coalesced = Coalesced(send, 0)
    coalesced.ask()
    await sending.wait()
    coalesced.ask()
    coalesced.ask()
    go.set()
    await coalesced.close()
    assert sent == 2


async def test_failures_are_counted_and_not_raised() -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nothing")
    waker = ProcessWaker(nowhere)
    local = waker.subscribe()
    waker.wake()
    await waker.close()
    assert (waker.failures, local.is_set()) == (1, True)
    await nowhere.close()


async def test_other_processes_hear_and_a_listener_whose_connection_is_cut_listens_again(
    db: Database, waker: ProcessWaker, elsewhere: ProcessWaker, background: Any
) -> None:
    woken = waker.subscribe()
    listener = Listener(db, waker, lambda _: None)
    background(supervise("listen", listener.run_once, pause=0.05, most=0.5))
    async with asyncio.timeout(10):
        # It wakes its process whenever it begins to listen, for what it has not heard before.
        await woken.wait()
        for _ in range(2):
            woken.clear()
            elsewhere.wake()
            await woken.wait()

            woken.clear()
            async with db.autocommit() as conn:
                await conn.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
                    )
                )
            await woken.wait()
            assert listener.listening.is_set()
    await listener.close()


async def test_a_listener_that_cannot_listen_says_so_and_can_be_tried_again() -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nothing")
    waker = ProcessWaker(nowhere)
    listener = Listener(nowhere, waker, lambda _: None)
    for _ in range(2):
        with pytest.raises(OSError, match=r"Connect call failed|refused"):
            await listener.run_once()
    assert not listener.listening.is_set()
