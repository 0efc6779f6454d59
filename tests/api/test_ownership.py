"""Somebody else's things are answered exactly as absent ones, at every address that names one (DESIGN §10)."""

import re
from typing import Any

import pytest
from httpx import AsyncClient, Response

from tests.api import steps
from tests.api.conforming import SPECIFICATION
from tests.api.conftest import CountingWaker

pytestmark = pytest.mark.anyio

ABSENT = 987_654_321
NAMING = [
    (method, path, operation)
    for path, item in SPECIFICATION["paths"].items()
    for method, operation in item.items()
    if "_id}" in path
]


async def ask(client: AsyncClient, method: str, path: str, operation: dict[str, Any]) -> Response:
    """A request that is right in everything but perhaps its id."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return await client.request(
        method, path, headers={"If-Match": "1"}, json=content.get("example", {}) if content else None
    )


def told(answer: Response, identifier: int) -> tuple[int, str]:
    """Status and body, without the id that was asked for."""
    return answer.status_code, re.sub(rf"\b{identifier}\b", "ID", answer.text)


async def things(client: AsyncClient, ids: dict[str, int]) -> list[Any]:
    """Everything that can be read of these."""
    paths = [path for method, path, _ in NAMING if method == "get"]
    return [(await client.get(path.format(**ids))).json() for path in paths]


async def test_somebody_elses_ids_are_answered_as_absent_ones(
    client: AsyncClient, other: AsyncClient, waker: CountingWaker, subtests: pytest.Subtests
) -> None:
    owner = await steps.conversation(client)
    schedule = await steps.schedule(client, owner)
    run = await steps.run(client, schedule["id"])
    task = (await client.get(f"/v1/runs/{run['id']}/tasks")).json()["items"][0]
    backfill = await steps.backfill(client, schedule)
    ids = {
        "conversation_id": owner,
        "schedule_id": schedule["id"],
        "run_id": run["id"],
        "task_id": task["id"],
        "backfill_id": backfill["id"],
    }
    absent = dict.fromkeys(ids, ABSENT)
    before = await things(client, ids)
    woken = waker.calls

    for method, path, operation in NAMING:
        with subtests.test(operation=operation["operationId"]):
            [name] = re.findall(r"\{(\w+)\}", path)
            foreign = await ask(other, method, path.format(**ids), operation)
            nothing = await ask(other, method, path.format(**absent), operation)

            assert nothing.status_code == 404, nothing.text
            assert told(foreign, ids[name]) == told(nothing, ABSENT)

    assert await things(client, ids) == before
    assert waker.calls == woken


async def test_lists_hold_nothing_of_somebody_else(client: AsyncClient, other: AsyncClient) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    await steps.run(client, schedule["id"])

    assert (await other.get("/v1/conversations")).json()["items"] == []
    assert (await other.get("/v1/runs")).json()["items"] == []
    status = (await other.get("/v1/status")).json()
    assert (status["schedules"], status["runs"], status["tasks"], status["unserved_harnesses"]) == ({}, {}, {}, {})


async def test_idempotency_keys_are_everybodys_own(client: AsyncClient, other: AsyncClient) -> None:
    headers = {"Idempotency-Key": "same"}
    first = await client.post("/v1/conversations", json={"title": "a"}, headers=headers)
    second = await other.post("/v1/conversations", json={"title": "b"}, headers=headers)

    assert second.status_code == 201
    assert first.json()["id"] != second.json()["id"]
    assert "idempotent-replayed" not in second.headers
