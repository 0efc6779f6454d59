"""Dead letters over HTTP: counted, listed, requeued and discarded."""

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient
from litestar import Litestar

from agentsched.core.attempt import End
from agentsched.service import claim, finish
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import CountingWaker, client_with, key_of

pytestmark = pytest.mark.anyio


class Failing:
    """Runs that fail."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self.db, self.settings = db, settings

    async def fail(self, error_code: str = "boom") -> None:
        """End whatever is pending."""
        for task in await claim.claim(self.db, self.settings, worker="w1", harnesses=["echo"], max_tasks=100):
            report = Report(End.FAILED, error_code=error_code, error="the model is away", retryable=False)
            await finish.report(self.db, self.settings, task_id=task.id, fence=task.fence, report=report)

    async def dead_letters(self, client: AsyncClient, count: int = 1, **fields: object) -> list[int]:
        """The ids of failed runs of a new schedule of a new conversation."""
        schedule = await steps.schedule(client, await steps.conversation(client), **fields)
        runs = [(await steps.run(client, schedule["id"]))["id"] for _ in range(count)]
        await self.fail()
        return runs


@pytest.fixture
def failing(db: Database, settings: Settings) -> Failing:
    return Failing(db, settings)


async def listed(client: AsyncClient, path: str = "/v1/runs", **query: Any) -> list[int]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.json()["items"]]


async def test_a_failed_run_is_a_dead_letter_until_it_is_requeued(
    client: AsyncClient, failing: Failing, waker: CountingWaker
) -> None:
    [failed] = await failing.dead_letters(client)
    run = (await client.get(f"/v1/runs/{failed}")).json()
    assert (run["status"], run["dead_letter"], run["requeue_of"]) == ("failed", True, None)
    status = (await client.get("/v1/status")).json()
    assert (status["dead_letters"], status["runs"]) == (1, {})
    woken = waker.calls

    answer = await client.post(f"/v1/runs/{failed}/requeue")

    assert answer.status_code == 201, answer.text
    new = answer.json()["run"]
    assert (new["trigger"], new["requeue_of"], new["status"], new["dead_letter"]) == (
        "requeue",
        failed,
        "pending",
        False,
    )
    assert new["fire_at"] == run["fire_at"]
    assert waker.calls == woken + 1
    assert (await client.get(f"/v1/runs/{failed}")).json() == run | {"dead_letter": False}
    assert (await client.get("/v1/status")).json()["dead_letters"] == 0
    refused = steps.problem(await client.post(f"/v1/runs/{failed}/requeue"), 409)
    assert refused["code"] == "requeue_in_progress"
    assert f"Run {new['id']} " in refused["detail"]
    assert steps.problem(await client.post(f"/v1/runs/{new['id']}/requeue"), 409)["code"] == "run_not_failed"
    assert steps.problem(await client.post(f"/v1/runs/{new['id']}/discard"), 409)["code"] == "run_not_failed"


async def test_a_requeue_is_done_once_for_a_key(client: AsyncClient, failing: Failing) -> None:
    [failed] = await failing.dead_letters(client)
    headers = {"Idempotency-Key": "once"}
    first = await client.post(f"/v1/runs/{failed}/requeue", headers=headers)
    again = await client.post(f"/v1/runs/{failed}/requeue", json={}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["run"]["id"] == first.json()["run"]["id"]
    assert ("idempotent-replayed" in first.headers, again.headers["idempotent-replayed"]) == (False, "true")


async def test_twenty_requeues_at_once_are_one(client: AsyncClient, failing: Failing) -> None:
    [failed] = await failing.dead_letters(client)
    answers = await asyncio.gather(*(client.post(f"/v1/runs/{failed}/requeue") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert len(await listed(client)) == 2


async def test_a_discarded_run_is_no_dead_letter(client: AsyncClient, failing: Failing) -> None:
    [failed] = await failing.dead_letters(client)
    discarded = await client.post(f"/v1/runs/{failed}/discard")
    assert discarded.status_code == 200
    assert (discarded.json()["dead_letter"], discarded.json()["status"]) == (False, "failed")
    assert (await client.post(f"/v1/runs/{failed}/discard")).json() == discarded.json()
    assert (await client.get("/v1/status")).json()["dead_letters"] == 0


async def test_lists_of_dead_letters(client: AsyncClient, failing: Failing) -> None:
    first, second, third = await failing.dead_letters(client, 3)
    [elsewhere] = await failing.dead_letters(client)
    await client.post(f"/v1/runs/{second}/discard")
    schedule = (await client.get(f"/v1/runs/{first}")).json()["schedule_id"]
    path = f"/v1/schedules/{schedule}/runs"

    assert await listed(client, dead_letter="true") == [elsewhere, third, first]
    assert await listed(client, dead_letter="false") == [second]
    assert await listed(client, path, dead_letter="true") == [third, first]
    assert await listed(client, path, dead_letter="true", order="fire_at") == [first, third]
    assert await listed(client, path, dead_letter="true", status="completed") == []
    assert await listed(client, path) == [third, second, first]
    page = (await client.get(path, params={"dead_letter": "true", "limit": 1})).json()
    assert await listed(client, path, dead_letter="true", cursor=page["next_cursor"]) == [first]
    steps.problem(await client.get("/v1/runs", params={"dead_letter": "perhaps"}), 422)


async def test_many_at_once(client: AsyncClient, failing: Failing, waker: CountingWaker) -> None:
    dead = await failing.dead_letters(client, 3)
    [other] = await failing.dead_letters(client)
    schedule = (await client.get(f"/v1/runs/{dead[0]}")).json()["schedule_id"]
    woken = waker.calls

    answer = (await client.post("/v1/runs/requeue", json={"schedule_id": schedule, "limit": 2})).json()

    assert ([each["run_id"] for each in answer["runs"]], answer["remaining"]) == (dead[:2], 1)
    assert (answer["count"], answer["refused"]) == (2, [])
    new = [(await client.get(f"/v1/runs/{each['new_run_id']}")).json() for each in answer["runs"]]
    assert [run["requeue_of"] for run in new] == dead[:2]
    assert [run["status"] for run in new] == ["pending", "queued"]
    assert waker.calls == woken + 1
    assert (await client.get("/v1/status")).json()["runs"] == {"pending": 1, "queued": 1}

    named = {"run_ids": [other, dead[0], 987_654]}
    answer = (await client.post("/v1/runs/discard", json=named)).json()
    assert answer["runs"] == [{"run_id": other, "new_run_id": None}]
    assert [(each["run_id"], each["code"]) for each in answer["refused"]] == [
        (dead[0], "run_requeued"),
        (987_654, "run_not_found"),
    ]
    rest = (await client.post("/v1/runs/discard", json={"all": True})).json()
    assert [each["run_id"] for each in rest["runs"]] == [dead[2]]
    nothing = (await client.post("/v1/runs/discard", json={"all": True})).json()
    assert nothing == {"count": 0, "runs": [], "refused": [], "remaining": 0}


async def test_wrong_choices_say_what_to_write(
    client: AsyncClient, failing: Failing, subtests: pytest.Subtests
) -> None:
    [failed] = await failing.dead_letters(client)
    for body, code, field in (
        ({}, "criterion_missing", "run_ids"),
        ({"limit": 10}, "criterion_missing", "run_ids"),
        ({"run_ids": []}, "too_short", "run_ids"),
        ({"run_ids": list(range(1, 1002))}, "too_long", "run_ids"),
        ({"run_ids": [0]}, "out_of_range", "run_ids[0]"),
        ({"run_ids": [failed], "all": True}, "criterion_contradicts", "all"),
        ({"all": True, "limit": 0}, "out_of_range", "limit"),
        ({"all": True, "limit": 1001}, "out_of_range", "limit"),
        ({"failed_before": "2026-05-01T00:00:00"}, "wrong_instant", "failed_before"),
        ({"failed_after": "0001-01-01T00:00:00+14:00"}, "wrong_instant", "failed_after"),
        ({"everything": True}, "unknown_field", "everything"),
    ):
        for path in ("/v1/runs/requeue", "/v1/runs/discard"):
            with subtests.test(path=path, body=str(body)[:60]):
                details = steps.problem(await client.post(path, json=body), 422)
                assert [(each["code"], each["field"]) for each in details["errors"]] == [(code, field)]
    assert "`all: true`" in steps.problem(await client.post("/v1/runs/discard", json={}), 422)["detail"]
    assert await listed(client, dead_letter="true") == [failed]


async def test_somebody_elses_dead_letters_are_as_absent_ones(
    client: AsyncClient, other: AsyncClient, failing: Failing
) -> None:
    [failed] = await failing.dead_letters(client)
    schedule = (await client.get(f"/v1/runs/{failed}")).json()["schedule_id"]
    absent = 987_654
    for path in ("/v1/runs/requeue", "/v1/runs/discard"):
        [foreign] = (await other.post(path, json={"run_ids": [failed]})).json()["refused"]
        [nothing] = (await other.post(path, json={"run_ids": [absent]})).json()["refused"]
        assert foreign["code"] == nothing["code"] == "run_not_found"
        assert foreign["problem"].replace(str(failed), "ID") == nothing["problem"].replace(str(absent), "ID")
        assert (await other.post(path, json={"all": True})).json()["count"] == 0
        assert steps.problem(await other.post(path, json={"schedule_id": schedule}), 404)["code"] == (
            "schedule_not_found"
        )
    assert (await other.get("/v1/status")).json()["dead_letters"] == 0
    assert await listed(other, dead_letter="true") == []
    assert await listed(client, dead_letter="true") == [failed]


async def test_a_key_of_one_conversation_reaches_its_own_only(
    app: Litestar, db: Database, client: AsyncClient, failing: Failing
) -> None:
    [outside] = await failing.dead_letters(client)
    [inside] = await failing.dead_letters(client)
    schedule = (await client.get(f"/v1/runs/{inside}")).json()["schedule_id"]
    owner = (await client.get(f"/v1/schedules/{schedule}")).json()["conversation_id"]
    async with client_with(app, await key_of(db, "ada", conversation=owner)) as bound:
        assert await listed(bound, dead_letter="true") == [inside]
        for verb in ("requeue", "discard"):
            assert steps.problem(await bound.post(f"/v1/runs/{outside}/{verb}"), 404)["code"] == "run_not_found"
        done = (await bound.post("/v1/runs/requeue", json={"all": True})).json()
    assert [each["run_id"] for each in done["runs"]] == [inside]
    assert await listed(client, dead_letter="true") == [outside]
