"""Tell this process at once, and the others a moment later, that there may be work (DESIGN §6)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog
from arq.connections import ArqRedis
from sqlalchemy import text

from agentsched.store.database import Database

log = structlog.get_logger()

CHANNEL = "agentsched_wake"
WAKE_QUEUE = "agentsched:wake"
WAKE_JOB = "wake"

FLUSH_SECONDS = 0.02
SEND_SECONDS = 5.0
"""A wake-up that takes longer than this has failed; the next one tries again."""

JOB_SECONDS = 60
"""A wake-up that no worker has taken by then is forgotten."""

_NOTIFY = text(f"NOTIFY {CHANNEL}")


class ProcessWaker:
    """A ``service.waking.Waker`` for one process: local events at once, one ``NOTIFY`` for many calls.

    With a ``redis`` that other processes share, an arq job goes to its own queue as well: the way to wake a worker
    where LISTEN does not work. ``failures`` counts the wake-ups that were not sent. Belongs to one event loop.
    """

    def __init__(self, db: Database, redis: ArqRedis | None = None, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        self.failures = 0
        self._events: list[asyncio.Event] = []
        self._db = db.apart()
        self._redis = redis
        self._senders = [Coalesced(self._notify, flush_seconds)]
        if redis is not None:
            self._senders.append(Coalesced(self._enqueue, flush_seconds))

    def subscribe(self) -> asyncio.Event:
        """An event that every wake-up sets; whoever waits for it clears it."""
        event = asyncio.Event()
        self._events.append(event)
        return event

    def wake(self) -> None:
        self.wake_local()
        for sender in self._senders:
            sender.ask()

    def wake_local(self) -> None:
        """Wake this process only: what arrives from another one is not passed on."""
        for event in self._events:
            event.set()

    async def close(self) -> None:
        """Send what has been asked for, and close the connection."""
        for sender in self._senders:
            await sender.close()
        await self._db.close()

    async def _notify(self) -> None:
        async with self._counting("notify"), self._db.autocommit() as conn:
            await conn.execute(_NOTIFY)

    async def _enqueue(self) -> None:
        if self._redis is None:
            return
        async with self._counting("arq"):
            # One id for all: at most one wake-up waits in Redis, also while nobody takes it.
            await self._redis.enqueue_job(WAKE_JOB, _job_id=WAKE_QUEUE, _queue_name=WAKE_QUEUE, _expires=JOB_SECONDS)

    @contextlib.asynccontextmanager
    async def _counting(self, way: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                yield
        except Exception as error:
            self.failures += 1
            log.warning("wake.failed", way=way, error=repr(error), failures=self.failures)


class Coalesced:
    """Sends once for all that ask within the flush interval, and again for those who ask while it sends."""

    def __init__(self, send: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._send = send
        self._seconds = seconds
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def close(self) -> None:
        if self._task is not None:
            await self._task

    async def _flush(self) -> None:
        while self._asked:
            await asyncio.sleep(self._seconds)
            self._asked = False
            await self._send()
