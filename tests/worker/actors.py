"""Runners that behave as a test wants."""

import asyncio
from collections.abc import Callable

from agentsched.runners.protocol import Assignment, Entry, Outcome, Runner


def said(text: str) -> Outcome:
    return Outcome((Entry("assistant", text),), text, {"requests": 1})


class Gated:
    """Tells when it has begun, and answers ``done`` when it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.assignments: list[Assignment] = []

    async def run(self, assignment: Assignment) -> Outcome:
        self.assignments.append(assignment)
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return said("done")


class Stubborn:
    """Swallows every cancellation until it is let go, and then brings a result."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = asyncio.Event()

    async def run(self, _: Assignment) -> Outcome:
        self.begun.set()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
        self.ended.set()
        return said("too late")


class Answering:
    """Does what a function of the assignment does."""

    def __init__(self, answer: Callable[[Assignment], Outcome]) -> None:
        self._answer = answer

    async def run(self, assignment: Assignment) -> Outcome:
        return self._answer(assignment)


def only(runner: Runner) -> Callable[[], Runner]:
    """A factory that always gives this one."""
    return lambda: runner
