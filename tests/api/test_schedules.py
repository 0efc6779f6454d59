"""Schedules over HTTP: create, list, read, change, pause, resume, cancel, preview."""

from typing import Any

import pytest
from httpx import AsyncClient, Response

from tests.api import steps
from tests.api.conftest import CountingWaker
from tests.clock import Clock

pytestmark = pytest.mark.anyio


async def test_a_schedule_shows_its_effective_policies_and_next_fires(client: AsyncClient, clock: Clock) -> None:
    await clock.freeze("2026-10-23T12:00:00Z")
    owner = await steps.conversation(client, timezone="Europe/Berlin")

    answer = await steps.create(client, owner, cron="0 9 * * 1-5", name="Briefing")

    made = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (201, '"1"')
    assert made["summary"] == "Every weekday at 09:00 (Europe/Berlin)"
    assert made["next_runs"][0] == {"local": "Mon 2026-10-26 09:00 +01:00", "utc": "2026-10-26T08:00:00Z"}
    assert (made["number"], made["status"], made["overlap"], made["misfire"]) == (1, "active", "skip", "skip")
    read = await client.get(f"/v1/schedules/{made['id']}")
    assert (read.json(), read.headers["etag"]) == (made, '"1"')


async def test_every_kind_can_be_created(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    assert (await steps.schedule(client, owner, every="2h"))["kind"] == "interval"
    assert (await steps.schedule(client, owner, at="2099-12-03T09:00"))["kind"] == "once"
    assert (await steps.schedule(client, owner, **{"in": "20m"}))["kind"] == "once"


async def test_lists_show_what_lives_unless_asked(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    first, second, third = [await steps.schedule(client, owner) for _ in range(3)]
    await client.delete(f"/v1/schedules/{first['id']}")
    await client.post(f"/v1/schedules/{second['id']}/pause")
    path = f"/v1/conversations/{owner}/schedules"

    async def ids(**query: Any) -> list[int]:
        return [each["id"] for each in (await client.get(path, params=query)).json()["items"]]

    assert await ids() == [second["id"], third["id"]]
    assert await ids(status="cancelled") == [first["id"]]
    assert await ids(status=["cancelled", "paused"]) == [first["id"], second["id"]]
    page = (await client.get(path, params={"limit": 1})).json()
    assert await ids(cursor=page["next_cursor"]) == [third["id"]]
    details = steps.problem(await client.get(path, params={"status": "live"}), 422)
    assert "`active`" in details["errors"][0]["problem"]


async def test_a_misspelt_parameter_is_refused(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    schedule = await steps.schedule(client, owner)

    answer = await client.delete(f"/v1/schedules/{schedule['id']}?stop_runing=true")

    details = steps.problem(answer, 422)
    assert (details["code"], details["errors"][0]["fix"]) == ("unknown_parameter", "Did you mean `stop_running`?")
    assert (await client.get(f"/v1/schedules/{schedule['id']}")).json()["status"] == "active"


async def test_a_patch_changes_what_is_sent(client: AsyncClient, waker: CountingWaker) -> None:
    owner = await steps.conversation(client)
    made = await steps.schedule(client, owner, name="a")

    answer = await client.patch(
        f"/v1/schedules/{made['id']}", json={"prompt": "y", "cron": "0 9 * * *"}, headers={"If-Match": "1"}
    )

    changed = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert (changed["prompt"], changed["cron"], changed["name"], changed["version"]) == ("y", "0 9 * * *", "a", 2)
    assert waker.calls == 1
    quoted = await client.patch(f"/v1/schedules/{made['id']}", json={"name": "b"}, headers={"If-Match": ' "2" '})
    assert (quoted.json()["name"], quoted.json()["version"]) == ("b", 3)


async def test_a_patch_without_the_version_changes_nothing(client: AsyncClient, subtests: pytest.Subtests) -> None:
    made = await steps.schedule(client, await steps.conversation(client))
    path = f"/v1/schedules/{made['id']}"

    missing = await client.patch(path, json={"prompt": "y"})
    assert steps.problem(missing, 428)["code"] == "if_match_missing"
    for if_match in ("", "x", "*", 'W/"1"', '"1', '1"', "1, 2", "-1", "9" * 5000):
        with subtests.test(if_match=if_match):
            answer = await client.patch(path, json={"prompt": "y"}, headers={"If-Match": if_match})
            assert steps.problem(answer, 400)["code"] == "if_match_malformed"
    for if_match in ("0", '"7"'):
        with subtests.test(if_match=if_match):
            answer = await client.patch(path, json={"prompt": "y"}, headers={"If-Match": if_match})
            assert steps.problem(answer, 412)["code"] == "version_mismatch"
    assert (await client.get(path)).json() == made


async def test_pause_resume_cancel(client: AsyncClient, waker: CountingWaker) -> None:
    owner = await steps.conversation(client)
    path = f"/v1/schedules/{(await steps.schedule(client, owner))['id']}"

    paused = (await client.post(f"{path}/pause", json={"note": "holiday"})).json()
    assert (paused["status"], paused["pause_reason"], paused["pause_note"]) == ("paused", "user", "holiday")
    assert (await client.post(f"{path}/pause")).json()["pause_note"] == "holiday"
    assert waker.calls == 0
    resumed = (await client.post(f"{path}/resume", json={})).json()
    assert (resumed["status"], resumed["pause_note"]) == ("active", None)
    assert waker.calls == 1
    cancelled = (await client.delete(path)).json()
    assert (cancelled["status"], cancelled["next_runs"]) == ("cancelled", [])
    assert (await client.delete(path)).status_code == 200
    for answer in (
        await client.post(f"{path}/resume"),
        await client.post(f"{path}/pause"),
        await client.post(f"{path}/run-now"),
        await client.patch(path, json={"prompt": "y"}, headers={"If-Match": "1"}),
    ):
        assert steps.problem(answer, 409)["code"] == "schedule_cancelled"


async def test_a_repeated_create_makes_one_schedule(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    path, body = f"/v1/conversations/{owner}/schedules", {"every": "1h", "prompt": "x"}
    first = await client.post(path, json=body, headers={"Idempotency-Key": "s-1"})

    again = await client.post(path, json=body, headers={"Idempotency-Key": '"s-1"'})

    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert len((await client.get(path)).json()["items"]) == 1


async def test_schedules_are_listed_by_conversation_and_over_all(client: AsyncClient) -> None:
    here, there = await steps.conversation(client), await steps.conversation(client)
    first = await steps.schedule(client, here)
    second = await steps.schedule(client, there)

    def ids(answer: Response) -> list[int]:
        return [item["id"] for item in answer.json()["items"]]

    assert ids(await client.get("/v1/schedules")) == [first["id"], second["id"]]
    assert ids(await client.get(f"/v1/conversations/{there}/schedules")) == [second["id"]]
    page = (await client.get("/v1/schedules", params={"limit": 1})).json()
    assert ids(await client.get("/v1/schedules", params={"cursor": page["next_cursor"]})) == [second["id"]]


async def test_what_the_server_injects_is_no_parameter(client: AsyncClient) -> None:
    details = steps.problem(await client.get("/v1/schedules", params={"parts": "1"}), 422)
    assert details["code"] == "unknown_parameter"
    assert details["errors"][0]["fix"] == "There are `status`, `limit`, `cursor`."


async def test_run_now_runs_once_a_key(client: AsyncClient, waker: CountingWaker) -> None:
    owner = await steps.conversation(client)
    path = f"/v1/schedules/{(await steps.schedule(client, owner))['id']}/run-now"

    first = await client.post(path, headers={"Idempotency-Key": "r-1"})
    again = await client.post(path, headers={"Idempotency-Key": "r-1"})
    second = await client.post(path)

    assert (first.status_code, again.status_code, second.status_code) == (201, 201, 201)
    run = first.json()["run"]
    assert run["id"] == again.json()["run"]["id"] != second.json()["run"]["id"]
    assert (run["trigger"], run["status"]) == ("manual", "pending")
    assert again.headers["idempotent-replayed"] == "true"
    assert waker.calls == 3


async def test_a_preview_saves_nothing_and_passes_limits(client: AsyncClient, clock: Clock) -> None:
    await clock.freeze("2026-03-28T12:00:00Z")
    body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "count": 2}

    preview = (await client.post("/v1/schedules/preview", json=body)).json()

    assert [each["local"] for each in preview["next_runs"]] == [
        "Sun 2026-03-29 03:00 +02:00",
        "Mon 2026-03-30 02:30 +02:00",
    ]
    assert preview["problems"] == []
    crowded = (await client.post("/v1/schedules/preview", json={"cron": "* * * * *", "count": 100})).json()
    assert [each["code"] for each in crowded["problems"]] == ["interval_too_short"]
    assert len(crowded["next_runs"]) == 100
    refused = await client.post("/v1/schedules/preview", json={"cron": "R R * * *"})
    assert steps.problem(refused, 422)["code"] == "cron_random"
    many = await client.post("/v1/schedules/preview", json={"cron": "0 9 * * *", "count": 101})
    assert steps.problem(many, 422)["errors"][0]["fix"] == "Send 100 or less."


async def test_a_preview_until_no_instant_is_refused(client: AsyncClient) -> None:
    body = {"every": "2h", "ends_at": "2030-01-01T00:00:00"}
    details = steps.problem(await client.post("/v1/schedules/preview", json=body), 422)
    assert details["code"] == "ends_at_naive"


async def test_a_saved_schedule_is_previewed(client: AsyncClient) -> None:
    owner = await steps.conversation(client)
    made = await steps.schedule(client, owner)
    path = f"/v1/schedules/{made['id']}/preview"

    assert len((await client.get(path)).json()["next_runs"]) == 5
    preview = (await client.get(path, params={"count": 100})).json()
    assert preview["next_runs"][:3] == made["next_runs"]
    assert len(preview["next_runs"]) == 100
    for count in ("0", "101", "x"):
        steps.problem(await client.get(path, params={"count": count}), 422)


async def test_the_history_says_who_changed_what_and_when(client: AsyncClient, clock: Clock) -> None:
    await clock.freeze("2026-05-01T00:00:30Z")
    schedule = await steps.schedule(client, await steps.conversation(client), prompt="look")
    path = f"/v1/schedules/{schedule['id']}"
    await client.patch(path, json={"prompt": "look closely"}, headers={"If-Match": "1"})
    await client.post(f"{path}/pause", json={"note": "holiday"})
    await client.post(f"{path}/resume", json={"catch_up": "latest"})
    await client.delete(path)

    found = (await client.get(f"{path}/changes")).json()["items"]

    assert [(each["action"], each["version"]) for each in found] == [
        ("created", 1),
        ("updated", 2),
        ("paused", 2),
        ("resumed", 2),
        ("cancelled", 2),
    ]
    assert [found[1]["changes"], found[2]["changes"], found[3]["changes"]] == [
        {"prompt": "look closely"},
        {"note": "holiday"},
        {"catch_up": "latest"},
    ]
    assert {each["created_at"] for each in found} == {"2026-05-01T00:00:30Z"}
    assert all(each["actor"].startswith("key:") for each in found)
    page = (await client.get(f"{path}/changes", params={"limit": 2})).json()
    rest = (await client.get(f"{path}/changes", params={"cursor": page["next_cursor"]})).json()
    assert [*page["items"], *rest["items"]] == found


async def test_a_preview_shows_the_policies_in_force(client: AsyncClient) -> None:
    answer = await client.post("/v1/schedules/preview", json={"every": "1h", "timezone": "UTC", "overlap": "allow"})
    policies = answer.json()["policies"]
    assert (policies["overlap"], policies["max_concurrency"], policies["misfire_grace_seconds"]) == ("allow", None, 120)
    schedule = await steps.schedule(client, await steps.conversation(client), overlap="queue", queue_limit=3)
    saved = (await client.get(f"/v1/schedules/{schedule['id']}/preview")).json()["policies"]
    assert saved == {name: schedule[name] for name in saved}
    assert saved["queue_limit"] == 3


async def test_a_schedule_shows_the_agent_of_its_fresh_runs(client: AsyncClient) -> None:
    agent = {"harness": "echo", "model": "m", "instructions": "Be brief.", "tools": ["look"], "settings": {"t": 1}}
    schedule = await steps.schedule(client, await steps.conversation(client), mode="fresh", agent=agent)
    assert schedule["agent"] == agent
