"""One claimed task, from its claim to the report that the service accepts or refuses (DESIGN §9)."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, assert_never

import structlog

from agentsched.core.attempt import End
from agentsched.runners.protocol import Outcome, Runner, RunnerError
from agentsched.service.claim import Claimed
from agentsched.service.finish import StaleFence
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.worker import delivery
from agentsched.worker.delivery import LeaseGone
from agentsched.worker.heartbeat import Heartbeat
from agentsched.worker.history import read_assignment
from agentsched.worker.storable import storable_error, storable_outcome

log = structlog.get_logger()

UNWIND_SECONDS = 1.0
"""How long a runner that was cancelled for a shutdown may take to end before its task is handed back."""

RUNNER_ERROR = "runner_error"


class Cut(Enum):
    """Why an attempt is not waited for any longer."""

    TIMED_OUT = auto()
    STALE = auto()
    HANDED_BACK = auto()


class Attempt:
    """Runs one claimed task with its runner, keeps its lease, and reports its end.

    ``beats`` are connections for the heartbeats alone. ``claimed_at`` is when the claim was asked for, by the event
    loop's clock: from there the deadline counts, for hosts' wall clocks decide nothing.
    """

    def __init__(
        self,
        db: Database,
        beats: Database,
        settings: Settings,
        claimed: Claimed,
        make_runner: Callable[[], Awaitable[Runner]],
        *,
        claimed_at: float,
    ) -> None:
        self._db = db
        self._settings = settings
        self.task_id = claimed.id
        self._claimed = claimed
        self._make_runner = make_runner
        self._loop = asyncio.get_running_loop()
        self._cut: asyncio.Future[Cut] = self._loop.create_future()
        self._deadline = claimed_at + (claimed.deadline_at - claimed.claimed_at).total_seconds()
        self._stop_asked = False
        self.heartbeat = Heartbeat(
            beats, settings, claimed, claimed_at=claimed_at, on_stop=self._stop, on_stale=lambda: self._end(Cut.STALE)
        )
        self.turn = self._loop.create_task(self._run_turn(), name=f"task-{claimed.id}-fence-{claimed.fence}")
        """The runner's part. It may outlive the attempt when the runner does not let itself be cancelled."""
        self._log = log.bind(task_id=claimed.id, fence=claimed.fence, run_id=claimed.run_id)

    async def run(self) -> None:
        """Do the attempt and report its end. When it returns, the task is no longer this worker's."""
        timer = self._loop.call_at(self._deadline, self._end, Cut.TIMED_OUT)
        beating = self._loop.create_task(self.heartbeat.run())
        try:
            awaited: set[asyncio.Future[Any]] = {self.turn, self._cut}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            await self._finish()
        except StaleFence:
            self._log.warning("attempt.lost")
        except LeaseGone:
            self._log.warning("attempt.lease_gone")
        finally:
            timer.cancel()
            beating.cancel()
            self.turn.cancel()

    def hand_back(self) -> None:
        """The worker shuts down and waits no longer: cancel the runner and return the task."""
        self._end(Cut.HANDED_BACK)

    def _end(self, cut: Cut) -> None:
        if not self._cut.done():
            self._cut.set_result(cut)

    def _stop(self) -> None:
        """Ask the runner once; one that does not obey is left to the schedule's grace, the reaper and the deadline."""
        if not self._stop_asked:
            self._stop_asked = True
            self.turn.cancel()

    async def _finish(self) -> None:
        cut = self._cut.result() if self._cut.done() else None
        match cut:
            case None:
                await self._report(self._judge())
            case Cut.TIMED_OUT:
                self.turn.cancel()
                error = "the attempt took longer than it may (timeout_seconds)"
                await self._report(Report(End.TIMED_OUT, error_code="timeout", error=error))
            case Cut.STALE:
                raise StaleFence(self._claimed.id)
            case Cut.HANDED_BACK:
                await self._hand_back()
            case _:
                assert_never(cut)

    async def _hand_back(self) -> None:
        self.turn.cancel()
        await asyncio.wait({self.turn}, timeout=UNWIND_SECONDS)
        # What came to its end after all is no reason to do it all again.
        if self.turn.done() and not self.turn.cancelled() and self.turn.exception() is None:
            await self._report(self._judge())
        else:
            await delivery.release(self._db, self._settings, self.heartbeat, self._claimed)

    async def _report(self, ending: Report) -> None:
        await delivery.report(self._db, self._settings, self.heartbeat, self._claimed, ending)

    async def _run_turn(self) -> Outcome:
        assignment = await delivery.while_leased(self.heartbeat, lambda: read_assignment(self._db, self._claimed))
        runner = await self._make_runner()
        try:
            return storable_outcome(await runner.run(assignment))
        except SystemExit as error:
            # asyncio would end the whole process.
            raise RunnerError(RUNNER_ERROR, "The runner tried to end the worker's process.", retryable=True) from error

    def _judge(self) -> Report:
        """The report on a turn that has come to an end by itself."""
        if self.turn.cancelled():
            return Report(End.STOPPED) if self._stop_asked else _failed(RUNNER_ERROR, "The runner cancelled itself.")
        error = self.turn.exception()
        match error:
            case None:
                outcome = self.turn.result()
                return Report(End.COMPLETED, outcome.entries, outcome.result, outcome.usage)
            case RunnerError():
                return _failed(str(error.code), error.message, retryable=error.retryable)
            case LeaseGone():
                raise error
            case _:
                self._log.warning("runner.failed", exc_info=error)
                return _failed(RUNNER_ERROR, f"The runner failed with {type(error).__name__}: {error}")


def _failed(code: str, message: str, *, retryable: bool = True) -> Report:
    return Report(End.FAILED, error_code=storable_error(code), error=storable_error(message), retryable=retryable)
