"""Bodies that are not quite right: a clear refusal, and nothing is changed (DESIGN §13, §15)."""

from collections.abc import AsyncIterator

import pytest
from httpx import AsyncClient

from tests.api import steps

pytestmark = pytest.mark.anyio

JSON = "application/json"


NOT_QUITE_RIGHT = [
    (b"", JSON, 422, "missing_body"),
    (b"   ", JSON, 400, "json_malformed"),
    (b"{", JSON, 400, "json_malformed"),
    (b"{} {}", JSON, 400, "json_malformed"),
    (b"{'title': 'x'}", JSON, 400, "json_malformed"),
    (b'{"title": "x",}', JSON, 400, "json_malformed"),
    (b'{"title": "\xff"}', JSON, 400, "json_malformed"),
    (b'{"title": "\xed\xa0\x80"}', JSON, 400, "json_malformed"),
    (b'{"title": "\\ud800"}', JSON, 400, "json_malformed"),
    (b"\xef\xbb\xbf{}", JSON, 400, "json_malformed"),
    ("{}".encode("utf-16"), JSON, 400, "json_malformed"),
    (b'{"agent": {"settings": {"t": NaN}}}', JSON, 400, "json_malformed"),
    (b'{"agent": {"settings": {"t": -Infinity}}}', JSON, 400, "json_malformed"),
    (b'{"agent": {"settings": {"t": 1e999}}}', JSON, 400, "json_malformed"),
    (b'{"agent": {"settings": {"t": ' + b"9" * 5000 + b"}}}", JSON, 400, "json_malformed"),
    (b"[" * 100_000 + b"]" * 100_000, JSON, 400, "json_too_deep"),
    (b'{"agent":{"settings":' + b'{"a":' * 70 + b"1" + b"}" * 72, JSON, 400, "json_too_deep"),
    (b'{"title": "a\\u0000b"}', JSON, 422, "nul_character"),
    (b'{"agent": {"settings": {"a\\u0000": 1}}}', JSON, 422, "nul_character"),
    (b'{"agent": {"settings": {"a": ["b\\u0000"]}}}', JSON, 422, "nul_character"),
    (b'{"timezone": "UTC\\u0000"}', JSON, 422, "nul_character"),
    (b'{"title": "a\\u0007b"}', JSON, 422, "control_characters"),
    (b"[]", JSON, 422, "wrong_type"),
    (b'[{"title": "x"}]', JSON, 422, "wrong_type"),
    (b"null", JSON, 422, "wrong_type"),
    (b'"{}"', JSON, 422, "wrong_type"),
    (b"7", JSON, 422, "wrong_type"),
    (b"{}", "text/plain", 415, "unsupported_media_type"),
    (b"{}", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    (b"{}", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
    (b"{}", "application/json; charset=latin-1", 415, "unsupported_media_type"),
    (b"{}", "application/msgpack", 415, "unsupported_media_type"),
    (b"{}", "", 415, "unsupported_media_type"),
    (b"{}", "json", 415, "unsupported_media_type"),
    (b'{"title": "' + b"x" * 2_000_000 + b'"}', JSON, 413, "body_too_large"),
]


async def test_a_body_that_is_not_quite_right(client: AsyncClient, subtests: pytest.Subtests) -> None:
    for body, content_type, status, code in NOT_QUITE_RIGHT:
        with subtests.test(body=body[:60], content_type=content_type):
            answer = await client.post("/v1/conversations", content=body, headers={"Content-Type": content_type})

            details = steps.problem(answer, status)
            assert details["code"] == code
            assert details["detail"]
            assert len(answer.content) < 2000
    assert (await client.get("/v1/conversations")).json()["items"] == []


async def test_a_body_too_large_is_noticed_without_a_length(client: AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 50_000

    answer = await client.post("/v1/conversations", content=endless(), headers={"Content-Type": JSON})

    assert steps.problem(answer, 413)["code"] == "body_too_large"


async def test_a_compressed_body_is_refused(client: AsyncClient) -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    steps.problem(await client.post("/v1/conversations", content=b"{}", headers=headers), 415)


async def test_json_by_another_name_is_taken(client: AsyncClient) -> None:
    for content_type in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"):
        answer = await client.post("/v1/conversations", content=b"{}", headers={"Content-Type": content_type})
        assert answer.status_code == 201, content_type


async def test_a_body_that_may_be_left_out_is_still_checked(client: AsyncClient, subtests: pytest.Subtests) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    for action in ("pause", "resume", "run-now"):
        with subtests.test(action=action):
            path = f"/v1/schedules/{schedule['id']}/{action}"
            unknown = await client.post(path, json={"catch_upp": "all"})
            null = await client.post(path, content=b"null", headers={"Content-Type": JSON})
            plain = await client.post(path, content=b"{}", headers={"Content-Type": "text/plain"})
            assert steps.problem(unknown, 422)["code"] == "unknown_field"
            assert steps.problem(null, 422)["code"] == "wrong_type"
            assert steps.problem(plain, 415)["code"] == "unsupported_media_type"
    assert (await client.get(f"/v1/schedules/{schedule['id']}")).json() == schedule
    assert (await client.get("/v1/runs")).json()["items"] == []


NO_IDS = ("0", "-1", "9223372036854775808", "9" * 5000, "x", "1.5", "1e3", "%00", "%ff", "..", "1;2", "null", "²")


async def test_an_id_that_nothing_can_have_is_absent(client: AsyncClient, subtests: pytest.Subtests) -> None:
    for path in ("/v1/conversations/{}/entries", "/v1/schedules/{}", "/v1/runs/{}", "/v1/tasks/{}"):
        for name in NO_IDS:
            with subtests.test(path=path, name=name[:40]):
                details = steps.problem(await client.get(path.format(name)), 404)
                assert details["code"].endswith("not_found")


async def test_an_address_or_a_method_that_does_not_exist(client: AsyncClient) -> None:
    assert steps.problem(await client.get("/v1/nothing"), 404)["code"] == "address_not_found"
    assert steps.problem(await client.get("/schema/nothing"), 404)["code"] == "address_not_found"
    answer = await client.put("/v1/conversations", json={})
    assert steps.problem(answer, 405)["code"] == "method_not_allowed"
    assert {"GET", "POST"} <= set(answer.headers["allow"].split(", "))
