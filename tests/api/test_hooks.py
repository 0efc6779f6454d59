"""`/hooks` as senders see it, and that no token gets into what is written."""

import io
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog
from httpx import AsyncClient
from litestar import Litestar
from sqlalchemy import text

from agentsched import telemetry
from agentsched.api.app import create_app
from agentsched.core.credentials import Prefix, is_well_formed
from agentsched.core.hook_body import MAX_BODY_BYTES
from agentsched.settings import Settings
from agentsched.store import deliveries, schedules
from agentsched.store.database import Database
from tests.api import steps
from tests.api.conftest import CountingWaker, client_with

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


@pytest.fixture
async def sender(app: Litestar) -> AsyncIterator[AsyncClient]:
    """Somebody without a key."""
    async with client_with(app, None) as anybody:
        yield anybody


async def webhook(client: AsyncClient, **fields: object) -> dict[str, Any]:
    return await steps.schedule(client, await steps.conversation(client), webhook=True, **fields)


async def test_a_token_is_shown_once(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    client.headers["Idempotency-Key"] = "once"
    made = await steps.schedule(client, owner, webhook=True)
    replay = await steps.create(client, owner, webhook=True)
    del client.headers["Idempotency-Key"]

    assert is_well_formed(made["token"], Prefix.WEBHOOK_TOKEN)
    assert made["webhook_url"] == f"/hooks/{made['token']}"
    assert replay.headers["idempotent-replayed"] == "true"
    shown = {name: value for name, value in made.items() if name not in ("token", "webhook_url")}
    assert replay.json() == shown
    assert (await client.get(f"/v1/schedules/{made['id']}")).json() == shown
    assert (await client.get("/v1/schedules")).json()["items"] == [shown]
    assert (shown["kind"], shown["overlap"], shown["summary"]) == ("webhook", "queue", "On a webhook call")


async def test_other_schedules_have_no_token(client: AsyncClient) -> None:
    made = await steps.schedule(client, await steps.conversation(client))
    assert not {"token", "webhook_url"} & made.keys()


async def test_a_delivery_by_path_and_by_header(client: AsyncClient, sender: AsyncClient, waker: CountingWaker) -> None:
    made = await webhook(client)
    before = waker.calls

    first = await sender.post(made["webhook_url"], json={"n": 1})
    second = await sender.post("/hooks", json={"n": 1}, headers={"Authorization": f"bearer {made['token']}"})

    assert (first.status_code, first.json()["status"]) == (202, "pending")
    assert (second.status_code, second.json()["status"]) == (202, "queued")
    assert first.json().keys() == {"run_id", "status"}
    assert waker.calls == before + 2
    run = (await client.get(f"/v1/runs/{first.json()['run_id']}")).json()
    assert (run["trigger"], run["schedule_id"]) == ("webhook", made["id"])


async def test_a_skip_says_why(client: AsyncClient, sender: AsyncClient) -> None:
    made = await webhook(client, overlap="skip")
    await sender.post(made["webhook_url"])
    skipped = await sender.post(made["webhook_url"])
    assert skipped.status_code == 202
    answer = skipped.json()
    assert (answer["status"], answer["reason"]) == ("skipped", "overlap")
    assert answer["reason_text"].startswith("skipped: run")


@pytest.mark.parametrize(
    ("headers", "same"),
    [
        ({"Idempotency-Key": "a b"}, {"Idempotency-Key": '"a b"'}),
        ({"webhook-id": "msg_1"}, {"webhook-id": "msg_1"}),
        ({"X-GitHub-Delivery": "72d3162e"}, {"X-GitHub-Delivery": "72d3162e"}),
        ({"Idempotency-Key": "k", "webhook-id": "1"}, {"Idempotency-Key": "k", "X-GitHub-Delivery": "2"}),
        ({"Idempotency-Key": "x" * 255}, {"webhook-id": "x" * 255}),
    ],
)
async def test_keys(client: AsyncClient, sender: AsyncClient, headers: dict[str, str], same: dict[str, str]) -> None:
    url = (await webhook(client))["webhook_url"]
    first = await sender.post(url, json=1, headers=headers)
    again = await sender.post(url, json=1, headers=same)

    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    other = steps.problem(await sender.post(url, json=2, headers=same), 422)
    assert other["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("key", [b"", b'""', b"x" * 256, b"a\tb", b"a\x80"])
@pytest.mark.parametrize("header", [b"Idempotency-Key", b"webhook-id"])
async def test_what_is_no_key(client: AsyncClient, sender: AsyncClient, header: bytes, key: bytes) -> None:
    url = (await webhook(client))["webhook_url"]
    details = steps.problem(await sender.post(url, json=1, headers=[(header, key)]), 400)
    assert details["code"] == "idempotency_key_invalid"
    assert header.decode() in details["detail"]
    assert (await client.get("/v1/runs")).json()["items"] == []


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ({"content-type": "application/xml"}, b"<a/>", 415, "unsupported_media_type"),
        ({}, b"x", 415, "unsupported_media_type"),
        (JSON | {"content-encoding": "gzip"}, b"{}", 415, "unsupported_media_type"),
        (JSON, b"", 400, "json_malformed"),
        (JSON, b'{"a": NaN}', 400, "json_malformed"),
        (JSON, b'{"a": 1, "a": 2}', 400, "json_duplicate_key"),
        (JSON, b"[" * 100_000, 400, "json_too_deep"),
        (JSON, b'"\\u0000"', 400, "nul_character"),
        (JSON, b'"\xff"', 400, "body_not_utf8"),
        ({"content-type": "text/plain"}, b"\x00", 400, "nul_character"),
        (JSON, b"1" * (MAX_BODY_BYTES + 1), 413, "body_too_large"),
    ],
)
async def test_bodies_that_are_refused(
    client: AsyncClient, sender: AsyncClient, headers: dict[str, str], body: bytes, status: int, code: str
) -> None:
    url = (await webhook(client))["webhook_url"]
    details = steps.problem(await sender.post(url, content=body, headers=headers), status)
    assert details["code"] == code
    assert (await client.get("/v1/runs")).json()["items"] == []


async def test_what_is_too_large_says_what_is_not(client: AsyncClient, sender: AsyncClient) -> None:
    url = (await webhook(client))["webhook_url"]
    details = steps.problem(await sender.post(url, content=b" " * MAX_BODY_BYTES + b"1", headers=JSON), 413)
    assert str(MAX_BODY_BYTES) in details["detail"]
    largest = await sender.post(url, content=b" " * (MAX_BODY_BYTES - 1) + b"1", headers=JSON)
    assert largest.status_code == 202


async def test_bodies_that_are_taken(client: AsyncClient, sender: AsyncClient) -> None:
    url = (await webhook(client))["webhook_url"]
    many = b"[" + b"1," * ((MAX_BODY_BYTES - 3) // 2) + b"1]"
    for answer in (
        await sender.post(url),
        await sender.post(url, data={"a": "1", "b": ["2", "3"]}),
        await sender.post(url, content="Grüße", headers={"content-type": "text/plain; charset=utf-8"}),
        await sender.post(url, content=many, headers=JSON),
        await sender.post(url + "?from=there", json=None),
    ):
        assert answer.status_code == 202, answer.text


@pytest.mark.parametrize("token", ["x", "asw_" + "0" * 49, "%00", "%ff", "a%2Fb", "ask_" + "0" * 49])
async def test_unknown_tokens(client: AsyncClient, sender: AsyncClient, token: str) -> None:
    by_path = await sender.post(f"/hooks/{token}", json=1)
    details = steps.problem(by_path, 404)
    assert token not in by_path.text
    if "%" not in token:
        by_header = await sender.post("/hooks", json=1, headers={"Authorization": f"Bearer {token}"})
        assert steps.problem(by_header, 404) == details
        assert details["code"] == "webhook_not_found"


async def test_an_api_key_is_no_token(client: AsyncClient) -> None:
    await webhook(client)
    steps.problem(await client.post("/hooks", json=1), 404)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic eDp5"}])
async def test_without_a_token(sender: AsyncClient, headers: dict[str, str]) -> None:
    answer = await sender.post("/hooks", json=1, headers=headers)
    assert steps.problem(answer, 401)["code"] == "token_missing"
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_paused_completed_and_cancelled(client: AsyncClient, sender: AsyncClient) -> None:
    made = await webhook(client, max_runs=1)
    schedule, url = f"/v1/schedules/{made['id']}", made["webhook_url"]
    await client.post(f"{schedule}/pause")
    assert steps.problem(await sender.post(url, json=1), 409)["code"] == "schedule_paused"
    await client.post(f"{schedule}/resume")
    assert (await sender.post(url, json=1)).status_code == 202
    assert steps.problem(await sender.post(url, json=1), 409)["code"] == "schedule_completed"
    other = await webhook(client)
    await client.delete(f"/v1/schedules/{other['id']}")
    assert steps.problem(await sender.post(other["webhook_url"], json=1), 409)["code"] == "schedule_cancelled"
    third = await webhook(client)
    await client.delete(f"/v1/conversations/{third['conversation_id']}")
    steps.problem(await sender.post(third["webhook_url"], json=1), 404)


async def test_bounds_say_when_to_come_again(
    client: AsyncClient, sender: AsyncClient, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lined = await webhook(client, queue_limit=1)
    for _ in range(2):
        await sender.post(lined["webhook_url"], json=1)
    full = await sender.post(lined["webhook_url"], json=1)
    assert (steps.problem(full, 429)["code"], full.headers["retry-after"]) == ("queue_full", "60")

    daily = await webhook(client, daily_run_limit=1)
    await sender.post(daily["webhook_url"], json=1)
    spent = await sender.post(daily["webhook_url"], json=1)
    assert steps.problem(spent, 429)["code"] == "budget_spent"
    assert 1 <= int(spent.headers["retry-after"]) <= 86_400

    monkeypatch.setattr("agentsched.service.hooks.LOCK_TIMEOUT_MS", 50)
    async with db.begin() as holder:
        await schedules.lock(holder, lined["id"])
        busy = await sender.post(lined["webhook_url"], json=1)
    assert (steps.problem(busy, 409)["code"], busy.headers["retry-after"]) == ("schedule_busy", "1")


async def test_rotation(client: AsyncClient, other: AsyncClient, sender: AsyncClient) -> None:
    made = await webhook(client)
    address = f"/v1/schedules/{made['id']}/rotate-token"
    steps.problem(await other.post(address), 404)
    steps.problem(await client.post(address, json={"grace_seconds": -1}), 422)

    second = (await client.post(address)).json()
    assert (await sender.post(made["webhook_url"])).status_code == 202
    third = (await client.post(address, json={"grace_seconds": 0})).json()

    assert second.keys() == {"token", "webhook_url", "old_valid_until"}
    for gone in (made, second):
        steps.problem(await sender.post(gone["webhook_url"]), 404)
    assert (await sender.post(third["webhook_url"])).status_code == 202
    timed = await steps.schedule(client, made["conversation_id"])
    steps.problem(await client.post(f"/v1/schedules/{timed['id']}/rotate-token"), 409)


async def test_a_database_that_is_away(client: AsyncClient, settings: Settings) -> None:
    made = await webhook(client)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        away = Database(f"postgresql://nobody@127.0.0.1:{listener.getsockname()[1]}/nothing")
        app = create_app(away, settings, CountingWaker())
        async with app.lifespan(), client_with(app, None) as sender:
            answer = await sender.post(made["webhook_url"], json=1)
        await away.close()
    assert steps.problem(answer, 503)["code"] == "database_unavailable"
    assert int(answer.headers["retry-after"]) > 0


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged, as the product logs it, at the most talkative level."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    telemetry.configure(stream=stream, level=logging.DEBUG)
    yield stream
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


async def test_no_token_is_written_anywhere(
    client: AsyncClient, sender: AsyncClient, db: Database, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await webhook(client)
    token, url, canary = made["token"], made["webhook_url"], "canary-in-the-payload"
    sender.event_hooks = {}

    answers = [
        await sender.post(url, json=canary),
        await sender.post("/hooks", json=canary, headers={"Authorization": f"Bearer {token}"}),
        await sender.post(url, content=canary, headers=JSON),
        await sender.post(url, content=canary, headers={"content-type": "application/xml"}),
        await sender.post(url, content=canary * 20_000, headers=JSON),
        await sender.post(url, json=canary, headers={"Idempotency-Key": ""}),
        await sender.get(url),
        await sender.post(f"{url}/more", json=canary),
        await sender.post(f"{url}x", json=canary),
    ]
    with monkeypatch.context() as broken:

        async def fail(*_: object) -> int:
            raise RuntimeError(f"in the handler of {url}, for {token}")

        broken.setattr(deliveries, "allocate_id", fail)
        answers.append(await sender.post(url, json=canary))
    await client.post(f"/v1/schedules/{made['id']}/pause")
    answers.append(await sender.post(url, json=canary))

    assert [answer.status_code for answer in answers] == [202, 202, 400, 415, 413, 400, 405, 404, 404, 500, 409]
    for answer in answers:
        assert token not in answer.text + repr(answer.headers)
        assert canary not in answer.text
    assert "in the handler of" in log.getvalue()
    assert token not in log.getvalue()
    assert canary not in log.getvalue()
    async with db.begin() as conn:
        tables = (await conn.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))).scalars()
        kept = [(await conn.execute(text(f'SELECT t::text FROM "{table}" t'))).scalars().all() for table in tables]
    assert "queue" in repr(kept)
    assert token not in repr(kept)
    assert token.encode().hex() not in repr(kept)
