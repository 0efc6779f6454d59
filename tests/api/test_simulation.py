"""Simulations over HTTP: of a schedule that is not saved, and of a saved one."""

from typing import Any

import pytest
from httpx import AsyncClient

from tests.api import steps
from tests.clock import Clock

pytestmark = pytest.mark.anyio

PATH = "/v1/schedules/simulate"


async def simulate(client: AsyncClient, path: str = PATH, **body: Any) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_every_second_slot_of_a_run_that_takes_too_long(client: AsyncClient, clock: Clock) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")

    found = await simulate(client, cron="0 * * * *", timezone="Europe/Berlin", run_seconds=4000, timeout_seconds=7200)

    assert found["outcome"] == (
        "24 slots: 11 completed, 12 skipped because the run before still held the slot, 1 still running at the end."
    )
    assert (found["start"], found["until"]) == ("2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z")
    assert (found["totals"], found["reasons"]) == ({"completed": 11, "skipped": 12, "running": 1}, {"overlap": 12})
    assert found["runs"][0] == {
        "fire_at": "2026-05-01T01:00:00Z",
        "local": "Fri 2026-05-01 03:00 +02:00",
        "status": "completed",
        "reason": None,
        "error_code": None,
        "missed_until": None,
        "missed_count": None,
        "started_at": "2026-05-01T01:00:00Z",
        "ended_at": "2026-05-01T02:06:40Z",
        "waited_seconds": 0,
        "attempts": 1,
        "restarts": 0,
        "in_line": 0,
    }
    assert (found["runs"][1]["status"], found["runs"][1]["reason"]) == ("skipped", "overlap")
    assert found["timeline"][:3] == [
        {"at": "2026-05-01T00:00:00Z", "in_flight": 0, "waiting": 0},
        {"at": "2026-05-01T01:00:00Z", "in_flight": 1, "waiting": 0},
        {"at": "2026-05-01T02:06:40Z", "in_flight": 0, "waiting": 0},
    ]
    assert (found["status"], found["next_fire_at"]) == ("active", "2026-05-02T01:00:00Z")
    assert (await client.get("/v1/schedules")).json()["items"] == []


async def test_what_is_supposed_acts(client: AsyncClient) -> None:
    found = await simulate(
        client,
        every="1h",
        overlap="queue",
        **{"from": "2026-05-01T00:00:00Z"},
        span="6h",
        fails_every=1,
        retry={"max_attempts": 2},
        down=[{"from": "2026-05-01T01:30:00Z", "until": "2026-05-01T03:30:00Z"}],
    )

    assert [(run["fire_at"][11:16], run["status"], run["attempts"], run["missed_count"]) for run in found["runs"]] == [
        ("01:00", "failed", 2, None),
        ("02:00", "missed", 0, 2),
        ("04:00", "failed", 2, None),
        ("05:00", "failed", 2, None),
    ]
    assert found["status"] == "paused"
    assert found["paused_at"] == "2026-05-01T05:02:30Z"
    assert "3 failures in a row paused the schedule on Fri 2026-05-01 05:02 +00:00." in found["outcome"]


async def test_a_run_that_takes_longer_than_it_may_is_told(client: AsyncClient) -> None:
    found = await simulate(client, every="1h", run_seconds=2400, span="2h30m")
    assert found["outcome"] == "2 slots: 2 failed because an attempt took longer than timeout_seconds allows (30m)."
    assert [run["error_code"] for run in found["runs"]] == ["timeout", "timeout"]


async def test_what_is_left_out_is_told(client: AsyncClient) -> None:
    body: dict[str, Any] = {"every": "1h", "overlap": "allow", "run_seconds": 5400, "timeout_seconds": 7200}
    assert "take turns" in (await simulate(client, mode="append", **body))["outcome"]
    assert "take turns" not in (await simulate(client, mode="fork", **body))["outcome"]
    assert "take turns" not in (await simulate(client, mode="append", max_concurrency=1, **body))["outcome"]


async def test_a_wall_clock_is_the_schedules(client: AsyncClient) -> None:
    found = await simulate(
        client,
        every="1h",
        timezone="Europe/Berlin",
        **{"from": "2026-05-01T02:00"},
        span="4h",
        down=[{"from": "2026-05-01T03:30", "until": "2026-05-01T04:30"}],
    )
    assert found["start"] == "2026-05-01T00:00:00Z"
    assert [run["status"] for run in found["runs"]] == ["completed", "missed", "completed", "running"]


async def test_a_saved_schedule_has_its_own_policies(client: AsyncClient, clock: Clock) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    owner = await steps.conversation(client)
    made = await steps.schedule(client, owner, every="1h", overlap="replace", timeout_seconds=7200, max_runs=3)
    path = f"/v1/schedules/{made['id']}/simulate"

    found = await simulate(client, path, run_seconds=5400, stop_seconds=10)

    assert [(run["status"], run["ended_at"]) for run in found["runs"]] == [
        ("cancelled", "2026-05-01T02:00:10Z"),
        ("cancelled", "2026-05-01T03:00:10Z"),
        ("completed", "2026-05-01T04:30:10Z"),
    ]
    assert (found["status"], found["next_fire_at"]) == ("completed", None)
    assert (await client.get(f"/v1/schedules/{made['id']}")).json() == made
    await client.post(f"/v1/schedules/{made['id']}/pause")
    assert await simulate(client, path, run_seconds=5400, stop_seconds=10) == found
    await client.delete(f"/v1/schedules/{made['id']}")
    assert steps.problem(await client.post(path, json={}), 409)["code"] == "schedule_cancelled"


async def test_limits_that_would_refuse_it_are_shown(client: AsyncClient) -> None:
    found = await simulate(client, cron="* * * * *", span="1h")
    assert [problem["code"] for problem in found["problems"]] == ["interval_too_short"]
    assert found["slots"] == 60


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({"every": "2h", "span": "32d"}, ["simulation_too_long"]),
        ({"cron": "* * * * *", "span": "7d"}, ["simulation_too_many_slots"]),
        ({"webhook": True}, ["simulation_of_webhook"]),
        ({"every": "2h", "span": "90s"}, ["duration_seconds"]),
        ({"every": "2h", "from": "9999-01-01T00:00:00Z"}, ["simulation_out_of_range"]),
        ({"every": "2h", "from": "0001-01-01T00:00:00+14:00"}, ["simulation_out_of_range"]),
        ({"every": "2h", "timezone": "Berlin"}, ["unknown_timezone"]),
        ({"every": "2h", "timezone": "Berlin", "from": "2026-01-01T00:00"}, ["unknown_timezone"]),
        (
            {"every": "2h", "down": [{"from": "2020-01-01T00:00Z", "until": "2020-01-02T00:00Z"}]},
            ["simulation_down_outside"],
        ),
        ({"every": "2h", "run_seconds": 0}, ["out_of_range"]),
        ({}, ["timing_exactly_one"]),
    ],
)
async def test_what_cannot_be_simulated_is_refused(client: AsyncClient, body: dict[str, Any], codes: list[str]) -> None:
    details = steps.problem(await client.post(PATH, json=body), 422)
    assert [error["code"] for error in details["errors"]] == codes
    assert all(error["fix"] for error in details["errors"])


async def test_somebody_elses_schedule_is_absent(client: AsyncClient, other: AsyncClient) -> None:
    made = await steps.schedule(client, await steps.conversation(client))
    steps.problem(await other.post(f"/v1/schedules/{made['id']}/simulate", json={}), 404)
