"""Who may ask for what: keys, scopes, and keys of one conversation (DESIGN §10)."""

import pytest
from httpx import AsyncClient
from litestar import Litestar

from agentsched.core.credentials import Prefix, compose
from agentsched.core.words import Scope
from agentsched.service import keys
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import client_with, key_of

pytestmark = pytest.mark.anyio

BASIC = "Basic YWRhOmFkYQ=="


async def test_without_a_key_nothing_is_answered(app: Litestar, client: AsyncClient, subtests: pytest.Subtests) -> None:
    async with client_with(app, None) as nobody:
        for header in (None, "", "Bearer", "Bearer ", "Bearer x", BASIC, "ask_1", "Bearer ask_é"):
            with subtests.test(header=header):
                headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]

                answer = await nobody.post("/v1/conversations", content=b"not even JSON", headers=headers)

                details = steps.problem(answer, 401)
                assert details["code"] == ("key_missing" if header is None else "key_invalid")
                assert answer.headers["www-authenticate"].startswith('Bearer realm="agentsched"')
    assert (await client.get("/v1/conversations")).json()["items"] == []


async def test_unknown_and_revoked_keys_are_answered_alike(app: Litestar, db: Database) -> None:
    principal = await keys.ensure_principal(db, "ada")
    key_id, revoked = await keys.create_key(db, principal.id, scope=Scope.ADMIN, label="old")
    unknown = compose(Prefix.API_KEY, b"\x01" * 32)
    task_token = compose(Prefix.TASK_TOKEN, b"\x01" * 32)
    async with client_with(app, revoked) as holder:
        assert (await holder.get("/v1/status")).status_code == 200
        await keys.revoke_key(db, principal.id, key_id)

        answers = [
            await holder.get("/v1/status", headers={"Authorization": f"Bearer {key}"})
            for key in (revoked, unknown, task_token, revoked[:-1])
        ]

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert revoked not in answers[0].text


async def test_the_scheme_is_case_insensitive(app: Litestar, db: Database) -> None:
    key = await key_of(db, "ada")
    async with client_with(app, None) as somebody:
        assert (await somebody.get("/v1/status", headers={"Authorization": f"bearer {key}"})).status_code == 200


async def test_a_worker_key_reads_the_status_and_nothing_else(app: Litestar, db: Database, client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    async with client_with(app, await key_of(db, "ada", Scope.WORKER)) as worker:
        assert (await worker.get("/v1/status")).status_code == 200
        for answer in (
            await steps.create(worker, owner),
            await worker.post(f"/v1/conversations/{owner}/messages", json={"text": "hi"}),
            await worker.get("/v1/conversations"),
            await worker.get("/v1/runs"),
            await worker.post("/v1/admin/tick"),
        ):
            assert steps.problem(answer, 403)["code"] == "scope_insufficient"


async def test_the_tick_by_hand_is_for_admins(client: AsyncClient, admin: AsyncClient) -> None:
    assert steps.problem(await client.post("/v1/admin/tick"), 403)["code"] == "scope_insufficient"
    assert (await admin.post("/v1/admin/tick")).status_code == 200
    assert (await admin.get("/v1/conversations")).status_code == 200


async def test_a_key_of_one_conversation_sees_no_other(app: Litestar, db: Database, client: AsyncClient) -> None:
    mine, another = await steps.conversation(client), await steps.conversation(client)
    elsewhere = await steps.schedule(client, another)
    key = await key_of(db, "ada", conversation=mine)
    async with client_with(app, key) as bound:
        assert [each["id"] for each in (await bound.get("/v1/conversations")).json()["items"]] == [mine]
        assert (await steps.create(bound, mine)).status_code == 201
        steps.problem(await steps.create(bound, another), 404)
        steps.problem(await bound.get(f"/v1/schedules/{elsewhere['id']}"), 404)
        refused = await bound.post("/v1/conversations", json={})
        assert steps.problem(refused, 403)["code"] == "key_of_one_conversation"


async def test_health_needs_no_key(app: Litestar) -> None:
    async with client_with(app, None) as nobody:
        assert (await nobody.get("/health/live")).json() == {"status": "alive"}
        assert (await nobody.get("/health/ready")).json() == {"status": "ready"}
