"""Conversations over HTTP: make, list, read, talk, delete."""

import pytest
from httpx import AsyncClient

from tests.api import steps
from tests.api.conftest import CountingWaker

pytestmark = pytest.mark.anyio

AGENT = {
    "harness": "echo",
    "model": "openai:gpt-5",
    "instructions": "Be brief.",
    "tools": ["search"],
    "settings": {"temperature": 0.5, "deep": {"er": [1, None, "é"]}},
}


async def test_a_conversation_is_made_as_asked(client: AsyncClient) -> None:
    asked = {"title": "Briefings", "timezone": "Europe/Berlin", "agent": AGENT}

    answer = await client.post("/v1/conversations", json=asked)

    made = answer.json()
    assert answer.status_code == 201
    assert {name: made[name] for name in asked} == asked
    assert (made["busy"], made["last_seq"], made["parent_id"]) == (False, 0, None)
    assert (await client.get(f"/v1/conversations/{made['id']}")).json() == made


async def test_an_empty_conversation_has_the_default_agent(client: AsyncClient) -> None:
    made = (await client.post("/v1/conversations", json={})).json()
    assert made["agent"]["harness"] == "echo"
    assert (await client.get(f"/v1/conversations/{made['id']}/entries")).json() == {"items": [], "next_cursor": None}
    assert (await client.get(f"/v1/conversations/{made['id']}/inbox")).json() == {"items": [], "next_cursor": None}


async def test_an_unknown_zone_is_refused(client: AsyncClient) -> None:
    answer = await client.post("/v1/conversations", json={"timezone": "Europe/Berlim"})
    assert steps.problem(answer, 422)["code"] == "unknown_timezone"


async def test_pages_hold_everything_once_in_order(client: AsyncClient) -> None:
    made = [await steps.conversation(client) for _ in range(5)]
    seen: list[int] = []
    query: dict[str, str | int | None] = {"limit": 2}
    for size in (2, 2, 1):
        page = (await client.get("/v1/conversations", params=query)).json()
        assert len(page["items"]) == size
        seen += [each["id"] for each in page["items"]]
        query["cursor"] = page["next_cursor"]
    assert query["cursor"] is None
    assert seen == made


async def test_the_last_full_page_has_no_cursor(client: AsyncClient) -> None:
    await steps.conversation(client)
    await steps.conversation(client)
    assert (await client.get("/v1/conversations?limit=2")).json()["next_cursor"] is None
    assert (await client.get("/v1/conversations?limit=1000")).json()["next_cursor"] is None


async def test_a_limit_out_of_bounds_is_refused(client: AsyncClient, subtests: pytest.Subtests) -> None:
    for limit in ("0", "1001", "-1", "x", "1.5", "", "99999999999999999999"):
        with subtests.test(limit=limit):
            details = steps.problem(await client.get(f"/v1/conversations?limit={limit}"), 422)
            assert (details["code"], details["errors"][0]["field"]) == ("wrong_parameter", "limit")
            assert "1 to 1000" in details["errors"][0]["problem"]


async def test_a_message_becomes_a_pending_task(client: AsyncClient, waker: CountingWaker) -> None:
    owner = await steps.conversation(client)

    answer = await client.post(f"/v1/conversations/{owner}/messages", json={"text": "hello"})

    assert answer.status_code == 202
    assert waker.calls == 1
    task = (await client.get(f"/v1/tasks/{answer.json()['task_id']}")).json()
    assert (task["kind"], task["status"], task["conversation_id"]) == ("message", "pending", owner)


async def test_a_repeated_message_is_said_once(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    path, headers = f"/v1/conversations/{owner}/messages", {"Idempotency-Key": "m-1"}
    first = await client.post(path, json={"text": "hello"}, headers=headers)

    again = await client.post(path, json={"text": "hello"}, headers={"Idempotency-Key": '"m-1"'})

    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    other = await client.post(path, json={"text": "bye"}, headers=headers)
    assert steps.problem(other, 422)["code"] == "idempotency_key_reused"


async def test_a_repeated_create_makes_one_conversation(client: AsyncClient) -> None:
    headers = {"Idempotency-Key": "c-1"}
    first = await client.post("/v1/conversations", json={"title": "a"}, headers=headers)

    again = await client.post("/v1/conversations", json={"title": "a"}, headers=headers)

    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert len((await client.get("/v1/conversations")).json()["items"]) == 1


async def test_a_key_that_is_none_is_refused(client: AsyncClient, subtests: pytest.Subtests) -> None:
    for key in ("", '""', "x" * 256, "tab\there"):
        with subtests.test(key=key):
            answer = await client.post("/v1/conversations", json={}, headers={"Idempotency-Key": key})
            assert steps.problem(answer, 422)["code"] == "idempotency_key_invalid"


async def test_a_deleted_conversation_is_gone_and_its_schedules_are_cancelled(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    schedule = await steps.schedule(client, owner)

    answer = await client.delete(f"/v1/conversations/{owner}")

    assert (answer.status_code, answer.content) == (204, b"")
    steps.problem(await client.get(f"/v1/conversations/{owner}"), 404)
    steps.problem(await client.delete(f"/v1/conversations/{owner}"), 404)
    assert (await client.get(f"/v1/schedules/{schedule['id']}")).json()["status"] == "cancelled"
