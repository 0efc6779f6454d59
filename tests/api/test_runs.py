"""Runs and tasks over HTTP, the tick by hand, and the status."""

from typing import Any

import pytest
from httpx import AsyncClient

from agentsched.api.pages import encode
from tests.api import steps
from tests.api.conftest import CountingWaker
from tests.clock import Clock

pytestmark = pytest.mark.anyio


async def test_a_tick_by_hand_fires_what_is_due(admin: AsyncClient, clock: Clock, waker: CountingWaker) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    owner = await steps.conversation(admin)
    schedule = await steps.schedule(admin, owner)
    await clock.freeze("2026-05-01T00:05:00Z")

    report = (await admin.post("/v1/admin/tick")).json()

    assert (report["due"], report["fired"], report["minute"]) == (1, 1, "2026-05-01T00:05:00Z")
    assert waker.calls == 1
    [run] = (await admin.get(f"/v1/schedules/{schedule['id']}/runs")).json()["items"]
    assert (run["trigger"], run["status"], run["fire_at"]) == ("cron", "pending", "2026-05-01T00:05:00Z")
    assert run["reason_text"] == "pending: no worker serves the harness echo"
    assert (await admin.get(f"/v1/runs/{run['id']}")).json() == run
    [task] = (await admin.get(f"/v1/runs/{run['id']}/tasks")).json()["items"]
    assert (task["run_id"], task["conversation_id"]) == (run["id"], run["conversation_id"])
    assert (await admin.get(f"/v1/tasks/{task['id']}")).json() == task
    status = (await admin.get("/v1/status")).json()
    assert (status["last_tick"]["fired"], status["tick_is_late"]) == (1, False)
    assert (status["runs"], status["unserved_harnesses"]) == ({"pending": 1}, {"echo": 1})


async def ids(client: AsyncClient, path: str, **query: Any) -> list[int]:
    """The ids of a whole list, read in pages of two."""
    found: list[int] = []
    asked = query | {"limit": 2}
    while True:
        page = (await client.get(path, params=asked)).json()
        found += [each["id"] for each in page["items"]]
        if page["next_cursor"] is None:
            return found
        asked["cursor"] = page["next_cursor"]


async def test_runs_come_newest_first_or_by_fire_at(client: AsyncClient, clock: Clock) -> None:
    await clock.freeze("2026-05-01T01:00:30Z")
    schedule = await steps.schedule(client, await steps.conversation(client))
    other = await steps.schedule(client, await steps.conversation(client))
    first, second = [(await steps.run(client, schedule["id"]))["id"] for _ in range(2)]
    await clock.freeze("2026-05-01T00:30:00Z")
    earlier = (await steps.run(client, schedule["id"]))["id"]
    elsewhere = (await steps.run(client, other["id"]))["id"]
    path = f"/v1/schedules/{schedule['id']}/runs"

    assert await ids(client, path) == [earlier, second, first]
    assert await ids(client, path, order="fire_at") == [earlier, first, second]
    assert await ids(client, "/v1/runs") == [elsewhere, earlier, second, first]
    assert await ids(client, "/v1/runs", order="fire_at") == [earlier, elsewhere, first, second]
    await client.post(f"/v1/runs/{first}/cancel")
    assert await ids(client, path, status="cancelled") == [first]
    assert await ids(client, path, status=["cancelled", "pending"]) == [earlier, second, first]


async def test_a_run_is_cancelled_once(client: AsyncClient, waker: CountingWaker) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    run = await steps.run(client, schedule["id"])

    cancelled = (await client.post(f"/v1/runs/{run['id']}/cancel")).json()

    assert (cancelled["status"], cancelled["cancel_requested"]) == ("cancelled", True)
    assert waker.calls == 2
    assert steps.problem(await client.post(f"/v1/runs/{run['id']}/cancel"), 409)["code"] == "run_ended"


async def test_cancel_can_stop_what_has_fired(client: AsyncClient) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    run = await steps.run(client, schedule["id"])

    await client.delete(f"/v1/schedules/{schedule['id']}", params={"stop_running": "true"})

    assert (await client.get(f"/v1/runs/{run['id']}")).json()["status"] == "cancelled"


async def test_a_cursor_of_nobody_is_refused(client: AsyncClient, subtests: pytest.Subtests) -> None:
    good = encode("newest", 1, 1)
    too_many, none, negative = encode("newest", 1, 1, 1), encode("newest"), encode("newest", 1, -1)
    for cursor in ("x", "!", "é", "%00", good + "==", too_many, none, negative, "A" * 5000):
        with subtests.test(cursor=cursor):
            answer = await client.get(f"/v1/runs?cursor={cursor}")
            assert steps.problem(answer, 422)["code"] == "cursor_invalid"


async def test_a_cursor_belongs_to_its_list(client: AsyncClient) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    await steps.run(client, schedule["id"])
    await steps.run(client, schedule["id"])
    cursor = (await client.get("/v1/runs?limit=1")).json()["next_cursor"]

    for path in ("/v1/conversations", "/v1/runs?order=fire_at"):
        answer = await client.get(
            path, params={"order": "fire_at", "cursor": cursor} if "?" in path else {"cursor": cursor}
        )
        assert steps.problem(answer, 422)["code"] == "cursor_invalid"


async def test_a_cursor_beyond_all_time_is_no_failure(client: AsyncClient) -> None:
    cursor = encode("fire_at", 2**63 - 1, 2**63 - 1)
    answer = await client.get("/v1/runs", params={"order": "fire_at", "cursor": cursor})
    assert steps.problem(answer, 422)["code"] == "cursor_invalid"
