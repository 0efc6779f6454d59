"""The tick as arq's cron job, and arq's wake-ups: hints that may be lost, doubled or late (DESIGN §6, §15)."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from datetime import UTC, timedelta
from signal import SIGTERM
from typing import Any

import structlog
from arq.connections import ArqRedis
from arq.cron import cron
from arq.worker import Worker, func

from agentsched.service import tick
from agentsched.settings import Settings
from agentsched.store import clock
from agentsched.store.database import Database
from agentsched.worker.redis import dump_job, load_job
from agentsched.worker.waker import WAKE_JOB, WAKE_QUEUE, ProcessWaker

log = structlog.get_logger()

TICK_QUEUE = "agentsched:tick"
TICK_JOB = "tick"

TICK_SECONDS = 300
"""A tick that takes longer is cut off; the next one goes on from what it has committed."""

POLL_TICK_SECONDS = 0.25
POLL_WAKE_SECONDS = 0.1

TICKS_AT_ONCE = 2
"""One that hangs does not keep the next minute's from starting."""

STOP_SECONDS = 2.0
"""How long a poll and a tick may take to end before they are cancelled."""

CANCEL_AGAIN_SECONDS = 0.05

EARLY = timedelta(seconds=5)
"""A host's clock that is ahead by no more than this is waited for, so that the tick finds its minute due."""


class ArqLoop:
    """One arq worker on one queue, for as long as Redis is there."""

    def __init__(self, make_worker: Callable[[], Worker]) -> None:
        self._make_worker = make_worker

    async def run_once(self) -> None:
        """Work until cancelled. Raises redis' error when Redis goes away, after which the loop can be run again."""
        worker = self._make_worker()
        loop = worker.main_task = asyncio.create_task(worker.main())
        try:
            # Not by awaiting it: redis-py can swallow a cancellation, and would swallow ours with it.
            await asyncio.wait([loop])
        except asyncio.CancelledError:
            # arq knows no stop, but in a burst of no jobs it ends after the poll that it is at.
            worker.burst, worker.max_burst_jobs = True, 0
            await asyncio.wait([loop], timeout=STOP_SECONDS)
            while not loop.done():
                worker.handle_sig(SIGTERM)
                await asyncio.wait([loop], timeout=CANCEL_AGAIN_SECONDS)
            raise
        finally:
            # Not Worker.close(), which closes the pool that others use. A tick outlives the connection it came over.
            await asyncio.gather(loop, *worker.tasks.values(), return_exceptions=True)
        error = None if loop.cancelled() else loop.exception()
        raise error or ConnectionError("arq's loop has ended")


class Ticker:
    """Runs ``service.tick`` at second 0 of every minute. ``seconds`` are the seconds of the minute at which it does."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        redis: ArqRedis,
        waker: ProcessWaker,
        *,
        seconds: Collection[int] = (0,),
    ) -> None:
        self._db = db
        self._settings = settings
        self._redis = redis
        self._waker = waker
        self._seconds = set(seconds)
        self._arq = ArqLoop(self.arq_worker)

    async def run_once(self) -> None:
        """Tick until cancelled. Raises redis' error when Redis goes away."""
        await self._arq.run_once()

    async def tick(self) -> None:
        """One whole tick. Raises the database's error when it is away."""
        await self._await_the_minute()
        report = await tick.tick(self._db, self._settings)
        if report.fired or report.reaped or report.started:
            self._waker.wake()

    def arq_worker(self) -> Worker:
        job = cron(
            _job(TICK_JOB, self.tick),
            name=TICK_JOB,
            second=self._seconds,
            timeout=TICK_SECONDS,
            max_tries=1,
            keep_result=0,
        )
        return _worker(self._redis, TICK_QUEUE, cron_jobs=[job], max_jobs=TICKS_AT_ONCE, poll_delay=POLL_TICK_SECONDS)

    async def _await_the_minute(self) -> None:
        async with self._db.begin() as conn:
            now = await clock.now(conn)
        minute = now.replace(second=0, microsecond=0) + tick.MINUTE
        if minute - now <= EARLY:
            await asyncio.sleep((minute - now).total_seconds())


class WakeJobs:
    """Takes wake-ups from arq's queue."""

    def __init__(self, redis: ArqRedis, waker: ProcessWaker) -> None:
        self._redis = redis
        self._waker = waker
        self._arq = ArqLoop(self.arq_worker)

    async def run_once(self) -> None:
        """Take wake-ups until cancelled. Raises redis' error when Redis goes away."""
        await self._arq.run_once()

    async def wake(self) -> None:
        self._waker.wake_local()

    def arq_worker(self) -> Worker:
        job = func(_job(WAKE_JOB, self.wake), name=WAKE_JOB, timeout=1, max_tries=1, keep_result=0)
        return _worker(self._redis, WAKE_QUEUE, functions=[job], max_jobs=1, poll_delay=POLL_WAKE_SECONDS)


def _job(name: str, do: Callable[[], Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    async def job(_: dict[Any, Any]) -> None:
        try:
            await do()
        except Exception as error:
            log.warning("job.failed", job=name, error=repr(error))

    return job


def _worker(redis: ArqRedis, queue: str, **given: Any) -> Worker:
    return Worker(
        redis_pool=redis,
        queue_name=queue,
        handle_signals=False,
        keep_result=0,
        retry_jobs=False,
        log_results=False,
        job_serializer=dump_job,
        job_deserializer=load_job,
        timezone=UTC,
        **given,
    )
