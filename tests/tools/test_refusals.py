"""A refused call says all that is wrong and what to write instead, so that a model can correct itself."""

import re
from typing import Any

import pytest

from agentsched.core.problems import Refused
from agentsched.service import conversations
from agentsched.service.errors import NotFound
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools.call import Toolbox
from agentsched.tools.calling import for_conversation
from agentsched.worker.pruner import Pruner
from tests import people
from tests.clock import Clock
from tests.tools.conftest import desk_of
from tests.tools.desk import Desk, Woken, codes

pytestmark = pytest.mark.anyio

CRON = "0 9 * * *"


async def test_six_fields_are_corrected_from_the_text_alone(desk: Desk) -> None:
    wrong = await desk.call("schedule_create", cron="0 0 9 * * 1-5", prompt="x")
    assert wrong.is_error
    found = re.search(r"Write `([^`]+)`", wrong.text)
    assert found is not None
    right = await desk.done("schedule_create", cron=found[1], prompt="x")
    assert right["summary"] == "Every weekday at 09:00 (Europe/Berlin)"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cron": CRON}, [("missing_field", "prompt", "Send `prompt`")]),
        ({"prompt": "x"}, [("timing_exactly_one", "cron", "Write one")]),
        ({"prompt": "x", "cron": CRON, "every": "1h"}, [("timing_exactly_one", "cron", "Write one")]),
        ({"prompt": "x", "at": "2026-10-20T18:00"}, [("at_in_past", "at", "2026-10-24T18:00")]),
        ({"prompt": "x", "at": "2025-12-24T18:00"}, [("at_in_past", "at", "2026-12-24T18:00")]),
        ({"prompt": "x", "at": "tomorrow"}, [("at_syntax", "at", "Write a date and a time")]),
        ({"prompt": "x", "every": "1m"}, [("interval_too_short", "every", '"5m"')]),
        ({"prompt": "x", "in": "90s"}, [("duration_seconds", "in", '"2m"')]),
        ({"prompt": "x", "cron": CRON, "timezone": "Berlin"}, [("unknown_timezone", "timezone", "Europe/Berlin")]),
        (
            {"prompt": "x", "at": "2026-10-20T18:00", "timezone": "Berlin"},
            [("unknown_timezone", "timezone", "Europe/Berlin")],
        ),
        (
            {"prompt": "x", "cron": CRON, "timezone": "Berlin", "ends_at": "2026-11-01T00:00"},
            [("unknown_timezone", "timezone", "Europe/Berlin")],
        ),
        ({"prompt": "x", "cron": CRON, "ends_at": "2026-10-20T09:00"}, [("ends_at_in_past", "ends_at", "2026-10-25")]),
        (
            {"prompt": "x", "cron": CRON, "ends_at": "2026-10-24T12:00"},
            [("ends_before_first_fire", "ends_at", "2026-10-25T09:00+01:00")],
        ),
        ({"prompt": "x", "cron": CRON, "mode": "forked"}, [("unknown_value", "mode", "`fork`")]),
        ({"prompt": "x", "cron": CRON, "max_runs": "many"}, [("wrong_type", "max_runs", "Send a number")]),
        ({"prompt": "x", "cron": CRON, "webhok": True}, [("unknown_field", "webhok", "`webhook`")]),
        ({"prompt": "x", "job": {"cron": CRON}}, [("unknown_field", "job", "Arguments are flat: send `cron` beside")]),
        ({"prompt": "y" * 40_000, "cron": CRON}, [("prompt_too_long", "prompt", "Shorten it")]),
        (
            {"prompt": "x", "cron": CRON, "misfire": "all", "overlap": "replace"},
            [("policy_conflict", "misfire", "`misfire: latest`")],
        ),
        (
            {"promt": "x", "cron": "61 9 * * *", "ends_at": "2026-10-20T09:00", "mode": "no"},
            [
                ("missing_field", "prompt", "Send"),
                ("unknown_value", "mode", "`fork`"),
                ("unknown_field", "promt", "`prompt`"),
                ("cron_syntax", "cron", "59"),
                ("ends_at_in_past", "ends_at", "2026-10-25T09:00"),
            ],
        ),
        (
            {"prompt": "x", "cron": "61 9 * * *", "ends_at": "soon"},
            [("cron_syntax", "cron", "59"), ("ends_at_syntax", "ends_at", "Write a date and a time")],
        ),
        (
            {"prompt": "x", "every": 5, "why": 1},
            [("unknown_field", "why", "There are"), ("duration_syntax", "every", '"5m"')],
        ),
        ({"prompt": "\ud800", "cron": CRON}, [("unreadable", "arguments", "plain text")]),
        ({"prompt": "a\x00b", "cron": CRON}, [("control_characters", "prompt", "Leave them out")]),
    ],
)
async def test_everything_that_is_wrong_is_said_at_once(
    desk: Desk, arguments: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    data = await desk.refused("schedule_create", **arguments)
    found = {(error["code"], error["field"]): error["problem"] + error["fix"] for error in data["errors"]}
    assert sorted(found) == sorted((code, field) for code, field, _ in expected)
    for code, field, fix in expected:
        assert fix in found[code, field]
    assert data["now"] == "Sat 2026-10-24 09:03 +02:00 (Europe/Berlin)"


async def test_what_was_got_is_said(desk: Desk) -> None:
    answer = await desk.call("schedule_create", prompt="x", every="1m")
    assert answer.data["errors"][0]["got"] == "1m"
    assert "every (interval_too_short), got 1m:" in answer.text


async def test_arguments_that_are_no_object_and_deep_ones_are_refused(desk: Desk) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for arguments, code in ((["x"], "wrong_type"), ("x", "wrong_type"), ({"prompt": deep}, "unreadable")):
        answer = await desk.box.call(desk.caller, "schedule_create", arguments)  # type: ignore[arg-type]  # as models do
        assert (answer.is_error, codes(answer.data)) == (True, [code])


async def test_an_unknown_tool_gets_the_near_ones(desk: Desk) -> None:
    data = await desk.refused("schedule_delete", schedule="1")
    assert "schedule_" in data["errors"][0]["fix"]
    assert codes(data) == ["unknown_tool"]


async def test_at_the_limit_the_live_schedules_are_listed(desk: Desk) -> None:
    for number in range(10):
        await desk.done("schedule_create", prompt=f"x{number}", cron=CRON, name=f"n{number}")
    data = await desk.refused("schedule_create", prompt="one more", cron="0 0 9 * * *")
    assert codes(data) == ["cron_six_fields", "too_many_schedules"]
    assert [each["name"] for each in data["schedules"]] == [f"n{number}" for number in range(10)]
    await desk.done("schedule_cancel", schedule=data["schedules"][0]["id"])
    await desk.done("schedule_create", prompt="one more", cron=CRON)


async def test_an_unknown_schedule_gets_the_live_ones(desk: Desk) -> None:
    await desk.done("schedule_create", prompt="x", cron=CRON, name="Mail")
    for called in ("Mails", "77", "1" * 90, "#1"):
        data = await desk.refused("schedule_pause", schedule=called)
        assert codes(data) == ["schedule_not_found"]
        assert data["errors"][0]["got"] == called
        assert [each["name"] for each in data["schedules"]] == ["Mail"]


async def test_a_name_that_several_have_gets_these(desk: Desk) -> None:
    first = await desk.done("schedule_create", prompt="x", cron=CRON, name="Mail")
    second = await desk.done("schedule_create", prompt="y", cron=CRON, name="MAIL")
    data = await desk.refused("schedule_cancel", schedule="mail")
    assert codes(data) == ["schedule_ambiguous"]
    assert {each["id"] for each in data["schedules"]} == {first["id"], second["id"]}
    assert (await desk.done("schedule_cancel", schedule="Mail"))["id"] == first["id"]
    assert (await desk.done("schedule_pause", schedule="mail"))["id"] == second["id"]
    await desk.done("schedule_cancel", schedule=second["id"])
    assert codes(await desk.refused("schedule_history", schedule="mail")) == ["schedule_ambiguous"]


async def test_what_has_ended_stays_so(desk: Desk) -> None:
    made = await desk.done("schedule_create", prompt="x", cron=CRON)
    await desk.done("schedule_cancel", schedule=made["id"])
    for name, more in (("schedule_update", {"prompt": "y"}), ("schedule_pause", {}), ("schedule_run_now", {})):
        data = await desk.refused(name, schedule=made["id"], **more)
        assert data["code"] == "schedule_cancelled"
        assert "Create a new one" in data["message"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, "nothing_to_change"),
        ({"cron": "0 0 9 * * *"}, "cron_six_fields"),
        ({"cron": CRON, "in": "1h"}, "timing_exactly_one"),
        ({"ends_at": "2026-10-20T09:00"}, "ends_at_in_past"),
        ({"name": "Other"}, "name_taken"),
        ({"webhook": True}, "unknown_field"),
    ],
)
async def test_what_cannot_be_changed(desk: Desk, change: dict[str, Any], code: str) -> None:
    await desk.done("schedule_create", prompt="x", cron=CRON, name="Mail")
    await desk.done("schedule_create", prompt="y", cron=CRON, name="Other")
    assert code in codes(await desk.refused("schedule_update", schedule="Mail", **change))


async def test_the_third_equal_refusal_says_stop(desk: Desk, clock: Clock, db: Database, settings: Settings) -> None:
    wrong = {"prompt": "x", "cron": "0 0 9 * * *"}
    for _ in range(2):
        assert "stop" not in await desk.refused("schedule_create", **wrong)
    assert "stop" not in await desk.refused("schedule_create", **wrong | {"prompt": "y"})
    third = await desk.call("schedule_create", **wrong)
    assert third.text.startswith("Stop: this same call has been refused 3 times in this conversation.")
    assert "ask the user" in third.data["stop"]
    elsewhere = await desk_of(db, settings, "ada")
    assert "stop" not in await elsewhere.refused("schedule_create", **wrong)
    await clock.step(hours=2)
    assert "stop" not in await desk.refused("schedule_create", **wrong)


async def test_refused_calls_are_not_kept_for_long(desk: Desk, clock: Clock) -> None:
    await desk.refused("schedule_create", prompt="x")
    pruner = Pruner(desk.db, desk.settings)
    assert await pruner.run_once() == {}
    await clock.step(days=1, minutes=1)
    assert await pruner.run_once() == {"refused_calls": 1}


async def test_the_conversation_comes_from_the_credential_or_the_call(desk: Desk) -> None:
    db, ada = desk.db, await people.somebody(desk.db)
    own = desk.caller.conversation_id
    with pytest.raises(Refused, match="X-Conversation-Id"):
        await for_conversation(db, ada, None)
    with pytest.raises(Refused, match="X-Conversation-Id"):
        await Toolbox(db, desk.settings, Woken()).call(ada, "schedule_list", {})
    bob = await people.somebody(db, "bob")
    for foreign in (await people.conversation(db, desk.settings, bob), 999):
        with pytest.raises(NotFound):
            await for_conversation(db, ada, foreign)
        with pytest.raises(NotFound):
            await for_conversation(db, desk.caller, foreign)
    made = await for_conversation(db, ada, own)
    assert (made.conversation_id, made.by_model) == (own, True)
    assert await for_conversation(db, made, None) == await for_conversation(db, made, own) == made
    assert own is not None
    await conversations.delete(db, ada, own)
    with pytest.raises(NotFound):
        await for_conversation(db, ada, own)
