"""Play a scenario of the conformance cases against the real services on a real database with a frozen clock."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.core.attempt import End
from agentsched.core.problems import Refused
from agentsched.service import backfills, claim, finish, hooks, lifecycle, schedules, tick, update
from agentsched.service.caller import Caller
from agentsched.service.cancel_run import cancel_run
from agentsched.service.claim import Claimed
from agentsched.service.errors import Conflict
from agentsched.service.hooks import Delivery
from agentsched.service.requests import BackfillRequest, NewSchedule, SchedulePatch
from agentsched.service.schedules import get
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store import ledger
from agentsched.store.database import Database
from agentsched.store.ledger import RunRow
from tests import people
from tests.clock import Clock, at

Step = dict[str, Any]


class Scenario:
    """One schedule, and what happens to it step by step."""

    def __init__(self, db: Database, settings: Settings, clock: Clock) -> None:
        self.db, self.settings, self.clock = db, settings, clock
        self.caller: Caller
        self.schedule_id = 0
        self.token: str | None = None
        self.labels: dict[str, int] = {}
        self.held: dict[int, tuple[str, Claimed]] = {}
        self.lost: set[str] = set()

    async def begin(self, case: dict[str, Any]) -> None:
        await self.clock.freeze(case["created_at"])
        self.caller = await people.somebody(self.db)
        conversation_id = await people.conversation(self.db, self.settings, self.caller)
        fields: dict[str, Any] = {"cron": "*/5 * * * *", "timezone": "UTC", "mode": "fork", "timeout_seconds": 86400}
        if {"at", "every", "in", "webhook"} & case["schedule"].keys():
            del fields["cron"]
        request = NewSchedule.model_validate({"prompt": "x"} | fields | case["schedule"])
        made = await schedules.create(self.db, self.settings, self.caller, conversation_id, request)
        self.schedule_id, self.token = made.row.id, made.token

    async def step(self, step: Step) -> None:
        await self.clock.freeze(step["at"])
        for worker, claimed in list(self.held.values()):
            if worker not in self.lost:
                await self._beat(claimed)
        await self._actions()[step["do"]](step)

    def _actions(self) -> dict[str, Callable[[Step], Coroutine[Any, Any, None]]]:
        return {
            "tick": self._tick,
            "claim": self._claim,
            "complete": lambda step: self._report(step, Report(End.COMPLETED)),
            "fail": lambda step: self._report(step, Report(End.FAILED, error_code="error", error="it failed")),
            "fail_permanent": lambda step: self._report(
                step, Report(End.FAILED, error_code="error", error="it failed", retryable=False)
            ),
            "stopped": lambda step: self._report(step, Report(End.STOPPED)),
            "heartbeat": self._heartbeat,
            "lose_worker": self._lose_worker,
            "pause": self._pause,
            "resume": self._resume,
            "update": self._update,
            "cancel": self._cancel,
            "cancel_run": self._cancel_run,
            "run_now": self._run_now,
            "backfill": self._backfill,
            "webhook": self._webhook,
        }

    async def _tick(self, _: Step) -> None:
        await tick.tick(self.db, self.settings)

    async def _claim(self, step: Step) -> None:
        self.lost.discard(step["worker"])
        claimed = await claim.claim(
            self.db, self.settings, worker=step["worker"], harnesses=[people.HARNESS], max_tasks=1
        )
        assert len(claimed) == 1, "nothing could be claimed"
        run_id = claimed[0].run_id
        assert run_id is not None
        self.held[run_id] = (step["worker"], claimed[0])
        if "expect_run" in step:
            assert run_id == await self._run_id(step["expect_run"])

    async def _report(self, step: Step, report: Report) -> None:
        run_id = await self._run_id(step["run"])
        _, claimed = self.held[run_id]
        before = await self._run(run_id)
        if step.get("expect_refused"):
            try:
                await finish.report(self.db, self.settings, task_id=claimed.id, fence=claimed.fence, report=report)
            except finish.StaleFence:
                assert await self._run(run_id) == before
                return
            raise AssertionError("a late report was accepted")
        await finish.report(self.db, self.settings, task_id=claimed.id, fence=claimed.fence, report=report)
        del self.held[run_id]
        if "expect_retry_at" in step:
            assert (await self._run(run_id)).retry_at == at(step["expect_retry_at"])

    async def _heartbeat(self, step: Step) -> None:
        _, claimed = self.held[await self._run_id(step["run"])]
        beat = await finish.heartbeat(self.db, self.settings, task_id=claimed.id, fence=claimed.fence)
        assert beat.cancel_requested == step["expect_cancel_requested"]

    async def _beat(self, claimed: Claimed) -> None:
        try:
            await finish.heartbeat(self.db, self.settings, task_id=claimed.id, fence=claimed.fence)
        except finish.StaleFence:
            return

    async def _lose_worker(self, step: Step) -> None:
        self.lost.add(step["worker"])

    async def _pause(self, _: Step) -> None:
        await lifecycle.pause(self.db, self.caller, self.schedule_id)

    async def _resume(self, _: Step) -> None:
        await lifecycle.resume(self.db, self.settings, self.caller, self.schedule_id)

    async def _update(self, step: Step) -> None:
        row = await get(self.db, self.caller, self.schedule_id)
        patch = SchedulePatch.model_validate(step["set"])
        await update.update(self.db, self.settings, self.caller, self.schedule_id, patch, version=row.version)

    async def _cancel(self, _: Step) -> None:
        await lifecycle.cancel(self.db, self.caller, self.schedule_id)

    async def _cancel_run(self, step: Step) -> None:
        await cancel_run(self.db, self.settings, self.caller, await self._run_id(step["run"]))

    async def _run_now(self, step: Step) -> None:
        run = await people.run_now(self.db, self.caller, self.schedule_id)
        self.labels[step.get("label", "")] = run.id

    async def _backfill(self, step: Step) -> None:
        fields = ("from", "to", "dry_run", "confirm", "limit", "reprocess")
        request = BackfillRequest.model_validate({name: step[name] for name in fields if name in step})
        making = backfills.make(self.db, self.settings, self.caller, self.schedule_id, request)
        if "expect_refused" in step:
            with pytest.raises(Conflict) as refused:
                await making
            assert step["expect_refused"] == {"status": 409, "count": refused.value.extra["count"]}
        else:
            made, _ = await making
            assert made.count == step.get("expect_count", made.count)

    async def _webhook(self, step: Step) -> None:
        assert self.token is not None
        body = json.dumps(step.get("body", {"n": 1})).encode()
        delivery = Delivery(body, "application/json", key=step["key"])
        if "expect_refused" in step:
            with pytest.raises({409: Conflict, 422: Refused}[step["expect_refused"]["status"]]):
                await hooks.accept(self.db, self.settings, self.token, delivery)
            return
        accepted = await hooks.accept(self.db, self.settings, self.token, delivery)
        assert accepted.new != step.get("expect_replayed", False)
        run_id = accepted.answer["run_id"]
        assert self.labels.setdefault(step.get("label", ""), run_id) == run_id

    async def _run_id(self, name: str) -> int:
        if name in self.labels:
            return self.labels[name]
        found = [run.id for run in await self.ledger() if run.fire_at == at(name) and run.status != "missed"]
        assert found, f"no run for {name}"
        return found[-1]

    async def _run(self, run_id: int) -> RunRow:
        async with self.db.begin() as conn:
            row = await ledger.read(conn, self.caller.principal_id, run_id)
        assert row is not None
        return row

    async def ledger(self) -> list[RunRow]:
        async with self.db.begin() as conn:
            return await ledger.list_page(
                conn,
                self.caller.principal_id,
                schedule_id=self.schedule_id,
                conversation_id=None,
                statuses=None,
                ledger_order=True,
                after=None,
                limit=1000,
            )

    async def check(self, case: dict[str, Any]) -> None:
        rows = await self.ledger()
        shown = [{"label": _label(self.labels, row.id), **row._asdict()} for row in rows]
        expected = case.get("ledger", [])
        if "ledger" in case:
            considered = shown[: len(expected)] if case.get("ledger_is_prefix") else shown
            relevant = [
                {key: _plain(row[key]) for key in wanted} for row, wanted in zip(considered, expected, strict=False)
            ]
            assert relevant == expected, [(_plain(r["fire_at"]), r["status"], r["reason"]) for r in shown]
            assert len(considered) == len(expected), [(_plain(r["fire_at"]), r["status"], r["reason"]) for r in shown]
        for status, count in case.get("ledger_counts", {}).items():
            assert sum(row.status == status for row in rows) == count
        await self._check_schedule(case.get("schedule_after", {}))

    async def _check_schedule(self, expected: dict[str, Any]) -> None:
        row = (await get(self.db, self.caller, self.schedule_id))._asdict()
        async with self.db.begin() as conn:
            counted = await conn.execute(text("SELECT count(*) FROM notes WHERE kind = 'schedule_paused'"))
            row["paused_notes"] = counted.scalar_one()
        assert {key: _plain(row[key]) for key in expected} == expected


def _label(labels: dict[str, int], run_id: int) -> str | None:
    return next((label for label, labelled in labels.items() if labelled == run_id), None)


def _plain(value: object) -> object:
    return f"{value:%Y-%m-%dT%H:%M:%SZ}" if hasattr(value, "strftime") else value
