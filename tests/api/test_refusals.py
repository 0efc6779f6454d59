"""Schedules that are refused: each with its own code, and with what to write instead (DESIGN §3, §10)."""

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient
from litestar import Litestar

from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import client_with, key_of

pytestmark = pytest.mark.anyio


REFUSED: list[tuple[dict[str, Any], str, str, str]] = [
    ({"cron": "* * * * *"}, "interval_too_short", "cron", "*/5 * * * *"),
    ({"cron": "0,1 9 * * *"}, "interval_too_short", "cron", "Write `0 9 * * *`"),
    ({"every": "1m"}, "interval_too_short", "every", '"5m"'),
    ({"cron": "* * * * * *"}, "cron_six_fields", "cron", "*/5 * * * *"),
    ({"cron": "R R * * *"}, "cron_random", "cron", "0 0 * * *"),
    ({"cron": "0 0 30 2 *"}, "cron_never_occurs", "cron", "0 0 L 2 *"),
    ({"cron": "*/5 * * * *", "timezone": "Europe/Berlim"}, "unknown_timezone", "timezone", "Europe/Berlin"),
    ({"cron": "*/5 * * * *", "timezone": ""}, "unknown_timezone", "timezone", "Europe/Berlin"),
    ({"at": "2020-01-01T09:00"}, "at_in_past", "at", "20"),
    ({}, "timing_exactly_one", "cron", "every"),
    ({"cron": "*/5 * * * *", "every": "1h"}, "timing_exactly_one", "cron", "one"),
    ({"cron": "*/5 * * * *", "misfire": "all", "overlap": "replace"}, "policy_conflict", "misfire", "latest"),
    ({"cron": "*/5 * * * *", "prompt": "x" * 32769}, "prompt_too_long", "prompt", "horten"),
    ({"cron": "*/5 * * * *", "ends_at": "2020-01-01T00:00:00Z"}, "ends_before_first_fire", "ends_at", "20"),
    (
        {"cron": "*/5 * * * *", "ends_at": "9999-12-31T23:59:59-14:00"},
        "ends_at_out_of_range",
        "ends_at",
        "Leave it out",
    ),
    ({"cron": "*/5 * * * *", "ends_at": "2050-01-01T00:00:00"}, "ends_at_naive", "ends_at", "2050-01-01T00:00:00Z"),
]
"""Fields, the code, the field that it is about, and a part of what to write instead."""


async def test_a_refusal_says_what_to_write(client: AsyncClient, subtests: pytest.Subtests) -> None:
    owner = await steps.conversation(client)
    path = f"/v1/conversations/{owner}/schedules"
    for fields, code, field, instead in REFUSED:
        with subtests.test(code=code, fields=str(fields)[:80]):
            answer = await client.post(path, json={"prompt": "x"} | fields)

            details = steps.problem(answer, 422)
            assert details["code"] == code
            [error] = details["errors"]
            assert (error["code"], error["field"]) == (code, field)
            assert instead in error["fix"]
    assert (await client.get(path, params={"status": ["active", "completed"]})).json()["items"] == []


async def test_an_eleventh_live_schedule_is_refused(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    first = await steps.schedule(client, owner)
    for _ in range(9):
        await steps.schedule(client, owner)

    details = steps.problem(await steps.create(client, owner), 422)

    assert details["code"] == "too_many_schedules"
    assert "Cancel one" in details["errors"][0]["fix"]
    assert f"id {first['id']}" in details["errors"][0]["fix"]
    assert (await client.delete(f"/v1/schedules/{first['id']}")).status_code == 200
    assert (await steps.create(client, owner)).status_code == 201


async def test_twenty_creates_at_once_leave_exactly_ten(client: AsyncClient) -> None:
    owner = await steps.conversation(client)

    answers = await asyncio.gather(*(steps.create(client, owner) for _ in range(20)))

    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(201), statuses.count(422)) == (10, 10)
    listed = (await client.get(f"/v1/conversations/{owner}/schedules")).json()["items"]
    assert sorted(each["number"] for each in listed) == list(range(1, 11))


async def test_all_problems_come_at_once(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    await steps.schedule(client, owner, name="digest")

    answer = await steps.create(
        client, owner, cron="* * * * *", name="digest", misfire="all", overlap="replace", prompt="x" * 40000
    )

    codes = [error["code"] for error in steps.problem(answer, 422)["errors"]]
    assert codes == ["interval_too_short", "policy_conflict", "prompt_too_long", "name_taken"]


async def test_a_zone_is_never_guessed(app: Litestar, db: Database) -> None:
    async with client_with(app, await key_of(db, "eve", timezone=None)) as eve:
        nowhere = await steps.conversation(eve)
        assert steps.problem(await steps.create(eve, nowhere), 422)["code"] == "timezone_required"
        kathmandu = await steps.conversation(eve, timezone="Asia/Kathmandu")
        assert (await steps.schedule(eve, kathmandu))["timezone"] == "Asia/Kathmandu"
        assert (await steps.schedule(eve, nowhere, timezone="Asia/Tokyo"))["timezone"] == "Asia/Tokyo"


async def test_fields_are_checked_all_at_once_and_near_names_are_suggested(client: AsyncClient) -> None:
    owner = await steps.conversation(client)

    answer = await steps.create(
        client,
        owner,
        promt="x",
        max_runs="5",
        queue_limit=0,
        overlap="skipp",
        webhook="yes",
        agent={"harnes": "echo", "tools": ["a", ""]},
        retry={"max_attempts": 101},
        name="",
        ends_at="tomorrow",
    )

    errors = {error["field"]: error for error in steps.problem(answer, 422)["errors"]}
    assert {field: error["code"] for field, error in errors.items()} == {
        "promt": "unknown_field",
        "max_runs": "wrong_type",
        "queue_limit": "out_of_range",
        "overlap": "unknown_value",
        "webhook": "wrong_type",
        "agent.harnes": "unknown_field",
        "agent.tools[1]": "too_short",
        "retry.max_attempts": "out_of_range",
        "name": "too_short",
        "ends_at": "wrong_instant",
    }
    assert "`prompt`" in errors["promt"]["fix"]
    assert "`harness`" in errors["agent.harnes"]["fix"]
    assert "`skip`" in errors["overlap"]["fix"]
    assert errors["max_runs"]["got"] == "5"


async def test_what_is_sent_back_is_short(client: AsyncClient) -> None:
    owner = await steps.conversation(client)

    answer = await steps.create(client, owner, cron="9" * 255, timezone="x" * 900_000)

    assert len(steps.problem(answer, 422)["errors"][0]["got"]) <= 201
    assert len(answer.content) < 3000
