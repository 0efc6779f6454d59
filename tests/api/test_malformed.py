"""Whatever is sent to whatever route, it is no failure of ours: never a 5xx, always a problem or an answer."""

import json
from typing import Any

import pytest
from httpx import AsyncClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api import steps
from tests.api.conforming import SPECIFICATION

pytestmark = pytest.mark.anyio

WITH_BODY = [
    (method, path, operation)
    for path, item in SPECIFICATION["paths"].items()
    for method, operation in item.items()
    if "requestBody" in operation and "/admin/" not in path
]
JSON = {"Content-Type": "application/json", "If-Match": "1"}

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=30),
    st.sampled_from(
        [
            "",
            "\x00",
            "\x7f",
            "0 9 * * *",
            "*/5 * * * *",
            "5m",
            "P1D",
            "2099-12-31T23:59",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "2026-13-45",
            "../../etc/passwd",
            "Europe/../UTC",
            "posixrules",
            "cancelled",
            2**31,
            2**63,
            10**30,
            -0.0,
        ]
    ),
)
VALUES = st.recursive(
    ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def names_of(operation: dict[str, Any]) -> list[str]:
    """The fields that the operation's body may have."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    reference = schema.get("$ref", "")
    return list(
        SPECIFICATION["components"]["schemas"].get(reference.rpartition("/")[2], schema).get("properties", {})
    ) or ["x"]


@st.composite
def bodies(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A body for every operation: some of its fields, with odd values; what it requires is often there."""
    made = []
    for _, _, operation in WITH_BODY:
        names = draw(st.lists(st.sampled_from(names_of(operation)), max_size=4, unique=True))
        made.append(
            draw(st.sampled_from([{}, {"prompt": "x", "cron": "0 9 * * *"}])) | {name: draw(VALUES) for name in names}
        )
    return made


@given(values=bodies())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_odd_values_are_refused_or_taken(values: list[dict[str, Any]], client: AsyncClient) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    ids = {"conversation_id": schedule["conversation_id"], "schedule_id": schedule["id"], "run_id": 1, "name": "x"}

    for (method, path, operation), body in zip(WITH_BODY, values, strict=True):
        answer = await client.request(method, path.format(**ids), content=json.dumps(body), headers=JSON)
        assert answer.status_code < 500, f"{operation['operationId']} {body}"
    await client.delete(f"/v1/conversations/{schedule['conversation_id']}")


BROKEN = [
    b"",
    b"{",
    b"\xff",
    b"null",
    b"[]",
    b"0",
    b'"x"',
    b"[" * 10_000,
    b'{"a":NaN}',
    b'{"\\u0000":1}',
    b"x" * 1_000_001,
]


async def test_no_route_fails_over_a_broken_body(client: AsyncClient, admin: AsyncClient) -> None:
    schedule = await steps.schedule(client, await steps.conversation(client))
    ids = {"conversation_id": schedule["conversation_id"], "schedule_id": schedule["id"], "name": "x", "token": "x"}
    ids |= dict.fromkeys(("run_id", "task_id", "backfill_id"), 1)
    for path, item in SPECIFICATION["paths"].items():
        for method, operation in item.items():
            for body in BROKEN if method != "delete" else [b"{"]:
                answer = await admin.request(method, path.format(**ids), content=body, headers=JSON)
                where = f"{operation['operationId']} {body[:20]!r} {answer.text}"
                assert answer.status_code < 500, where
                if method in ("post", "patch") and body:
                    assert answer.status_code >= 400, where
