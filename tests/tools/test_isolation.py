"""No tool shows or touches what is another principal's, or another conversation's."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.core.words import Scope
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools.catalogue import TOOLS
from tests.tools.conftest import desk_of
from tests.tools.desk import Desk, codes

pytestmark = pytest.mark.anyio

OF_ONE_SCHEDULE = [spec.name for spec in TOOLS if "schedule" in spec.input_schema["properties"]]
SECRETS = ("Mail", "Old mail", "read the letters")
TABLES = ("conversations", "schedules", "schedule_versions", "schedule_changes", "runs", "tasks", "webhooks")


async def everything(db: Database) -> dict[str, list[tuple[Any, ...]]]:
    async with db.begin() as conn:
        return {
            table: [tuple(row) for row in await conn.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2"))]
            for table in TABLES
        }


@pytest.fixture
async def owned(desk: Desk) -> list[int]:
    """The ids of two schedules of Ada's, the second of which has ended; and a run of the first."""
    ids = []
    for name in ("Mail", "Old mail"):
        made = await desk.done("schedule_create", prompt=f"read the letters of {name}", every="1h", name=name)
        ids.append(made["id"])
    await desk.done("schedule_run_now", schedule="Mail")
    await desk.done("schedule_cancel", schedule="Old mail")
    return ids


@pytest.mark.parametrize("stranger", ["bob", "ada"], ids=["another principal", "another conversation"])
async def test_a_walk_over_every_tool(
    desk: Desk, owned: list[int], stranger: str, db: Database, settings: Settings, subtests: pytest.Subtests
) -> None:
    other = await desk_of(db, settings, stranger)
    before = await everything(db)
    for tool in OF_ONE_SCHEDULE:
        more = {"prompt": "x"} if tool == "schedule_update" else {}
        for called in (*map(str, owned), "Mail", "mail", "Old mail"):
            with subtests.test(tool=tool, called=called):
                answer = await other.call(tool, schedule=called, **more)
                absent = await other.call(tool, schedule=f"{called}999", **more)
                assert codes(answer.data) == ["schedule_not_found"]
                assert [each.data["errors"][0].pop("got") for each in (answer, absent)] == [called, f"{called}999"]
                assert answer.data == absent.data
    for status in ("live", "all"):
        listed = await other.call("schedule_list", status=status)
        assert (listed.data["schedules"], listed.data["live"]) == ([], 0)
        assert not any(secret in listed.text for secret in SECRETS)
    assert await everything(db) == before

    made = await other.done("schedule_create", prompt="read the letters of Mail", every="1h", name="Mail")
    assert (made["status"], made["live"], made["id"] in owned) == ("created", 1, False)
    after = await everything(db)
    for table in TABLES:
        assert [row for row in before[table] if row not in after[table]] == [
            row for row in before[table] if table == "conversations" and row[0] == other.caller.conversation_id
        ]
    assert len(await desk.rows()) == 2


async def test_the_limit_of_a_principal_lists_only_what_the_conversation_owns(
    desk: Desk, db: Database, settings: Settings
) -> None:
    few = settings.model_copy(update={"schedules_per_principal": 1})
    await desk.done("schedule_create", prompt="read the letters", every="1h", name="Mail")
    other = await desk_of(db, few, "ada")
    data = await other.refused("schedule_create", prompt="x", every="1h")
    assert (codes(data), data["schedules"]) == (["too_many_schedules_in_all"], [])
    assert (await (await desk_of(db, few, "bob")).done("schedule_create", prompt="x", every="1h"))["live"] == 1


async def test_a_key_of_scope_worker_only_reads(desk: Desk) -> None:
    await desk.done("schedule_create", prompt="x", every="1h", name="Mail")
    worker = Desk(desk.db, desk.settings, replace(desk.caller, scope=Scope.WORKER))
    for spec in TOOLS:
        if spec.read_only:
            continue
        answer = await worker.call(spec.name, schedule="Mail")
        assert (answer.is_error, answer.data["code"]) == (True, "scope_insufficient")
    assert len((await worker.done("schedule_list"))["schedules"]) == 1
