"""Backfills over HTTP: asked, counted, refused with the count, listed, cancelled."""

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient, Response

from tests.api import steps
from tests.api.conftest import CountingWaker
from tests.clock import Clock

pytestmark = pytest.mark.anyio

DAY = "2026-05-01T"


@pytest.fixture
async def path(client: AsyncClient, clock: Clock) -> str:
    """Where the backfills of an hourly schedule of Ada's are."""
    await clock.freeze(f"{DAY}12:00:30Z")
    schedule = await steps.schedule(client, await steps.conversation(client), cron="0 * * * *")
    return f"/v1/schedules/{schedule['id']}/backfills"


def hours(after: int, until: int, **fields: object) -> dict[str, Any]:
    return {"from": f"{DAY}{after:02}:00:00Z", "to": f"{DAY}{until:02}:00:00Z", **fields}


async def made(answer: Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_backfill_is_made_and_read_again(client: AsyncClient, path: str, waker: CountingWaker) -> None:
    backfill = await made(await client.post(path, json=hours(8, 11)))

    assert waker.calls == 1
    assert {name: backfill[name] for name in ("from", "to", "reprocess", "status", "count", "finished_at")} == {
        "from": f"{DAY}08:00:00Z",
        "to": f"{DAY}11:00:00Z",
        "reprocess": "missing",
        "status": "running",
        "count": 3,
        "finished_at": None,
    }
    assert (backfill["progress"], backfill["created_at"]) == ({"queued": 2, "pending": 1}, f"{DAY}12:00:30Z")
    assert backfill["actor"].startswith("key:")
    assert (await client.get(f"/v1/backfills/{backfill['id']}")).json() == backfill
    runs = (await client.get(path.replace("backfills", "runs"), params={"order": "fire_at"})).json()["items"]
    assert [(run["trigger"], run["fire_at"], run["status"]) for run in runs] == [
        ("backfill", f"{DAY}09:00:00Z", "pending"),
        ("backfill", f"{DAY}10:00:00Z", "queued"),
        ("backfill", f"{DAY}11:00:00Z", "queued"),
    ]


async def test_a_dry_run_is_a_count(client: AsyncClient, path: str, waker: CountingWaker) -> None:
    answer = await client.post(path, json=hours(8, 11, dry_run=True))

    assert answer.status_code == 200
    assert answer.json() == {
        "id": None,
        "dry_run": True,
        "schedule_id": int(path.split("/")[3]),
        **hours(8, 11),
        "reprocess": "missing",
        "count": 3,
        "count_is_exact": True,
        "first": f"{DAY}09:00:00Z",
        "last": f"{DAY}11:00:00Z",
        "needs_confirm": False,
        "over_limit": False,
    }
    assert (waker.calls, (await client.get(path)).json()["items"]) == (0, [])


async def test_many_slots_are_refused_whole_with_their_count(client: AsyncClient, path: str) -> None:
    many: dict[str, object] = {"from": "2026-04-30T10:00:00Z", "to": f"{DAY}12:00:00Z"}
    too_many = many | {"from": "2026-03-20T19:00:00Z"}

    asks = steps.problem(await client.post(path, json=many), 409)
    assert (asks["code"], asks["count"], asks["count_is_exact"]) == ("confirmation_required", 26, True)
    over = steps.problem(await client.post(path, json=too_many | {"confirm": True}), 409)
    assert (over["code"], over["count"]) == ("too_many_slots", 1001)
    for body, needs_confirm, over_limit in ((many, True, False), (too_many, True, True)):
        counted = (await client.post(path, json=body | {"dry_run": True})).json()
        assert (counted["needs_confirm"], counted["over_limit"]) == (needs_confirm, over_limit)
    assert (await client.get(path)).json()["items"] == []

    assert (await made(await client.post(path, json=many | {"confirm": True})))["count"] == 26
    raised = too_many | {"confirm": True, "limit": 1001, "reprocess": "all"}
    assert (await made(await client.post(path, json=raised)))["count"] == 1001


async def test_other_problems_have_no_count(client: AsyncClient, path: str) -> None:
    await client.delete(path.removesuffix("/backfills"))
    refused = steps.problem(await client.post(path, json=hours(8, 9)), 409)
    assert refused["code"] == "schedule_cancelled"
    assert "count" not in refused


async def test_what_is_wrong_is_told_field_by_field(client: AsyncClient, path: str, subtests: pytest.Subtests) -> None:
    right = hours(8, 9)
    for body, fields in (
        ({}, ["from", "to"]),
        (right | {"from": "2026-05-01T08:00:00"}, ["from"]),
        (right | {"from": "yesterday"}, ["from"]),
        (right | {"from": 1777622400}, ["from"]),
        (right | {"from": None}, ["from"]),
        (right | {"to": f"{DAY}07:00:00Z"}, ["to"]),
        (right | {"to": "9999-12-31T23:59:59-23:59"}, ["to"]),
        (right | {"from": "2020-01-01T00:00:00Z", "to": f"{DAY}13:00:00Z"}, ["to", "from"]),
        (right | {"limit": 10_001}, ["limit"]),
        (right | {"limit": 0}, ["limit"]),
        (right | {"confirm": "yes"}, ["confirm"]),
        (right | {"reprocess": "some"}, ["reprocess"]),
        (right | {"from_": f"{DAY}08:00:00Z"}, ["from_"]),
        (right | {"form": f"{DAY}08:00:00Z"}, ["form"]),
    ):
        with subtests.test(body=body):
            problem = steps.problem(await client.post(path, json=body), 422)
            assert [each["field"] for each in problem["errors"]] == fields
            assert all(each["fix"] for each in problem["errors"])
    assert (await client.get(path)).json()["items"] == []


async def test_the_same_key_is_the_same_backfill(client: AsyncClient, path: str) -> None:
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(client.post(path, json=hours(8, 11), headers=headers) for _ in range(20)))

    assert len({(await made(answer))["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 19
    assert len((await client.get(path)).json()["items"]) == 1
    other = await client.post(path, json=hours(8, 10), headers=headers)
    assert steps.problem(other, 422)["code"] == "idempotency_key_reused"


async def test_lists_come_in_pages_newest_first(client: AsyncClient, path: str) -> None:
    ids = [(await made(await client.post(path, json=hours(hour, hour + 1))))["id"] for hour in range(8, 11)]
    first = (await client.get(path, params={"limit": 2})).json()
    rest = (await client.get(path, params={"limit": 2, "cursor": first["next_cursor"]})).json()

    assert [each["id"] for each in first["items"] + rest["items"]] == ids[::-1]
    assert rest["next_cursor"] is None
    strange = (await client.get("/v1/schedules", params={"cursor": first["next_cursor"]})).json()
    assert strange["code"] == "cursor_invalid"


async def test_cancel(client: AsyncClient, path: str, waker: CountingWaker) -> None:
    backfill = await made(await client.post(path, json=hours(8, 10)))
    address = f"/v1/backfills/{backfill['id']}"

    cancelled = (await client.delete(address)).json()

    assert (cancelled["status"], cancelled["progress"]) == ("cancelled", {"pending": 1, "skipped": 1})
    assert (await client.delete(address)).json() == cancelled
    stopped = (await client.delete(address, params={"stop_running": "true"})).json()
    assert stopped["progress"] == {"cancelled": 1, "skipped": 1}
    assert waker.calls == 4
    empty = await made(await client.post(path, json=hours(8, 8) | {"to": f"{DAY}08:30:00Z"}))
    assert (empty["count"], empty["status"], empty["progress"]) == (0, "completed", {})
    assert steps.problem(await client.delete(f"/v1/backfills/{empty['id']}"), 409)["code"] == "backfill_completed"


async def test_somebody_elses_backfills_are_as_absent(client: AsyncClient, other: AsyncClient, path: str) -> None:
    backfill = await made(await client.post(path, json=hours(8, 10)))
    for answer in (
        await other.get(f"/v1/backfills/{backfill['id']}"),
        await other.delete(f"/v1/backfills/{backfill['id']}"),
        await client.get("/v1/backfills/987654"),
    ):
        assert steps.problem(answer, 404)["code"] == "backfill_not_found"
    for answer in (await other.get(path), await other.post(path, json=hours(8, 10))):
        assert steps.problem(answer, 404)["code"] == "schedule_not_found"
