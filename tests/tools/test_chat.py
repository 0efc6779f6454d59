"""Commands in a chat: what each does, what is said to each mistake, and that nothing of it is a message."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from agentsched.core.words import ScheduleStatus, Scope
from agentsched.service import conversations, tick
from agentsched.service.caller import Caller, TaskOfCaller
from agentsched.service.errors import Forbidden, NotFound
from agentsched.service.schedules import list_page
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.chat import Chat
from agentsched.tools.chat_parser import is_command
from tests import people
from tests.clock import Clock
from tests.tools.desk import Woken

pytestmark = pytest.mark.anyio

ADD = "/schedule add 0 9 * * 1-5 Check my open pull requests"


class Room:
    """Ada in a conversation of hers; it is Saturday 2026-10-24, 09:03 in Berlin, the day before DST ends."""

    def __init__(self, db: Database, settings: Settings, caller: Caller, conversation_id: int) -> None:
        self.db, self.settings, self.caller, self.conversation_id = db, settings, caller, conversation_id
        self.waker = Woken()
        self.chat = Chat(db, settings, self.waker)

    async def says(self, typed: str, *, key: str | None = None) -> str:
        return await self.chat.answer(self.caller, self.conversation_id, typed, key=key)

    async def is_refused(self, typed: str) -> str:
        """The answer to what must change nothing."""
        before = await self.rows()
        answer = await self.says(typed)
        assert await self.rows() == before
        return answer

    async def rows(self) -> list[ScheduleRow]:
        return await list_page(
            self.db,
            self.caller,
            conversation_id=self.conversation_id,
            statuses=list(ScheduleStatus),
            after=0,
            limit=1000,
        )

    async def row(self) -> ScheduleRow:
        """The newest schedule."""
        return (await self.rows())[-1]


@pytest.fixture
async def room(db: Database, settings: Settings, clock: Clock) -> Room:
    await clock.freeze("2026-10-24T07:03:20Z")
    ada = await people.somebody(db, timezone="Europe/Berlin")
    # Ids and numbers differ from here on.
    elsewhere = await people.conversation(db, settings, ada)
    await people.schedule(db, settings, ada, elsewhere, name="Elsewhere")
    return Room(db, settings, ada, await people.conversation(db, settings, ada))


@pytest.mark.parametrize(
    ("typed", "fields", "said"),
    [
        ("0 9 * * 1-5 Check it", {"cron": "0 9 * * 1-5"}, "every weekday at 09:00 (Europe/Berlin)"),
        ("`0 9 * * 1-5` Check it", {"cron": "0 9 * * 1-5"}, "every weekday at 09:00"),
        ("cron 0 9 L * * Check it", {"cron": "0 9 L * *"}, "on the last day of every month at 09:00"),
        ("0 9 * * mon-fri Check it", {"cron": "0 9 * * mon-fri"}, "every weekday at 09:00"),
        ("@daily Check it", {"cron": "@daily"}, "every day at 00:00"),
        ("every 2h Check it", {"every_minutes": 120}, "every 2 hours"),
        ("every 2 hours Check it", {"every_minutes": 120}, "every 2 hours"),
        ("EVERY 1 hour 30 minutes Check it", {"every_minutes": 90}, "every 1 hour and 30 minutes"),
        ("at 2026-12-03T09:00 Check it", {"kind": "once"}, "once on Thu 2026-12-03 at 09:00 (Europe/Berlin)"),
        ("at 2026-12-03 9:00 Check it", {"kind": "once"}, "once on Thu 2026-12-03 at 09:00 (Europe/Berlin)"),
        ("in 20m Check it", {"kind": "once"}, "once on Sat 2026-10-24 at 09:24"),
        ("in 20 minutes Check it", {"kind": "once"}, "once on Sat 2026-10-24 at 09:24"),
    ],
)
async def test_add(room: Room, typed: str, fields: Mapping[str, Any], said: str) -> None:
    answer = await room.says(f"/schedule add {typed}")
    row = await room.row()
    assert (row.number, row.prompt) == (1, "Check it")
    assert {name: getattr(row, name) for name in fields} == fields
    assert answer.startswith(f"I have scheduled this as number 1: {said}")
    assert "`/schedule show 1`" in answer
    assert row.conversation_id == room.conversation_id


async def test_an_added_schedule_is_a_persons_and_its_answer_a_proof(room: Room) -> None:
    answer = await room.says(f"{ADD} --name Briefing --mode append")
    assert answer == (
        "I have scheduled “Briefing”: every weekday at 09:00 (Europe/Berlin); the next run is Mon 2026-10-26 09:00 "
        "+01:00 (in 2 days).\n\nSchedule 1 “Briefing”. Each run goes on in this conversation; its result appears here. "
        "`/schedule show 1` shows all about it."
    )


@pytest.mark.parametrize(
    ("typed", "prompt", "fields"),
    [
        ("Check --name My morning briefing --mode fresh", "Check", {"name": "My morning briefing", "mode": "fresh"}),
        ("Check --name='A --b' --max-runs=3", "Check", {"name": "A --b", "max_runs": 3}),
        ('"Run git log --oneline" --name "A --b"', "Run git log --oneline", {"name": "A --b"}),
        ('"Foo" is a word --name Foo', '"Foo" is a word', {"name": "Foo"}),
        ("Two\nlines --max_runs 3", "Two\nlines", {"max_runs": 3}),
        ("Check —mode append", "Check", {"mode": "append"}),
        ("this — and that —and more", "this — and that —and more", {}),
        ("Check --timezone Asia/Tokyo --max-attempts 3", "Check", {"timezone": "Asia/Tokyo", "retry_max_attempts": 3}),
        ("Check --overlap queue --misfire latest --notify never", "Check", {"overlap": "queue", "misfire": "latest"}),
    ],
)
async def test_options_and_prompts(room: Room, typed: str, prompt: str, fields: Mapping[str, Any]) -> None:
    answer = await room.says(f"/schedule add every 2h {typed}")
    row = await room.row()
    assert row.prompt == prompt, answer
    assert {name: getattr(row, name) for name in fields} == fields


async def test_an_end_is_local(room: Room) -> None:
    await room.says("/schedule add every 2h Check --ends-at 2026-11-01T09:00 --max-runs 5")
    shown = await room.says("/schedule show 1")
    assert "- Ends at Sun 2026-11-01 09:00 +01:00" in shown
    assert "- Ends after 5 runs" in shown


async def test_a_webhooks_secret_stays_out_of_the_chat(room: Room) -> None:
    answer = await room.says("/schedule add webhook Read the payload --name Deploys")
    row = await room.row()
    assert (row.kind, row.id != row.number) == ("webhook", True)
    assert f"`/schedules/{row.id}/webhook`" in answer
    assert f"`/schedules/{row.id}/webhook`" in await room.says("/schedule show 1")
    assert "asw_" not in answer
    async with room.db.begin() as conn:
        assert (await conn.execute(text("SELECT count(*) FROM webhook_tokens"))).scalar() == 0


async def test_what_exists_already_is_not_made_again(room: Room) -> None:
    await room.says(ADD)
    answer = await room.is_refused(ADD)
    assert answer.startswith("This is scheduled already as schedule 1: every weekday at 09:00")
    assert "Nothing was made. `/schedule edit 1 …` changes it." in answer


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", ["Say when, and what to ask", "`every 2h`"]),
        ("Check my mail", ["This does not say when", "`0 9 * * 1-5`"]),
        ("3 times a day check my mail", ["This does not say when"]),
        ("0 9 * * 1-5", ["It does not say what to ask the agent"]),
        ("every 2h", ["It does not say what to ask the agent"]),
        (
            "0 0 9 * * 1-5 Check",
            ["The time (`0 0 9 * * 1-5`)", "Write `0 9 * * 1-5`", "It is now Sat 2026-10-24 09:03"],
        ),
        ("0 0 9 * * mon-fri Check", ["has 6 fields"]),
        ("0 9 * * Check", ["The expression has 4 fields"]),
        ("0 9 * * 1-9 Check", ["The time (`0 9 * * 1-9`)", "1-9"]),
        ("61 9 * * * Check", ["59"]),
        ("every 1m Check", ['Write "5m" or more']),
        ("* * * * * Check", ["`every 5m`"]),
        ("every weekday at 9 check", ['"weekday" is not a duration', "Write for example `0 9 * * 1-5`"]),
        ("every 2 months check", ["months or years", "cron"]),
        ("every 1.5h check", ['Write it in whole units: "1h30m"']),
        ("in 90s check", ['Write "2m"']),
        ("at 2026-10-20T18:00 check", ["is in the past", "2026-10-24T18:00", "It is now Sat 2026-10-24 09:03 +02:00"]),
        ("at tomorrow check", ["Write a date and a time"]),
        ("every 2h check --mode forked", ["`--mode` (`forked`)", "`fork`"]),
        (
            "every 2h check --mod fork",
            ["There is no option `--mod`. Did you mean `--mode`?", "put the prompt in quotes"],
        ),
        ("every 2h check --prompt x", ["There is no option `--prompt`"]),
        ("every 2h check --name", ["`--name` needs a value"]),
        ("every 2h check --name a --name b", ["`--name` is there twice"]),
        ("every 2h check --max-runs many", ["`--max-runs` (`many`)", "whole number"]),
        ("every 2h check --timezone Berlin", ["`--timezone` (`Berlin`)", "Europe/Berlin"]),
        ("every 2h check --misfire all --overlap replace", ["`--misfire latest`", "`--overlap queue`"]),
        ("every 2h check --ends-at 2026-10-20T09:00", ["`--ends-at`", "is in the past"]),
        ("61 9 * * * check --mode no --max-runs x", ["The time", "`--mode`", "`--max-runs`"]),
        ("every 2h a\x00b", ["The prompt", "control characters"]),
    ],
)
async def test_every_mistake_of_an_add_is_named(room: Room, typed: str, expected: list[str]) -> None:
    answer = await room.is_refused(f"/schedule add {typed}")
    for words in expected:
        assert words in answer, answer
    assert not re.search(r"`[a-z]+_[a-z_]+`", answer), "names of fields are not what people type"


async def test_a_name_that_is_taken_and_the_limit(room: Room) -> None:
    for number in range(10):
        await room.says(f"/schedule add {number} 9 * * * x --name n{number}")
    full = await room.is_refused("/schedule add every 1h more")
    assert "as many live schedules as it may have. Cancel one with `/schedule cancel N`." in full
    assert "- **1** “n0”: Every day at 09:00 (Europe/Berlin), active" in full
    assert len(re.findall(r"^- \*\*", full, re.MULTILINE)) == 10
    taken = await room.is_refused("/schedule edit 2 --name n0")
    assert "Another live schedule here has this name" in taken


async def test_the_list(room: Room) -> None:
    assert await room.says("/schedules") == (
        "Nothing is scheduled here. `/schedule add` makes one, and `/help` says how."
    )
    await room.says(f"{ADD} --name Briefing")
    await room.says("/schedule add every 2h Look")
    await room.says("/schedule add @daily Sleep")
    await room.says("/schedule pause 2 on holiday")
    await room.says("/schedule cancel 3")
    briefing = (
        "- **1** “Briefing”: Every weekday at 09:00 (Europe/Berlin); next Mon 2026-10-26 09:00 +01:00 (in 2 days)"
    )
    look = "- **2** Look: Every 2 hours; paused (user: on holiday)"
    sleep = "- **3** Sleep: Every day at 00:00 (Europe/Berlin); cancelled"
    answers = {
        "": ["2 schedules:", "", briefing, look],
        " all": ["3 schedules:", "", briefing, look, sleep],
        " ACTIVE": ["1 schedule:", "", briefing],
        " paused": ["1 schedule:", "", look],
        " cancelled": ["1 schedule:", "", sleep],
        " completed": ["No schedule here is completed. `/schedule add` makes one, and `/help` says how."],
    }
    for filtered, lines in answers.items():
        assert (await room.says(f"/schedules{filtered}")).splitlines() == lines


async def test_the_list_is_of_this_conversation_and_of_the_newest(room: Room) -> None:
    for number in range(55):
        await room.says(f"/schedule add {number} 9 * * * x{number}")
        await room.says(f"/schedule cancel {number + 1}")
    answer = await room.says("/schedules all")
    assert answer.startswith("The newest 50 schedules:")
    assert re.findall(r"\*\*([0-9]+)\*\*", answer) == [str(number) for number in range(6, 56)]
    assert "Elsewhere" not in answer


async def test_show(room: Room) -> None:
    await room.says(f"{ADD} --name Briefing --timezone Asia/Tokyo")
    row = await room.row()
    shown = (await room.says("/schedule show 1")).splitlines()
    assert shown == [
        "Schedule 1 “Briefing” is active.",
        "",
        "- When: Every weekday at 09:00 (Asia/Tokyo)",
        "- Next: Mon 2026-10-26 09:00 +09:00 (in 2 days, for you Mon 2026-10-26 01:00 +01:00)",
        "- Then: Tue 2026-10-27 09:00 +09:00 (in 3 days, for you Tue 2026-10-27 01:00 +01:00)",
        "- Then: Wed 2026-10-28 09:00 +09:00 (in 4 days, for you Wed 2026-10-28 01:00 +01:00)",
        "- Where: Each run copies this conversation; its result appears in a new one.",
        shown[7],
        f"- Id, for other programs: {row.id}",
        "",
        "> Check my open pull requests",
    ]
    assert shown[7].startswith("- Rules: overlap skip; misfire skip; ")
    for called in ("#1", "Briefing", "briefing", '"Briefing"', "“Briefing”", '"1"'):
        assert (await room.says(f"/schedule show {called}")).splitlines() == shown


async def test_edit(room: Room) -> None:
    await room.says(ADD)
    await room.says("/schedule edit 1 every 2h")
    assert ((await room.row()).every_minutes, (await room.row()).prompt) == (120, "Check my open pull requests")
    await room.says("/schedule edit 1 prompt Look again --name Again and again")
    assert ((await room.row()).prompt, (await room.row()).name) == ("Look again", "Again and again")
    await room.says("/schedule edit 1 0 8 * * * Look early")
    assert ((await room.row()).cron, (await room.row()).prompt) == ("0 8 * * *", "Look early")
    await room.says('/schedule edit "Again and again" at 2026-12-03T09:00 prompt Once')
    assert ((await room.row()).kind, (await room.row()).prompt) == ("once", "Once")
    answer = await room.says("/schedule edit 1 --mode append")
    assert answer.startswith("I have changed “Again and again”: once on Thu 2026-12-03 at 09:00")
    assert ((await room.row()).mode, (await room.row()).version) == ("append", 6)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", "Say which one: `/schedule edit N`"),
        ("1", "Say what to change"),
        ("1 Look at it", "Say what to change: begin with a new time, with `prompt`"),
        ("1 prompt", "Say what to change"),
        ("1 webhook x", "does not become a webhook"),
        ("1 0 0 9 * * *", "Write `0 9 * * *`"),
        ("1 every 1m", 'Write "5m" or more'),
        ("1 --max-runs 0", "`--max-runs`"),
        ("7 every 2h", "There is no schedule 7 in this conversation."),
    ],
)
async def test_every_mistake_of_an_edit_is_named(room: Room, typed: str, expected: str) -> None:
    await room.says(ADD)
    assert expected in await room.is_refused(f"/schedule edit {typed}")


async def test_pause_and_resume(room: Room) -> None:
    await room.says(f"{ADD} --name Morning briefing")
    assert await room.says("/schedule pause Morning briefing") == (
        "I have paused “Morning briefing”; it runs again once it is resumed."
    )
    assert await room.says("/schedule pause 1 because") == "“Morning briefing” was paused already."
    resumed = await room.says("/schedule resume 1 --catch-up latest")
    assert resumed == ("I have resumed “Morning briefing”; the next run is Mon 2026-10-26 09:00 +01:00 (in 2 days).")
    assert (await room.says("/schedule resume 1")).startswith("“Morning briefing” is active already")
    assert "`latest`" in await room.is_refused("/schedule resume 1 --catch-up newest")
    await room.says("/schedule pause 1 away until May")
    assert (await room.row()).pause_note == "away until May"
    assert "The note" in await room.is_refused(f"/schedule pause 1 {'x' * 1001}")


async def test_run_and_runs(room: Room, clock: Clock) -> None:
    await room.says("/schedule add 0 * * * * Look --name Look")
    assert await room.says("/schedule runs 1") == "Schedule 1 “Look” has not run yet."
    asked = await room.says("/schedule run 1", key="k1")
    assert await room.says("/schedule run 1", key="k1") == asked
    said = re.fullmatch(
        r"Run 1 of schedule 1 “Look” has been started; its result will appear in conversation (\d+).", asked
    )
    assert said is not None
    await clock.freeze("2026-10-24T08:00:00Z")
    await tick.tick(room.db, room.settings)
    lines = (await room.says("/schedule runs 1")).splitlines()
    assert lines[0] == "The runs of schedule 1 “Look”:"
    assert lines[2].startswith("- Sat 2026-10-24 10:00 +02:00 (now): skipped. ")
    assert lines[3].startswith("- Sat 2026-10-24 09:03 +02:00 (57 minutes ago): pending, manual. ")
    assert lines[3].endswith(f"(conversation {said[1]})")
    assert (await room.says("/schedule runs 1 --count 1")).splitlines()[0] == "The newest runs of schedule 1 “Look”:"
    assert "`--count` (`many`)" in await room.says("/schedule runs 1 --count many")
    await room.says("/schedule edit 1 --mode append")
    assert "its result will appear here" in await room.says("/schedule run 1")


async def test_cancel(room: Room) -> None:
    await room.says(f"{ADD} --name Briefing")
    await room.says("/schedule run 1")
    answer = await room.says("/schedule cancel 1 --stop-running")
    assert answer == "I have cancelled “Briefing”: every weekday at 09:00 (Europe/Berlin)."
    assert await room.says("/schedule cancel 1") == "“Briefing” was cancelled already."
    ended = "Schedule 1 “Briefing” is cancelled, and stays so. `/schedule add` makes a new one."
    for command in ("edit 1 every 2h", "pause 1", "resume 1", "run 1"):
        assert await room.is_refused(f"/schedule {command}") == ended
    assert "pending" not in await room.says("/schedule runs 1")


async def test_a_completed_schedule(room: Room, clock: Clock) -> None:
    await room.says("/schedule add in 20m Look")
    await clock.step(minutes=21)
    await tick.tick(room.db, room.settings)
    assert (await room.is_refused("/schedule cancel 1")).startswith("Schedule 1 is completed, and stays so.")
    assert (await room.says("/schedule run 1")).startswith("Run ")
    assert "; completed" in await room.says("/schedules completed")


async def test_cancel_all_wants_to_be_confirmed(room: Room) -> None:
    assert "nothing was cancelled" in await room.says("/schedule cancel all")
    await room.says(f"{ADD} --name Briefing")
    await room.says("/schedule add every 2h Look")
    await room.says("/schedule add every 3h Ended")
    await room.says("/schedule cancel 3")
    asked = await room.is_refused("/schedule cancel all")
    assert asked.startswith("This would cancel these 2:\n\n- **1** “Briefing”: ")
    assert asked.endswith("To do it: `/schedule cancel all confirm`")
    assert "nothing else may stand there" in await room.is_refused("/schedule cancel all yes")
    done = await room.says("/schedule cancel all confirm")
    assert done.startswith("I have cancelled 2 schedules:")
    assert {row.status for row in await room.rows()} == {"cancelled"}
    elsewhere = await list_page(room.db, room.caller, conversation_id=None, statuses=None, after=0, limit=10)
    assert [row.name for row in elsewhere] == ["Elsewhere"]


async def test_numbers_are_never_used_again(room: Room) -> None:
    for number in (1, 2, 3):
        assert f"number {number}" in await room.says(f"/schedule add {number} 9 * * * x{number}")
    await room.says("/schedule cancel all confirm")
    assert "number 4" in await room.says(ADD)
    assert "is cancelled" in await room.says("/schedule show 3")


async def test_a_name_that_several_have(room: Room) -> None:
    await room.says(f"{ADD} --name Mail")
    await room.says("/schedule add every 2h Look --name MAIL")
    answer = await room.is_refused("/schedule pause mail")
    assert "- **1** “Mail”: " in answer
    assert "- **2** “MAIL”: " in answer
    assert (await room.says("/schedule pause Mail")).startswith("I have paused “Mail”")


@pytest.mark.parametrize("called", ["9", "#9", "99999999999999999", "Nobody", "Elsewhere"])
async def test_an_unknown_schedule_gets_the_live_ones(room: Room, called: str) -> None:
    await room.says(f"{ADD} --name Mail")
    for verb in ("show", "pause", "resume", "run", "runs", "cancel"):
        answer = await room.is_refused(f"/schedule {verb} {called}")
        assert answer.startswith(f"There is no schedule {called.removeprefix('#')} in this conversation.")
        assert "- **1** “Mail”: Every weekday at 09:00 (Europe/Berlin), active" in answer


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("/", "There is no command `/`. `/help`"),
        ("/scheduels", "Did you mean `/schedules`?"),
        (
            "/etc/hosts is wrong",
            "There is no command `/etc/hosts`. `/help` lists the commands. To say this to the agent",
        ),
        ("/remind me", "put a blank before it"),
        ("/schedule", "After `/schedule` comes one of `add`, `show`"),
        ("/schedule pasue 1", "There is no `/schedule pasue`. Did you mean `/schedule pause`?"),
        ("/schedule delete 1", "Did you mean `/schedule cancel`?"),
        ("/schedule list", "Did you mean `/schedules`?"),
        ("/schedule 3", "Did you mean `/schedule show 3`?"),
        ("/schedule xyzzy", "There is no `/schedule xyzzy`. After"),
        ("/schedules add every 2h x", "Did you mean `/schedule add`?"),
        ("/schedules pausd", "Did you mean `/schedules paused`?"),
        ("/schedules 3", "`/schedules 3` lists nothing."),
        ("/schedule pause", "Say which one: `/schedule pause N`"),
        ("/schedule show 1 2", "after the number there is `2`"),
        ("/schedule cancel 1 --stop-runing", "Did you mean `--stop-running`?"),
        ("/schedule cancel 1 --stop-running now", "`--stop-running` stands alone"),
        ("/schedule run 1 --catch-up x", "after the number there is `--catch-up x`"),
    ],
)
async def test_what_is_no_command(room: Room, typed: str, expected: str) -> None:
    await room.says(ADD)
    assert expected in await room.is_refused(typed)


async def test_help_names_what_works(room: Room) -> None:
    for asked in ("/help", "/HELP", "/schedule help", "/help add"):
        answer = await room.says(asked)
        for words in ("/schedules", "/schedule add every 2h", "/schedule cancel all confirm", "--ends-at"):
            assert words in answer


def test_what_is_meant_for_the_agent() -> None:
    assert [is_command(typed) for typed in ("/help", "/", " /help", "//help", "help", "", "a /help")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["1" * 500_000 + "x ", "* " * 200_000, "--a" * 100_000, '"' * 300_000, "/" * 300_000])
async def test_long_lines_are_answered_soon(room: Room, line: str) -> None:
    for begin in ("/schedule add ", "/schedule edit 1 ", "/schedule pause ", "/", "/schedules "):
        assert len(await room.is_refused(begin + line)) < 6000


async def test_nothing_enters_the_transcript(room: Room) -> None:
    for command in (ADD, "/schedules", "/schedule show 1", "/nonsense", "/schedule cancel all confirm"):
        await room.says(command)
    assert await conversations.transcript(room.db, room.caller, room.conversation_id, after=0, limit=10) == []
    assert (await conversations.get(room.db, room.caller, room.conversation_id)).last_seq == 0


async def test_other_peoples_conversations_are_absent(room: Room, db: Database) -> None:
    bob = Room(room.db, room.settings, await people.somebody(db, "bob"), room.conversation_id)
    for command in (ADD, "/schedules", "/help", "/nonsense"):
        with pytest.raises(NotFound):
            await bob.says(command)
    await conversations.delete(db, room.caller, room.conversation_id)
    with pytest.raises(NotFound):
        await room.says("/schedules")


async def test_whoever_may_not_speak_here_gives_no_commands(room: Room) -> None:
    scheduled = replace(room.caller, task=TaskOfCaller(1, 1, 1), conversation_id=room.conversation_id, by_model=True)
    for caller in (scheduled, replace(room.caller, scope=Scope.WORKER)):
        with pytest.raises(Forbidden):
            await Chat(room.db, room.settings, room.waker).answer(caller, room.conversation_id, "/schedules")
