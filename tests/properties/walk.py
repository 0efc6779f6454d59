"""One walk: how a step is taken and checked, and what there is to take a step with."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine

from agentsched.core.problems import Refused
from agentsched.core.words import LIVE_SCHEDULE, TaskStatus
from agentsched.service import finish
from agentsched.service.errors import Conflict, NotFound, StaleVersion, TooMany, UnknownToken
from agentsched.service.settle import Report
from tests.properties import draws
from tests.properties.invariants import check_state
from tests.properties.model import Model, Step
from tests.properties.snapshot import Row, Snapshot
from tests.properties.transitions import check_step
from tests.properties.world import World

T = TypeVar("T")

REFUSALS = (Refused, NotFound, Conflict, StaleVersion, TooMany, UnknownToken, finish.StaleFence, finish.NotAskedToStop)
"""What a service may say no with."""


class Held(NamedTuple):
    """A task as a worker has claimed it, whoever owns it by now."""

    task_id: int
    fence: int
    worker: str


class Walk(RuleBasedStateMachine):
    """A walk without rules."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.model = Model()
        self.claims: list[Held] = []
        self.lost: set[Held] = set()
        self.tokens: list[tuple[int, str]] = []
        """Of webhooks, with their schedules."""
        self.seen: Snapshot

    def begin(self, now: datetime) -> None:
        self.world.reset(now)
        self.world.conversation()
        self.world.conversation()
        self.seen = self.world.snapshot()

    def ask(self, name: str, work: Coroutine[Any, Any, object], **about: Any) -> Exception | None:
        """Ask a service for one thing, and check everything; what it said no with, if it did."""
        return self.do(name, lambda: self.world.call(work), **about)

    def do(self, name: str, work: Callable[[], object], **about: Any) -> Exception | None:
        """Do one thing, and check everything. ``about`` are further fields of the step."""
        refused = None
        try:
            work()
        except REFUSALS as refusal:
            refused = refusal
        assert refused is None or name != "jump", refused
        before, self.seen = self.seen, self.world.snapshot()
        step = Step(name, refused=refused, **about)
        note(f"{self.seen.now:%d %H:%M:%S} {step}")
        check_step(step, before, self.seen, self.model)
        self.model.follow(step, before, self.seen)
        check_state(self.seen, self.model)
        self.world.remember(step, before, self.seen)
        return refused

    def report(self, held: Held, report: Report) -> Exception | None:
        """What the worker that has claimed a task says of its end."""
        db, settings = self.world.db, self.world.settings
        work = finish.report(db, settings, task_id=held.task_id, fence=held.fence, report=report)
        return self.ask(report.end.value, work)

    def release(self, held: Held) -> Exception | None:
        work = finish.release(self.world.db, self.world.settings, task_id=held.task_id, fence=held.fence)
        return self.ask("release", work)

    def beat(self, held: Held) -> Exception | None:
        work = finish.heartbeat(self.world.db, self.world.settings, task_id=held.task_id, fence=held.fence)
        return self.ask("heartbeat", work)

    def go_to(self, now: datetime, *, beating: bool) -> None:
        """Set the clock, and let the workers that are not lost be heard."""
        self.do("jump", lambda: self.world.call(self._go_to(now, beating)))

    async def _go_to(self, now: datetime, beating: bool) -> None:
        await self.world.clock.freeze(now)
        for held in self.held():
            if beating and held not in self.lost:
                await finish.heartbeat(self.world.db, self.world.settings, task_id=held.task_id, fence=held.fence)

    def all_schedules(self) -> list[Row]:
        return list(self.seen.schedules.values())

    def live_schedules(self) -> list[Row]:
        return [schedule for schedule in self.all_schedules() if schedule.status in LIVE_SCHEDULE]

    def live_conversations(self) -> list[Row]:
        """Those of people, not those that runs were given."""
        return [c for c in self.seen.conversations.values() if c.deleted_at is None and c.run_id is None]

    def fires(self) -> list[datetime]:
        """When active schedules fire next, the earliest first."""
        return sorted(s.next_fire_at for s in self.all_schedules() if s.next_fire_at is not None)

    def held(self) -> list[Held]:
        """Claims that are current."""
        return [held for held in self.claims if self.is_current(held)]

    def zombies(self) -> list[Held]:
        """Claims that are not any more."""
        return [held for held in self.claims if not self.is_current(held)]

    def is_current(self, held: Held) -> bool:
        task = self.seen.tasks[held.task_id]
        return bool(task.status == TaskStatus.RUNNING and task.fence == held.fence)

    def next_claimable(self) -> int | None:
        """The task that the next claim has to take first (DESIGN §7 and its fine print)."""
        now, busy = self.seen.now, {c.id for c in self.seen.conversations.values() if c.active_task_id is not None}
        pending = [
            (task.priority, task.due_at, task.id)
            for task in self.seen.tasks.values()
            if task.status == TaskStatus.PENDING
            and task.conversation_id not in busy
            and (task.start_deadline_at is None or task.start_deadline_at > now)
        ]
        return min(pending)[2] if pending else None

    def with_end(self, fields: draws.Fields) -> draws.Fields:
        """Fields with ``ends_at`` told from the clock's now."""
        minutes = fields.get("ends_in_minutes")
        rest = {name: value for name, value in fields.items() if name != "ends_in_minutes"}
        return rest if minutes is None else rest | {"ends_at": self.seen.now + timedelta(minutes=minutes)}


def pick(things: Sequence[T], which: int) -> T:
    """One of the things that are there, the newest for 0."""
    return things[-1 - which % len(things)]
