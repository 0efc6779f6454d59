"""Steps that tests of the API begin with."""

from datetime import datetime, timedelta
from typing import Any

from httpx import AsyncClient, Response


async def conversation(client: AsyncClient, **fields: object) -> int:
    """A new conversation's id."""
    answer = await client.post("/v1/conversations", json=fields)
    assert answer.status_code == 201, answer.text
    made: int = answer.json()["id"]
    return made


async def create(client: AsyncClient, conversation_id: int, **fields: object) -> Response:
    """The answer to a new schedule, every five minutes unless other fields say otherwise."""
    timed = {"cron", "every", "at", "in", "webhook"} & fields.keys()
    body = {"prompt": "x"} | ({} if timed else {"cron": "*/5 * * * *"}) | fields
    return await client.post(f"/v1/conversations/{conversation_id}/schedules", json=body)


async def schedule(client: AsyncClient, conversation_id: int, **fields: object) -> dict[str, Any]:
    """A new schedule."""
    answer = await create(client, conversation_id, **fields)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def run(client: AsyncClient, schedule_id: int) -> dict[str, Any]:
    """A new run of a schedule, by hand."""
    answer = await client.post(f"/v1/schedules/{schedule_id}/run-now")
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()["run"]
    return made


async def backfill(client: AsyncClient, schedule: dict[str, Any]) -> dict[str, Any]:
    """A new backfill of the ten minutes before the schedule's next fire."""
    to = datetime.fromisoformat(schedule["next_fire_at"]) - timedelta(minutes=1)
    body = {"from": (to - timedelta(minutes=10)).isoformat(), "to": to.isoformat()}
    answer = await client.post(f"/v1/schedules/{schedule['id']}/backfills", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def problem(answer: Response, status: int) -> dict[str, Any]:
    """The problem details of a refusal with this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    details: dict[str, Any] = answer.json()
    assert details["status"] == status
    return details
