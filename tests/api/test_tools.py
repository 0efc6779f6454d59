"""`/v1/tools`: what loops give to their models, and what they hand back to them."""

from typing import Any

import pytest
from httpx import AsyncClient, Response
from litestar import Litestar

from agentsched.core.words import Scope
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools import formats
from agentsched.tools.catalogue import TOOLS
from tests.api import steps
from tests.api.conftest import client_with, key_of
from tests.api.test_task_token import scheduled

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}


async def call(client: AsyncClient, name: str, conversation: object = None, /, **arguments: object) -> Response:
    headers = {} if conversation is None else {"X-Conversation-Id": str(conversation)}
    return await client.post(f"/v1/tools/{name}", json=arguments, headers=headers)


async def done(client: AsyncClient, name: str, conversation: object = None, /, **arguments: object) -> dict[str, Any]:
    answer = (await call(client, name, conversation, **arguments)).json()
    assert answer["is_error"] is False, answer
    data: dict[str, Any] = answer["data"]
    return data


async def test_the_tools_in_every_format(client: AsyncClient) -> None:
    assert (await client.get("/v1/tools")).json() == {"items": formats.mcp(TOOLS), "next_cursor": None}
    for name, made in (("mcp", formats.mcp), ("openai", formats.openai), ("anthropic", formats.anthropic)):
        assert (await client.get("/v1/tools", params={"format": name})).json()["items"] == made(TOOLS)
    refused = steps.problem(await client.get("/v1/tools", params={"format": "gemini"}), 422)
    assert "`anthropic`" in refused["detail"]


async def test_create_list_update_cancel(app: Litestar, client: AsyncClient, db: Database) -> None:
    owner = await steps.conversation(client)
    async with client_with(app, await key_of(db, "ada", conversation=owner)) as loop:
        made = await done(loop, "schedule_create", prompt="Check my PRs", cron="0 9 * * 1-5", name="PRs")
        assert (await client.get(f"/v1/schedules/{made['id']}")).json()["conversation_id"] == owner
        listed = await loop.post("/v1/tools/schedule_list")
        assert [each["id"] for each in listed.json()["data"]["schedules"]] == [made["id"]]
        assert (await done(loop, "schedule_update", schedule="PRs", every="2h"))["status"] == "updated"
        assert (await done(loop, "schedule_cancel", schedule=made["id"]))["status"] == "cancelled"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("schedule_create", {"prompt": "x", "cron": "0 0 9 * * *"}, "cron_six_fields"),
        ("schedule_create", {"prompt": "x", "every": "1h", "conversation_id": 1}, "unknown_field"),
        ("schedule_make", {"prompt": "x", "every": "1h"}, "unknown_tool"),
        ("schedule_cancel", {"schedule": "nothing"}, "schedule_not_found"),
        *(("schedule_create", {"prompt": "x", "every": "1h"} | {field: "a\x00b"}, None) for field in (
            "prompt", "name", "every", "timezone", "ends_at", "mode",
        )),
        *(("schedule_create", {"prompt": "x", field: "a\x00b"}, None) for field in ("cron", "at", "in")),
        ("schedule_cancel", {"schedule": "a\x00b"}, None),
    ],
)  # fmt: skip
async def test_what_a_model_can_put_right_is_handed_to_it(
    client: AsyncClient, name: str, arguments: dict[str, object], code: str | None
) -> None:
    owner = await steps.conversation(client)
    answer = await call(client, name, owner, **arguments)
    assert answer.status_code == 200
    body = answer.json()
    assert body["is_error"]
    assert body["data"]["errors"][0]["code"] in (code or body["text"])
    assert (await client.get("/v1/schedules")).json()["items"] == []


async def test_what_is_no_call_of_a_model(client: AsyncClient) -> None:
    owner = {"X-Conversation-Id": str(await steps.conversation(client))} | JSON
    for content, status, code in (
        (b"{", 400, "json_malformed"),
        (b"[]", 422, "wrong_type"),
        (b"null", 422, "wrong_type"),
    ):
        answer = await client.post("/v1/tools/schedule_list", content=content, headers=owner)
        assert steps.problem(answer, status)["code"] == code


async def test_a_key_of_all_conversations_says_which_one(client: AsyncClient, other: AsyncClient) -> None:
    mine, foreign = await steps.conversation(client), await steps.conversation(other)

    [missing] = steps.problem(await call(client, "schedule_list"), 422)["errors"]
    assert (missing["code"], missing["field"]) == ("conversation_required", "X-Conversation-Id")
    for malformed in ("", "x", "-1", "1.5", str(2**63), "²"):
        answer = await client.post("/v1/tools/schedule_list", headers=[(b"x-conversation-id", malformed.encode())])
        assert steps.problem(answer, 422)["code"] == "conversation_id_malformed"
    for absent in (foreign, 10**9):
        refused = steps.problem(await call(client, "schedule_create", absent, prompt="x", every="1h"), 404)
        assert refused["detail"].replace(str(absent), "ID").startswith("There is no conversation ID.")
    assert (await done(client, "schedule_list", mine))["schedules"] == []
    assert (await other.get("/v1/schedules")).json()["items"] == []


async def test_a_key_of_one_conversation_names_no_other(app: Litestar, client: AsyncClient, db: Database) -> None:
    mine, another = await steps.conversation(client), await steps.conversation(client)
    async with client_with(app, await key_of(db, "ada", conversation=mine)) as bound:
        assert (await call(bound, "schedule_list", mine)).status_code == 200
        steps.problem(await call(bound, "schedule_list", another), 404)


async def test_credentials(app: Litestar, db: Database) -> None:
    async with client_with(app, None) as nobody:
        steps.problem(await nobody.get("/v1/tools"), 401)
        steps.problem(await call(nobody, "schedule_list", 1), 401)
    async with client_with(app, await key_of(db, "ada", Scope.WORKER)) as worker:
        steps.problem(await worker.get("/v1/tools"), 403)
        steps.problem(await call(worker, "schedule_list", 1), 403)


async def test_a_scheduled_run_lists_and_cancels_its_own_and_nothing_else(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings
) -> None:
    schedule, task = await scheduled(client, db, settings)
    sibling = await steps.schedule(client, int(str(schedule["conversation_id"])))
    async with client_with(app, task.token) as loop:
        offered = [each["name"] for each in (await loop.get("/v1/tools")).json()["items"]]
        assert offered == ["schedule_list", "schedule_cancel", "schedule_history"]
        for name in sorted({spec.name for spec in TOOLS} - set(offered)):
            details = steps.problem(await call(loop, name, schedule=str(schedule["id"]), prompt="x", every="1h"), 403)
            assert details["code"] == "scheduled_run_cannot_schedule"
        refused = (await call(loop, "schedule_cancel", schedule=str(sibling["id"]))).json()
        assert refused["is_error"]
        assert (await done(loop, "schedule_cancel", schedule=str(schedule["id"])))["status"] == "cancelled"
    assert [each["id"] for each in (await client.get("/v1/schedules")).json()["items"]] == [sibling["id"]]
