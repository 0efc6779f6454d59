"""Keep a background duty going, whatever happens to the things it depends on."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger()


def jittered(seconds: float) -> float:
    """About so many seconds, so that the processes of an installation do not act in step."""
    return seconds * random.uniform(0.8, 1.2)


def backoff(failures: int, *, first: float, most: float) -> float:
    """Seconds to wait after so many failures in a row: doubled each time, with jitter."""
    return jittered(min(first * 2 ** min(failures - 1, 16), most))


async def supervise(duty: str, run_once: Callable[[], Awaitable[object]], *, pause: float, most: float) -> None:
    """Run a duty again and again until cancelled, ``pause`` seconds apart.

    After a failure, which is logged and disturbs nobody else, the pause doubles up to ``most`` seconds, and is back at
    ``pause`` after the next success or after a run that lasted longer than ``most``. A cancellation ends it also when
    the duty has made an error of it, as network clients do.
    """
    loop = asyncio.get_running_loop()
    failures = 0
    while True:
        began = loop.time()
        try:
            await run_once()
            failures = 0
        except Exception as error:
            if _is_cancelled():
                raise asyncio.CancelledError from error
            failures = 1 if loop.time() - began > most else failures + 1
            log.warning("duty.failed", duty=duty, error=repr(error), failures=failures)
        await asyncio.sleep(backoff(max(failures, 1), first=pause, most=most))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
