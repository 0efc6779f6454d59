"""Each tool does what it says, and its answer proves it."""

from typing import Any

import pytest
from sqlalchemy import text

from agentsched.service import lifecycle, rotate_token, tick, update
from agentsched.service.requests import SchedulePatch
from tests import people
from tests.clock import Clock
from tests.tools.desk import Desk

pytestmark = pytest.mark.anyio

WEEKDAYS: dict[str, Any] = {"cron": "0 9 * * 1-5", "prompt": "look at the pull requests", "name": "Pulls"}


async def test_create_proves_what_was_made(desk: Desk) -> None:
    made = await desk.done("schedule_create", **WEEKDAYS)
    [row] = await desk.rows()
    assert (made["status"], made["id"], made["number"], made["name"]) == ("created", row.id, row.number, "Pulls")
    assert made["summary"] == "Every weekday at 09:00 (Europe/Berlin)"
    assert made["next_runs"] == [
        {"local": "Mon 2026-10-26 09:00 +01:00", "from_now": "in 2 days"},
        {"local": "Tue 2026-10-27 09:00 +01:00", "from_now": "in 3 days"},
        {"local": "Wed 2026-10-28 09:00 +01:00", "from_now": "in 4 days"},
    ]
    assert made["mode_means"] == "Each run copies this conversation; its result appears in a new one."
    assert (made["live"], made["live_limit"], made["now"]) == (1, 10, "Sat 2026-10-24 09:03 +02:00 (Europe/Berlin)")
    assert made["say"] == (
        "I have scheduled “Pulls”: every weekday at 09:00 (Europe/Berlin); the next run is Mon 2026-10-26 09:00 +01:00 "
        "(in 2 days)."
    )


@pytest.mark.parametrize(
    ("timing", "summary", "first"),
    [
        ({"every": "2h"}, "Every 2 hours", ("Sat 2026-10-24 11:03 +02:00", "in 2 hours")),
        ({"at": "2026-12-03T09:00"}, "Once on Thu 2026-12-03", ("Thu 2026-12-03 09:00 +01:00", "in 40 days")),
        ({"in": "20m"}, "Once on Sat 2026-10-24", ("Sat 2026-10-24 09:24 +02:00", "in 21 minutes")),
    ],
)
async def test_each_timing(desk: Desk, timing: dict[str, str], summary: str, first: tuple[str, str]) -> None:
    made = await desk.done("schedule_create", prompt="x", **timing)
    assert made["summary"].startswith(summary)
    assert (made["next_runs"][0]["local"], made["next_runs"][0]["from_now"]) == first


async def test_every_argument_of_create_has_its_effect(desk: Desk) -> None:
    made = await desk.done(
        "schedule_create",
        cron="0 9 * * *",
        prompt="x",
        timezone="Asia/Tokyo",
        mode="append",
        overlap="queue",
        misfire="latest",
        max_runs="7",
        ends_at="2026-11-01T12:00",
        max_attempts=3,
        notify="always",
        daily_run_limit=5,
        daily_token_limit=1000,
        name=None,
        every="",
    )
    [row] = await desk.rows()
    assert (row.mode, row.overlap, row.misfire, row.max_runs, row.notify) == ("append", "queue", "latest", 7, "always")
    assert (row.retry_max_attempts, row.daily_run_limit, row.daily_token_limit) == (3, 5, 1000)
    assert f"{row.ends_at:%Y-%m-%dT%H:%MZ}" == "2026-11-01T03:00Z"
    assert (made["ends_at"], made["max_runs"]) == ("Sun 2026-11-01 12:00 +09:00", 7)
    assert made["policies"] == (
        "overlap queue; misfire latest; max_attempts 3; notify always; daily_run_limit 5; daily_token_limit 1000"
    )
    assert made["next_runs"][0] == {
        "local": "Sun 2026-10-25 09:00 +09:00",
        "from_now": "in 17 hours",
        "for_person": "Sun 2026-10-25 02:00 +02:00",
    }


async def test_a_webhooks_secret_stays_out_of_the_answer_until_a_person_asks(desk: Desk) -> None:
    made = await desk.call("schedule_create", webhook=True, prompt="x")
    identifier = made.data["id"]
    assert made.data["webhook_address"] == "/hooks/asw_…"
    assert f"GET /schedules/{identifier}/webhook" in made.data["hint"]
    async with desk.db.begin() as conn:
        assert (await conn.execute(text("SELECT count(*) FROM webhook_tokens"))).scalar_one() == 0
        assert (await conn.execute(text("SELECT count(*) FROM webhooks"))).scalar_one() == 1
    ada = await people.somebody(desk.db)
    rotated = await rotate_token.rotate_token(desk.db, ada, identifier, grace_seconds=0)
    assert rotated.token.startswith("asw_")
    again = await desk.call("schedule_create", webhook=True, prompt="x")
    assert (again.data["status"], again.data["id"]) == ("already_exists", identifier)
    assert rotated.token not in again.text


async def test_list_pages_through_schedules_of_every_status(desk: Desk) -> None:
    assert (await desk.done("schedule_list"))["say"] == "Nothing is scheduled here."
    for number in range(25):
        made = await desk.done("schedule_create", prompt=f"x{number}", every="1h")
        if number < 23:
            await desk.done("schedule_cancel", schedule=made["id"])
    await desk.done("schedule_pause", schedule="25")
    live = await desk.done("schedule_list")
    assert ([each["id"] for each in live["schedules"]], live["live"]) == ([24, 25], 2)
    assert [each["id"] for each in (await desk.done("schedule_list", status="paused"))["schedules"]] == [25]
    first = await desk.done("schedule_list", status="all")
    rest = await desk.done("schedule_list", status="all", after=first["next_after"])
    assert [each["id"] for each in first["schedules"] + rest["schedules"]] == list(range(1, 26))
    assert "next_after" not in rest


async def test_update_changes_only_what_is_sent(desk: Desk) -> None:
    await desk.done("schedule_create", **WEEKDAYS, overlap="queue", max_runs=9)
    [before] = await desk.rows()
    changed = await desk.done("schedule_update", schedule="Pulls", cron="30 8 * * 1-5")
    [after] = await desk.rows()
    assert (changed["status"], changed["summary"]) == ("updated", "Every weekday at 08:30 (Europe/Berlin)")
    moved = {name for name in before._fields if getattr(before, name) != getattr(after, name)}
    assert moved == {"cron", "next_fire_at", "version"}
    await desk.done("schedule_update", schedule=str(after.id), name="Reviews", ends_at="2026-12-01T00:00")
    [after] = await desk.rows()
    assert (after.name, after.overlap, f"{after.ends_at:%dT%H:%MZ}") == ("Reviews", "queue", "30T23:00Z")
    assert desk.waker.calls == 2


async def test_update_does_not_mind_an_edit_in_between(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await desk.done("schedule_create", **WEEKDAYS)
    ada = await people.somebody(desk.db)
    real = update.update

    async def overtaken(*args: Any, version: int) -> Any:
        if version == 1:
            await real(desk.db, desk.settings, ada, made["id"], SchedulePatch(prompt="new words"), version=1)
        return await real(*args, version=version)

    monkeypatch.setattr(update, "update", overtaken)
    assert (await desk.done("schedule_update", schedule="Pulls", mode="fresh"))["status"] == "updated"
    [row] = await desk.rows()
    assert (row.version, row.mode, row.prompt) == (3, "fresh", "new words")


async def test_pause_resume_and_cancel_say_when_it_was_so_already(desk: Desk) -> None:
    await desk.done("schedule_create", **WEEKDAYS)
    paused = await desk.done("schedule_pause", schedule="pulls", note="they are\naway")
    assert (paused["status"], paused["pause"], paused["next_runs"]) == ("paused", "user: they are away", [])
    assert (await desk.done("schedule_pause", schedule="Pulls"))["status"] == "already_paused"
    resumed = await desk.done("schedule_resume", schedule="Pulls")
    assert (resumed["status"], resumed["next_runs"][0]["from_now"]) == ("resumed", "in 2 days")
    assert (await desk.done("schedule_resume", schedule="Pulls"))["status"] == "already_active"
    assert (await desk.done("schedule_cancel", schedule="Pulls"))["live"] == 0
    assert (await desk.done("schedule_cancel", schedule="Pulls"))["status"] == "already_cancelled"


async def test_resume_says_that_nothing_is_left(desk: Desk, clock: Clock) -> None:
    made = await desk.done("schedule_create", prompt="x", **{"in": "10m"})
    await desk.done("schedule_pause", schedule=made["id"])
    await clock.step(hours=1)
    assert (await desk.done("schedule_resume", schedule=made["id"]))["status"] == "completed"


async def test_run_now_and_history(desk: Desk, clock: Clock) -> None:
    await desk.done("schedule_create", **WEEKDAYS)
    assert (await desk.done("schedule_history", schedule="Pulls"))["runs"] == []
    started = await desk.done("schedule_run_now", schedule="Pulls")
    assert (started["status"], desk.waker.calls) == ("started", 1)
    await clock.freeze("2026-10-26T08:00:00Z")
    await tick.tick(desk.db, desk.settings)
    await clock.freeze("2026-10-26T10:00:00Z")
    shown = await desk.done("schedule_history", schedule="Pulls", limit=1)
    [newest] = shown["runs"]
    assert (newest["status"], newest["trigger"], newest["when"]) == ("skipped", "cron", "2 hours ago")
    assert "has held the only slot" in newest["why"]
    assert shown["more"] is True
    runs = (await desk.done("schedule_history", schedule="Pulls"))["runs"]
    assert [run["run_id"] for run in runs] == [newest["run_id"], started["run_id"]]
    assert runs[1]["conversation_id"] == started["conversation_id"]


async def test_a_models_run_now_is_refused_over_budget(desk: Desk) -> None:
    made = await desk.done("schedule_create", **WEEKDAYS, daily_run_limit=1)
    await desk.done("schedule_run_now", schedule="Pulls")
    over = await desk.refused("schedule_run_now", schedule="Pulls")
    assert (over["code"], over["retry_after_seconds"] > 0) == ("budget_spent", True)
    await lifecycle.run_now(desk.db, desk.settings, await people.somebody(desk.db), made["id"])
