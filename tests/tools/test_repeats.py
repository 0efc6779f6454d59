"""Creating what exists already returns it, also when two do so at once."""

import asyncio
from typing import Any

import pytest

from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.clock import Clock
from tests.tools.conftest import desk_of
from tests.tools.desk import Desk

pytestmark = pytest.mark.anyio

DAILY: dict[str, Any] = {"prompt": "look", "cron": "0 9 * * *", "name": "Look"}


@pytest.mark.parametrize(
    "again",
    [
        DAILY,
        DAILY | {"name": "Another"},
        {"prompt": "look", "cron": " 0  9 * * *", "mode": "fresh"},
        {"prompt": "other words", "every": "2h", "name": "Look"},
        {"prompt": "other words", "cron": "0 0 9 * * *", "name": "Look"},
    ],
)
async def test_the_same_name_or_timing_and_prompt_exist_already(desk: Desk, again: dict[str, Any]) -> None:
    made = await desk.done("schedule_create", **DAILY)
    found = await desk.done("schedule_create", **again)
    assert (found["status"], found["id"], found["live"]) == ("already_exists", made["id"], 1)
    assert f"call schedule_update with schedule {made['id']}" in found["hint"]
    [row] = await desk.rows()
    assert (row.version, row.cron, row.prompt, row.mode) == (1, "0 9 * * *", "look", "fork")


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": "look again", "cron": "0 9 * * *"},
        {"prompt": "look", "cron": "0 10 * * *"},
        {"prompt": "look", "cron": "0 9 * * *", "timezone": "Asia/Tokyo"},
        {"prompt": "look", "every": "1d"},
        {"prompt": "look", "webhook": True},
    ],
)
async def test_other_ones_do_not(desk: Desk, other: dict[str, Any]) -> None:
    await desk.done("schedule_create", **DAILY)
    assert (await desk.done("schedule_create", **other))["status"] == "created"


async def test_an_interval_is_the_same_wherever_it_is_counted_from(desk: Desk, clock: Clock) -> None:
    await desk.done("schedule_create", prompt="look", every="60m")
    await clock.step(minutes=17)
    assert (await desk.done("schedule_create", prompt="look", every="1h"))["status"] == "already_exists"


async def test_in_is_the_same_for_a_call_that_is_repeated_soon(desk: Desk, clock: Clock) -> None:
    words: dict[str, Any] = {"prompt": "look", "in": "30m"}
    assert (await desk.done("schedule_create", **words))["status"] == "created"
    await clock.step(minutes=2)
    assert (await desk.done("schedule_create", **words))["status"] == "already_exists"
    await clock.step(minutes=3)
    assert (await desk.done("schedule_create", **words))["status"] == "created"


async def test_a_paused_one_exists_and_one_that_has_ended_does_not(desk: Desk) -> None:
    await desk.done("schedule_create", **DAILY)
    await desk.done("schedule_pause", schedule="Look")
    assert "schedule_resume" in (await desk.done("schedule_create", **DAILY))["hint"]
    await desk.done("schedule_cancel", schedule="Look")
    assert (await desk.done("schedule_create", **DAILY))["status"] == "created"


async def test_at_the_limit_what_exists_is_still_returned(desk: Desk) -> None:
    for number in range(10):
        await desk.done("schedule_create", prompt=f"x{number}", cron="0 9 * * *")
    assert (await desk.done("schedule_create", prompt="x3", cron="0 9 * * *"))["status"] == "already_exists"


async def test_another_conversation_has_its_own(desk: Desk, db: Database, settings: Settings) -> None:
    await desk.done("schedule_create", **DAILY)
    assert (await (await desk_of(db, settings, "ada")).done("schedule_create", **DAILY))["status"] == "created"


@pytest.mark.parametrize("words", [DAILY, {"prompt": "look", "in": "20m"}], ids=["named", "unnamed"])
async def test_twenty_at_once_make_one(desk: Desk, words: dict[str, Any]) -> None:
    made = await asyncio.gather(*(desk.done("schedule_create", **words) for _ in range(20)))
    assert sorted(each["status"] for each in made) == ["already_exists"] * 19 + ["created"]
    assert len(await desk.rows()) == 1
