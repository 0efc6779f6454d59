"""Claim tasks while there are free slots, and run them (DESIGN §9)."""

import asyncio
from asyncio.tasks import _unregister_task
from collections.abc import Callable, Mapping

import structlog

from agentsched.runners.protocol import Runner
from agentsched.service.claim import Claimed, claim
from agentsched.settings import Settings
from agentsched.store import workers
from agentsched.store.database import Database
from agentsched.worker.attempt import UNWIND_SECONDS, Attempt
from agentsched.worker.supervise import backoff, jittered
from agentsched.worker.waiting import set_within
from agentsched.worker.waker import ProcessWaker

log = structlog.get_logger()

HAND_BACK_SECONDS = 5.0
"""How long handing back may take in all; what is not handed back by then is left to the lease."""

CLAIM_AGAIN_SECONDS = 0.5
CLAIM_AGAIN_AT_MOST_SECONDS = 15.0


class Executor:
    """Runs up to ``settings.concurrency`` tasks of the harnesses that it has runners for."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        waker: ProcessWaker,
        *,
        name: str,
        runners: Mapping[str, Callable[[], Runner]],
    ) -> None:
        self._db = db
        self._beats = db.apart()
        self._settings = settings
        self._waker = waker
        self._name = name
        self._make = dict(runners)
        self._runners: dict[str, asyncio.Task[Runner]] = {}
        self._look = waker.subscribe()
        self._stopping = asyncio.Event()
        self._attempts: dict[asyncio.Task[None], Attempt] = {}
        self._leftovers: set[asyncio.Task[object]] = set()
        self._stops: set[int] = set()

    async def run(self) -> None:
        """Claim and run until stopped; then let tasks finish for ``shutdown_seconds`` and hand the rest back.

        Looks for work when woken, when a slot becomes free, and every ``sweep_seconds``. A database that is away is
        tried again.
        """
        failures = 0
        try:
            while not self._stopping.is_set():
                self._look.clear()
                try:
                    started = await self.run_once()
                    failures = 0
                except Exception as error:
                    failures += 1
                    log.warning("claim.failed", error=repr(error), failures=failures)
                    pause = backoff(failures, first=CLAIM_AGAIN_SECONDS, most=CLAIM_AGAIN_AT_MOST_SECONDS)
                    await set_within(self._stopping, pause)
                    continue
                if not started:
                    await set_within(self._look, jittered(self._settings.sweep_seconds))
            await self._drain()
        finally:
            await self.close()

    async def run_once(self) -> int:
        """Claim for the free slots and start what was claimed; how many. Raises the database's error."""
        self._stops.clear()
        free = self._settings.concurrency - len(self._attempts)
        if free <= 0:
            # Whoever is busy is still there: a harness of busy workers is served.
            async with self._db.begin() as conn:
                await workers.hear(conn, self._name, list(self._make))
            return 0
        asked_at = asyncio.get_running_loop().time()
        claimed = await claim(self._db, self._settings, worker=self._name, harnesses=list(self._make), max_tasks=free)
        for task in claimed:
            self._start(task, asked_at)
        return len(claimed)

    def hear_stop(self, task_id: int | None) -> None:
        """A task may have been asked to stop, any of them for None: its heartbeat asks at once."""
        if task_id is not None:
            # It may be of a claim that has been committed and not answered yet.
            self._stops.add(task_id)
        for attempt in self._attempts.values():
            if task_id in (None, attempt.task_id):
                attempt.heartbeat.beat_now()

    def stop(self) -> None:
        """Claim no more; ``run`` returns when the tasks have ended or are handed back."""
        self._stopping.set()
        self._look.set()

    async def wait_idle(self) -> None:
        """Until every task that has been started is reported, handed back or lost."""
        while self._attempts:
            await asyncio.wait(self._attempts)

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return len(self._attempts)

    def _start(self, claimed: Claimed, asked_at: float) -> None:
        attempt = Attempt(
            self._db,
            self._beats,
            self._settings,
            claimed,
            lambda: self._runner(claimed.agent.harness),
            claimed_at=asked_at,
        )
        task = asyncio.create_task(attempt.run())
        self._attempts[task] = attempt
        if claimed.id in self._stops:
            attempt.heartbeat.beat_now()
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        attempt = self._attempts.pop(task)
        self._leftovers.add(attempt.turn)
        attempt.turn.add_done_callback(self._left)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt.failed", exc_info=error)
        # The next in line may have started, the conversation is free, and so is a slot.
        self._waker.wake()

    def _left(self, turn: asyncio.Task[object]) -> None:
        """What a runner that was not waited for has come to in the end is of no interest to anybody."""
        self._leftovers.discard(turn)
        if not turn.cancelled():
            turn.exception()

    async def _runner(self, harness: str) -> Runner:
        """The harness's runner, made once and in a thread, for a provider's SDK takes seconds to import."""
        making = self._runners.get(harness)
        if making is None or (making.done() and (making.cancelled() or making.exception() is not None)):
            making = asyncio.create_task(asyncio.to_thread(self._make[harness]))
            self._runners[harness] = making
        return await asyncio.shield(making)

    async def _drain(self) -> None:
        if self._attempts:
            log.info("worker.finishing", tasks=len(self._attempts))
            await asyncio.wait(self._attempts, timeout=self._settings.shutdown_seconds)
        if self._attempts:
            log.info("worker.handing_back", tasks=len(self._attempts))
            for attempt in list(self._attempts.values()):
                attempt.hand_back()
            await asyncio.wait(self._attempts, timeout=HAND_BACK_SECONDS)

    async def close(self) -> None:
        """Cancel what still runs and leave it to its lease."""
        for task in list(self._attempts):
            task.cancel()
        if self._attempts:
            await asyncio.wait(self._attempts)
        await self._leave_behind()
        await self._beats.close()

    async def _leave_behind(self) -> None:
        if self._leftovers:
            await asyncio.wait(self._leftovers, timeout=UNWIND_SECONDS)
        for turn in self._leftovers:
            log.warning("runner.left_behind", turn=turn.get_name())
            # asyncio.run would wait for ever for a task that lets nobody cancel it.
            _unregister_task(turn)
