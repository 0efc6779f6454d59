"""`/schedules/{id}/webhook`: people get the secret of a webhook here, and models never do."""

import re

import pytest
from httpx import ASGITransport, AsyncClient, Response
from litestar import Litestar

from agentsched.core.words import Scope
from agentsched.service import schedules
from agentsched.service.authenticate import authenticate
from agentsched.service.requests import NewSchedule
from agentsched.settings import Settings
from agentsched.store.database import Database
from tests import people
from tests.api import steps
from tests.api.conftest import client_with, key_of
from tests.api.test_task_token import scheduled, take

pytestmark = pytest.mark.anyio

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture
async def path(client: AsyncClient, db: Database, settings: Settings) -> str:
    """The page of a webhook that a model has made: it has no token."""
    owner = await steps.conversation(client)
    caller = await authenticate(db, await key_of(db, "ada", conversation=owner))
    assert caller is not None
    asked = NewSchedule.model_validate({"prompt": "x", "webhook": True, "name": "<b>CI</b>"})
    made = await schedules.create(db, settings, caller, owner, asked, as_tool=True)
    assert made.token is None
    return f"/schedules/{made.row.id}/webhook"


async def browse(app: Litestar, path: str, key: str | None = None) -> Response:
    """What a browser does that knows nothing of headers; with a key, the form is sent."""
    transport = ASGITransport(app)  # type: ignore[arg-type]  # Litestar has types of its own for ASGI
    async with AsyncClient(transport=transport, base_url="http://sched.example", headers=BROWSER) as browser:
        answer = await (browser.get(path) if key is None else browser.post(path, data={"key": key}))
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    assert set(re.findall(r"(?:src|href|action)=\"([^\"]*)\"", answer.text)) <= {path}
    return answer


async def test_for_programs(client: AsyncClient, path: str) -> None:
    before = await client.get(path)
    assert before.json()["has_token"] is False
    assert before.headers["cache-control"] == "no-store"

    first = await client.post(path)
    assert first.status_code == 200
    assert first.headers["cache-control"] == "no-store"
    assert (await client.post(first.json()["webhook_url"], json={})).status_code == 202
    assert (await client.get(path)).json()["has_token"] is True
    assert first.json()["token"] not in (await client.get(path)).text

    second = await client.post(path)
    for made in (first, second):
        assert (await client.post(made.json()["webhook_url"], json={})).status_code == 202, "the old one has a day more"
    actions = [
        each["action"] for each in (await client.get(f"/v1{path.removesuffix('webhook')}changes")).json()["items"]
    ]
    assert actions == ["created", "token_rotated", "token_rotated"]


async def test_for_a_person_in_a_browser(app: Litestar, client: AsyncClient, db: Database, path: str) -> None:
    page = await browse(app, path)
    assert page.status_code == 401
    assert f'<form method="post" action="{path}">' in page.text
    assert '<input type="password" name="key"' in page.text
    assert "Send an API key" not in page.text, "nothing has gone wrong yet"

    key = await key_of(db, "ada")
    shown = await browse(app, path, key)
    assert shown.status_code == 200
    [url] = set(re.findall(r"http://sched\.example(/hooks/asw_\w+)", shown.text))
    assert key not in shown.text
    assert (await client.post(url, json={})).status_code == 202

    with_header = await client.get(path, headers={"Accept": "application/json"})
    assert with_header.json()["has_token"] is True


async def test_a_browser_with_a_header_sees_what_there_is(app: Litestar, db: Database, path: str) -> None:
    transport = ASGITransport(app)  # type: ignore[arg-type]  # the same
    headers = BROWSER | {"Authorization": f"Bearer {await key_of(db, 'ada')}"}
    async with AsyncClient(transport=transport, base_url="http://sched.example", headers=headers) as browser:
        page = await browser.get(path)
    assert page.status_code == 200
    assert "has no token yet" in page.text
    assert "“&lt;b&gt;CI&lt;/b&gt;”" in page.text


async def test_wrong_keys_are_refused_on_the_page_and_get_the_form_again(
    app: Litestar, db: Database, path: str, client: AsyncClient
) -> None:
    worker = await key_of(db, "ada", Scope.WORKER)
    for key, status in (("no-such-key", 401), ("ask_é", 401), (worker, 403), (await key_of(db, "bob"), 404)):
        refused = await browse(app, path, key)
        assert refused.status_code == status
        assert "<form" in refused.text
        assert key not in refused.text
        assert "asw_" not in refused.text
    async with client_with(app, None) as nobody:
        for answer in (await nobody.get(path), await nobody.post(path)):
            assert steps.problem(answer, 401)["code"] == "key_missing"
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert (await client.get(path)).json()["has_token"] is False


async def test_schedules_that_have_no_webhook_or_have_ended(client: AsyncClient, path: str) -> None:
    timed = await steps.schedule(client, await steps.conversation(client))
    for method in ("GET", "POST"):
        refused = steps.problem(await client.request(method, f"/schedules/{timed['id']}/webhook"), 409)
        assert refused["code"] == "schedule_has_no_webhook"
    await client.delete(f"/v1{path.removesuffix('/webhook')}")
    for method in ("GET", "POST"):
        assert steps.problem(await client.request(method, path), 409)["code"] == "schedule_cancelled"


async def test_the_token_of_a_task_is_refused(
    app: Litestar, client: AsyncClient, db: Database, settings: Settings, path: str
) -> None:
    owner = await steps.conversation(client, agent={"harness": people.HARNESS})
    own = await steps.schedule(client, owner, webhook=True)
    await client.post(f"/v1/conversations/{owner}/messages", json={"text": "hi"})
    turn = await take(db, settings)
    _, run = await scheduled(client, db, settings)
    for token in (turn.token, run.token):
        async with client_with(app, token) as model:
            for address in (path, f"/schedules/{own['id']}/webhook"):
                steps.problem(await model.get(address), 403)
                steps.problem(await model.post(address), 403)
            assert (await browse(app, path, token)).status_code == 403
