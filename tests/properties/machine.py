"""The state machine: what people, workers and time do to a few schedules, in any order (DESIGN §4 to §10).

Each step goes through the real services. Afterwards the state is read, compared with the one before it and with the
model, and everything that has to hold is checked. There are few rules with many variants, because a walk leaves out
some rules at random: the common things, fires and work, have two.
"""

from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from agentsched.core.attempt import End
from agentsched.core.words import LIVE_SCHEDULE, Misfire, RunStatus, ScheduleStatus, TaskStatus
from agentsched.runners.protocol import Entry
from agentsched.service import backfills, claim, conversations, hooks, lifecycle, requeue, schedules, tick, update
from agentsched.service.cancel_run import cancel_run
from agentsched.service.errors import Conflict, NotFound, StaleVersion, UnknownToken
from agentsched.service.finish import StaleFence
from agentsched.service.requests import BackfillRequest, NewMessage, NewSchedule, SchedulePatch
from agentsched.service.settle import Report
from tests.people import HARNESS
from tests.properties import draws
from tests.properties.draws import PICKS
from tests.properties.snapshot import has_ended
from tests.properties.walk import Held, Walk, pick

CONVERSATIONS, SCHEDULES = 3, 4
"""How many live ones there are at most."""

DUE = st.sampled_from([False, False, True])
"""Whether a slot has come due that no tick has fired yet."""
BEATING = st.sampled_from([True, True, True, False])
ENDS = st.sampled_from(
    ["complete", "complete", "complete", "fail", "fail", "fail for good", "stopped", "release", "lose", "beat", "beat"]
)


class Machine(Walk):
    """All that may happen."""

    @initialize(now=draws.STARTS, first=st.lists(draws.new_schedules(), min_size=1, max_size=3))
    def start(self, now: datetime, first: list[draws.Fields]) -> None:
        self.begin(now)
        for fields in first:
            self.create(where=0, fields=fields)

    # What people do.

    @precondition(lambda self: len(self.live_schedules()) < SCHEDULES)
    @rule(where=PICKS, fields=draws.new_schedules())
    def create(self, where: int, fields: draws.Fields) -> None:
        request = NewSchedule.model_validate(self.with_end(fields))
        owner, created = pick(self.live_conversations(), where).id, list[schedules.Created]()
        work = schedules.create(*self.world.parts, owner, request)
        self.do("create", lambda: created.append(self.world.call(work)))
        self.tokens += [(made.row.id, made.token) for made in created if made.token is not None]

    @precondition(lambda self: self.live_schedules())
    @rule(which=PICKS, fields=draws.patches(), stale=st.sampled_from([False, False, False, True]), due=DUE)
    def update(self, which: int, fields: draws.Fields, stale: bool, due: bool) -> None:
        db, settings, caller = self.world.parts
        self.come_due(due)
        schedule = pick(self.live_schedules(), which)
        patch = SchedulePatch.model_validate(self.with_end(fields))
        work = update.update(db, settings, caller, schedule.id, patch, version=schedule.version - stale)
        refused = self.ask("update", work)
        assert isinstance(refused, StaleVersion) == stale
        assert not isinstance(refused, Conflict | NotFound)

    @precondition(lambda self: self.live_schedules())
    @rule(which=PICKS, note=st.sampled_from([None, "holidays"]), due=DUE)
    def pause(self, which: int, note: str | None, due: bool) -> None:
        self.come_due(due)
        schedule = pick(self.live_schedules(), which)
        assert self.ask("pause", lifecycle.pause(self.world.db, self.world.caller, schedule.id, note=note)) is None

    @precondition(lambda self: any(s.status == ScheduleStatus.PAUSED for s in self.live_schedules()))
    @rule(which=PICKS, catch_up=st.sampled_from([None, Misfire.LATEST, Misfire.ALL]))
    def resume(self, which: int, catch_up: Misfire | None) -> None:
        db, settings, caller = self.world.parts
        schedule = pick([s for s in self.live_schedules() if s.status == ScheduleStatus.PAUSED], which)
        work = lifecycle.resume(db, settings, caller, schedule.id, catch_up=catch_up)
        refused = self.ask("resume", work, catch_up=catch_up)
        assert refused is None or catch_up is Misfire.ALL

    @precondition(lambda self: self.seen.schedules)
    @rule(which=PICKS, key=st.sampled_from([None, None, "a"]))
    def run_now(self, which: int, key: str | None) -> None:
        schedule = pick(self.all_schedules(), which)
        refused = self.ask("run_now", lifecycle.run_now(*self.world.parts, schedule.id, key=key))
        assert refused is None or schedule.id not in {live.id for live in self.live_schedules()}

    @precondition(lambda self: self.seen.schedules)
    @rule(which=PICKS, how=st.sampled_from(["cancel", "cancel and stop", "pause", "resume"]), due=DUE)
    def end_or_ask_the_ended(self, which: int, how: str, due: bool) -> None:
        db, settings, caller = self.world.parts
        self.come_due(due)
        schedule = pick(self.all_schedules(), which)
        if schedule.status in LIVE_SCHEDULE or how.startswith("cancel"):
            stop = how == "cancel and stop"
            refused = self.ask("cancel", lifecycle.cancel(db, caller, schedule.id, stop_running=stop))
            assert (refused is None) == (schedule.status != ScheduleStatus.COMPLETED)
        elif how == "pause":
            assert isinstance(self.ask("pause", lifecycle.pause(db, caller, schedule.id)), Conflict)
        else:
            assert isinstance(self.ask("resume", lifecycle.resume(db, settings, caller, schedule.id)), Conflict)

    @precondition(lambda self: self.seen.runs)
    @rule(which=PICKS, ended=st.sampled_from([False, False, False, True]))
    def cancel_run(self, which: int, ended: bool) -> None:
        db, settings, caller = self.world.parts
        runs = [run for run in self.seen.runs.values() if has_ended(run) == ended]
        if runs:
            refused = self.ask("cancel_run", cancel_run(db, settings, caller, pick(runs, which).id))
            assert isinstance(refused, Conflict) if ended else refused is None

    @precondition(lambda self: any(run.status == RunStatus.FAILED for run in self.seen.runs.values()))
    @rule(which=PICKS, how=st.sampled_from(["requeue", "requeue", "discard"]))
    def deal_with_a_dead_letter(self, which: int, how: str) -> None:
        db, settings, caller = self.world.parts
        run = pick([run for run in self.seen.runs.values() if run.status == RunStatus.FAILED], which)
        if how == "discard":
            assert self.ask("discard", requeue.discard(db, caller, run.id)) is None
        else:
            self.ask("requeue", requeue.requeue(db, settings, caller, run.id))

    @precondition(lambda self: self.tokens)
    @rule(which=PICKS, key=st.sampled_from([None, None, None, "a", "b"]), times=st.integers(1, 3))
    def deliver(self, which: int, key: str | None, times: int) -> None:
        (schedule_id, token), delivery = pick(self.tokens, which), hooks.Delivery(b"{}", "application/json", key)
        schedule = self.seen.schedules[schedule_id]
        for _ in range(times):
            refused = self.ask("deliver", hooks.accept(self.world.db, self.world.settings, token, delivery))
            gone = self.seen.conversations[schedule.conversation_id].deleted_at is not None
            assert isinstance(refused, UnknownToken) == gone

    @precondition(lambda self: self.seen.schedules)
    @rule(
        which=PICKS,
        minutes=st.sampled_from([15, 15, 45, 200]),
        until=st.sampled_from([0, 0, 0, 7, -20]),
        reprocess=st.sampled_from(["missing", "missing", "failed", "all"]),
        confirm=st.booleans(),
    )
    def backfill(self, which: int, minutes: int, until: int, reprocess: str, confirm: bool) -> None:
        db, settings, caller = self.world.parts
        schedule = pick(self.all_schedules(), which)
        to = self.seen.now - timedelta(minutes=until)
        request = BackfillRequest.model_validate(
            {"from": to - timedelta(minutes=minutes), "to": to, "reprocess": reprocess, "confirm": confirm}
        )
        work = backfills.make(db, settings, caller, schedule.id, request)
        self.ask("backfill", work, schedule_id=schedule.id, backfill=request)

    @precondition(lambda self: self.seen.backfills)
    @rule(which=PICKS, stop_running=st.booleans())
    def cancel_backfill(self, which: int, stop_running: bool) -> None:
        db, settings, caller = self.world.parts
        backfill = pick(list(self.seen.backfills.values()), which)
        self.ask("cancel_backfill", backfills.cancel(db, settings, caller, backfill.id, stop_running=stop_running))

    @rule(where=PICKS, how=st.sampled_from(["say", "say", "open", "delete"]))
    def converse(self, where: int, how: str) -> None:
        db, settings, caller = self.world.parts
        live = self.live_conversations()
        conversation_id = pick(live, where).id
        if how == "open" and len(live) < CONVERSATIONS:
            self.do("open", self.world.conversation)
        elif how == "delete" and len(live) == CONVERSATIONS:
            assert self.ask("delete", conversations.delete(db, caller, conversation_id)) is None
        else:
            message = NewMessage(text="hello")
            assert self.ask("say", conversations.say(db, settings, caller, conversation_id, message)) is None

    # What time does.

    @rule(by=draws.JUMPS, beating=BEATING, then=st.sampled_from(["tick", "tick", "sweep", "nothing"]))
    def pass_time(self, by: timedelta, beating: bool, then: str) -> None:
        self.go_to(self.seen.now + by, beating=beating)
        if then == "tick":
            self.ask("tick", tick.tick(self.world.db, self.world.settings))
        elif then == "sweep":
            self.ask("sweep", tick.sweep(self.world.db, self.world.settings))

    @precondition(lambda self: self.fires())
    @rule(beating=BEATING, late=st.sampled_from([0, 0, 1, 59, 200]))
    def come_to_the_next_fire(self, beating: bool, late: int) -> None:
        self.go_to(max(self.seen.now, self.fires()[0] + timedelta(seconds=late)), beating=beating)
        self.ask("tick", tick.tick(self.world.db, self.world.settings))

    def come_due(self, due: bool) -> None:
        if due and self.fires():
            self.go_to(max(self.seen.now, self.fires()[0]), beating=True)

    @precondition(lambda self: self.fires())
    @rule(ends=st.lists(st.one_of(st.none(), ENDS), min_size=1, max_size=5))
    def go_on(self, ends: list[str | None]) -> None:
        """As on an ordinary day: fires, and a worker that takes what there is, unless it is busy (None)."""
        for end in ends:
            if self.fires():
                self.come_to_the_next_fire(beating=True, late=0)
            if end is not None:
                self.work([end])

    # What workers do.

    @rule(worker=st.sampled_from(["w1", "w2", "w3"]), how_many=st.integers(1, 3))
    def claim(self, worker: str, how_many: int) -> None:
        db, settings, _ = self.world.parts
        first, claimed = self.next_claimable(), list[claim.Claimed]()
        work = claim.claim(db, settings, worker=worker, harnesses=[HARNESS], max_tasks=how_many)
        self.do("claim", lambda: claimed.extend(self.world.call(work)))
        self.claims += [Held(one.id, one.fence, worker) for one in claimed]
        running = sum(task.status == TaskStatus.RUNNING for task in self.seen.tasks.values())
        assert running <= settings.running_per_principal
        if claimed:
            assert first in [one.id for one in claimed], "the line of claims is not in order"
        else:
            assert first is None or running == settings.running_per_principal

    @rule(ends=st.lists(ENDS, min_size=1, max_size=3))
    def work(self, ends: list[str]) -> None:
        for end in ends:
            had = set(self.held())
            self.claim(worker="w1", how_many=1)
            for new in set(self.held()) - had:
                self.end(new, end)

    @precondition(lambda self: self.held())
    @rule(which=PICKS, end=ENDS)
    def end_what_is_held(self, which: int, end: str) -> None:
        self.end(pick(self.held(), which), end)

    def end(self, held: Held, end: str) -> None:
        refused: Exception | None = None
        match end:
            case "complete":
                done = [Entry("assistant", "done")]
                refused = self.report(held, Report(End.COMPLETED, entries=done, usage={"output_tokens": 7}))
            case "fail" | "fail for good":
                retryable = end == "fail"
                refused = self.report(held, Report(End.FAILED, error_code="error", error="x", retryable=retryable))
            case "stopped":
                asked = self.seen.tasks[held.task_id].cancel_requested_at is not None
                assert (self.report(held, Report(End.STOPPED)) is None) == asked
            case "release":
                refused = self.release(held)
            case "lose":
                self.lost.add(held)
            case "beat":
                refused = self.beat(held)
            case _:
                raise AssertionError(f"no end {end}")
        assert refused is None

    @precondition(lambda self: self.zombies())
    @rule(which=PICKS, end=st.sampled_from([End.COMPLETED, End.FAILED, End.STOPPED, "release", "beat"]))
    def report_as_a_zombie(self, which: int, end: End | str) -> None:
        zombie = pick(self.zombies(), which)
        if isinstance(end, End):
            refused = self.report(zombie, Report(end, error="too late"))
        else:
            refused = self.release(zombie) if end == "release" else self.beat(zombie)
        assert isinstance(refused, StaleFence)
