"""A message that is a command is answered at once, whoever is allowed to speak; any other one becomes a task."""

import pytest
from httpx import AsyncClient
from litestar import Litestar

from agentsched.core.words import Scope
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import CountingWaker, client_with, key_of
from tests.api.test_task_token import AGENT, scheduled, take

pytestmark = pytest.mark.anyio

ADD = {"text": "/schedule add 0 9 * * 1-5 Check my open pull requests"}


async def test_a_command_is_answered_and_a_message_accepted(client: AsyncClient, waker: CountingWaker) -> None:
    owner = await steps.conversation(client)
    path = f"/v1/conversations/{owner}/messages"
    answer = await client.post(path, json=ADD)
    assert answer.status_code == 200
    assert answer.json()["reply"].startswith("I have scheduled this as number 1: every weekday at 09:00 (UTC)")
    [made] = (await client.get(f"/v1/conversations/{owner}/schedules")).json()["items"]
    assert (made["number"], made["prompt"]) == (1, "Check my open pull requests")
    history = (await client.get(f"/v1/schedules/{made['id']}/changes")).json()["items"]
    assert history[0]["actor"].startswith("key:")
    assert (await client.post(path, json={"text": "/nonsense"})).status_code == 200
    assert (await client.get(f"/v1/conversations/{owner}/entries")).json()["items"] == []
    assert waker.calls == 0
    for text in (" /schedules", "//schedules", "every weekday at 9, /schedule it"):
        accepted = await client.post(path, json={"text": text})
        assert (accepted.status_code, list(accepted.json())) == (202, ["task_id"])


async def test_a_run_that_is_asked_for_twice_with_one_key_is_one(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    path = f"/v1/conversations/{owner}/messages"
    await client.post(path, json=ADD)
    headers = {"Idempotency-Key": "m-1"}
    replies = [(await client.post(path, json={"text": "/schedule run 1"}, headers=headers)).json() for _ in range(2)]
    assert replies[0] == replies[1]
    assert len((await client.get("/v1/runs")).json()["items"]) == 1


async def test_whose_command_is_answered(
    app: Litestar, client: AsyncClient, other: AsyncClient, db: Database, settings: Settings
) -> None:
    owner, elsewhere = await steps.conversation(client), await steps.conversation(client)
    path, foreign = f"/v1/conversations/{owner}/messages", f"/v1/conversations/{elsewhere}/messages"
    steps.problem(await other.post(path, json=ADD), 404)
    steps.problem(await client.post("/v1/conversations/999/messages", json=ADD), 404)
    async with client_with(app, await key_of(db, "ada", conversation=owner)) as bound:
        assert (await bound.post(path, json=ADD)).status_code == 200
        steps.problem(await bound.post(foreign, json=ADD), 404)
    async with client_with(app, await key_of(db, "ada", Scope.WORKER)) as worker:
        steps.problem(await worker.post(path, json=ADD), 403)
    schedule, task = await scheduled(client, db, settings)
    own = f"/v1/conversations/{schedule['conversation_id']}/messages"
    async with client_with(app, task.token) as agent:
        refused = steps.problem(await agent.post(own, json={"text": "/schedules"}), 403)
        assert refused["code"] == "scheduled_run_cannot_schedule"


async def test_a_models_command_is_a_models(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    """A budget refuses it, as it would through a tool; a person is not refused."""
    owner = await steps.conversation(client, agent=AGENT)
    path = f"/v1/conversations/{owner}/messages"
    await client.post(path, json={"text": "/schedule add every 2h Look --daily-run-limit 1"})
    run = {"text": "/schedule run 1"}
    assert "has been started" in (await client.post(path, json=run)).json()["reply"]
    await client.post(path, json={"text": "again, please"})
    [task] = [task for task in [await take(db, settings), await take(db, settings)] if task.run_id is None]
    async with client_with(app, task.token) as agent:
        assert "Nothing was done." in (await agent.post(path, json=run)).json()["reply"]
    assert "has been started" in (await client.post(path, json=run)).json()["reply"]
