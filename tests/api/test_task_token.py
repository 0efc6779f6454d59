"""What the token of a running task may do, which its lineage decides (DESIGN §10)."""

import pytest
from httpx import AsyncClient
from litestar import Litestar

from agentsched.core.attempt import End
from agentsched.service import claim, finish
from agentsched.service.claim import Claimed
from agentsched.service.settle import Report
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.api import steps
from tests.api.conforming import SPECIFICATION
from tests.api.conftest import client_with

pytestmark = pytest.mark.anyio

CHANGING = [
    (method, path, operation)
    for path, item in SPECIFICATION["paths"].items()
    for method, operation in item.items()
    if method != "get" and not path.startswith("/hooks")
]
FOR_SCHEDULED = {"cancel_schedule", "create_subtask"}
AGENT = {"harness": people.HARNESS}


async def take(db: Database, settings: Settings) -> Claimed:
    [task] = await claim.claim(db, settings, worker="w1", harnesses=[people.HARNESS], max_tasks=1)
    return task


async def scheduled(client: AsyncClient, db: Database, settings: Settings) -> tuple[dict[str, object], Claimed]:
    """A schedule, and a running task of it."""
    schedule = await steps.schedule(client, await steps.conversation(client, agent=AGENT))
    await steps.run(client, schedule["id"])
    return schedule, await take(db, settings)


async def test_a_scheduled_run_is_refused_everything_that_changes_something(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings, subtests: pytest.Subtests
) -> None:
    schedule, task = await scheduled(client, db, settings)
    ids = {
        "conversation_id": schedule["conversation_id"],
        "schedule_id": schedule["id"],
        "run_id": task.run_id,
        "task_id": task.id,
        "backfill_id": 1,
        "name": "schedule_create",
    }
    async with client_with(app, task.token) as agent:
        for method, path, operation in CHANGING:
            if operation["operationId"] in FOR_SCHEDULED:
                continue
            with subtests.test(operation=operation["operationId"]):
                answer = await agent.request(method, path.format(**ids), json={}, headers={"If-Match": "1"})
                details = steps.problem(answer, 403)
                assert details["code"] in ("scheduled_run_cannot_schedule", "scope_insufficient")


async def test_a_scheduled_run_reads_and_cancels_its_own_schedule_and_no_other(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    schedule, task = await scheduled(client, db, settings)
    sibling = await steps.schedule(client, int(str(schedule["conversation_id"])))
    assert task.conversation_id != schedule["conversation_id"]
    async with client_with(app, task.token) as agent:
        listed = (await agent.get("/v1/schedules")).json()["items"]
        assert [each["id"] for each in listed] == [schedule["id"]]
        assert (await agent.get(f"/v1/schedules/{schedule['id']}")).status_code == 200
        steps.problem(await agent.get(f"/v1/schedules/{sibling['id']}"), 404)
        refused = steps.problem(await agent.delete(f"/v1/schedules/{sibling['id']}"), 403)
        assert refused["code"] == "scheduled_run_cancels_its_own"
        cancelled = await agent.delete(f"/v1/schedules/{schedule['id']}")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    history = (await client.get(f"/v1/schedules/{schedule['id']}/changes")).json()["items"]
    assert history[-1]["actor"] == f"task:{task.id}"


async def test_a_persons_turn_schedules_in_its_own_conversation_only(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    owner = await steps.conversation(client, agent=AGENT)
    elsewhere = await steps.conversation(client)
    await client.post(f"/v1/conversations/{owner}/messages", json={"text": "every morning, please"})
    task = await take(db, settings)
    async with client_with(app, task.token) as agent:
        assert (await steps.create(agent, owner)).status_code == 201
        steps.problem(await steps.create(agent, elsewhere), 404)


async def test_a_token_lives_as_long_as_its_fence(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    _, first = await scheduled(client, db, settings)
    await finish.release(db, settings, task_id=first.id, fence=first.fence)
    second = await take(db, settings)
    assert (second.id, second.token == first.token) == (first.id, False)
    async with client_with(app, first.token) as zombie, client_with(app, second.token) as heir:
        steps.problem(await zombie.get("/v1/schedules"), 401)
        assert (await heir.get("/v1/schedules")).status_code == 200
        await finish.report(db, settings, task_id=second.id, fence=second.fence, report=Report(End.COMPLETED))
        steps.problem(await heir.get("/v1/schedules"), 401)


async def test_a_scheduled_run_asks_for_subtasks_and_a_person_cannot(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    _, task = await scheduled(client, db, settings)
    async with client_with(app, task.token) as agent:
        accepted = await agent.post("/v1/tasks", json={"prompt": "a part"})
        assert accepted.status_code == 201
        shown = (await agent.get(f"/v1/tasks/{accepted.json()['task_id']}")).json()
        assert (shown["kind"], shown["parent_task_id"], shown["status"]) == ("subtask", task.id, "pending")
    refused = steps.problem(await client.post("/v1/tasks", json={"prompt": "a part"}), 403)
    assert refused["code"] == "task_token_needed"


async def test_the_secret_of_a_webhook_is_for_people(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    owner = await steps.conversation(client, agent=AGENT)
    await client.post(f"/v1/conversations/{owner}/messages", json={"text": "a webhook, please"})
    task = await take(db, settings)
    async with client_with(app, task.token) as agent:
        made = await steps.create(agent, owner, webhook=True)
        assert (made.status_code, "token" in made.json()) == (201, False)
        path = f"/v1/schedules/{made.json()['id']}/rotate-token"
        assert steps.problem(await agent.post(path), 403)["code"] == "secret_is_for_people"
    assert (await client.post(path)).json()["token"].startswith("asw_")
