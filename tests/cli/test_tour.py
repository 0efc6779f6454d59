"""What a new user does in a second terminal, by the command line (issue: "What a person can do")."""

import json
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import httpx

from tests.cli.processes import Process, document, environment, invoke
from tests.embedded.members import query, wait_until

AFTER_THE_MINUTE = timedelta(seconds=11)
"""The sweep does the tick of a minute that has none on record ten seconds after it began."""


def conversation(service: Process, *options: str) -> int:
    result = invoke(service.data_dir, "chat", "--json", *options)
    assert result.exit_code == 0, result.output
    made: int = json.loads(result.stdout)["id"]
    return made


def schedule(service: Process, conversation_id: int, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = document(
        invoke(
            service.data_dir, "schedules", "create", str(conversation_id), "--prompt", "Say hello", "--json", *options
        )
    )
    return found


def runs(service: Process, schedule_id: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(invoke(service.data_dir, "schedules", "runs", str(schedule_id), "--json"))[
        "items"
    ]
    return found


def travel(service: Process, instant: str) -> None:
    """Move the one clock forward, to a little after this instant."""
    target = datetime.fromisoformat(instant) + AFTER_THE_MINUTE
    query(service.ready["database_url"], f"UPDATE clock SET shift = '{target.isoformat()}' - clock_timestamp()")


def test_a_schedule_from_its_creation_to_its_cancellation(service: Process) -> None:
    chat = invoke(service.data_dir, "chat", "--title", "Briefings", stdin="Hello\n\nAnything new?\n")
    assert chat.exit_code == 0, chat.output
    first, *replies = chat.stdout.splitlines()
    assert first.endswith("“Briefings”, answered by echo.")
    assert replies == ["assistant: Echo: Hello", "assistant: Echo: Anything new?"]
    owner = int(first.split()[1])

    created = invoke(
        service.data_dir,
        *("schedules", "create", str(owner), "--cron", "*/5 * * * *", "--name", "five", "--prompt", "Check my PRs"),
    )
    assert created.exit_code == 0, created.output
    headline, *fires = created.stdout.splitlines()
    assert headline.endswith("is active: Every 5 minutes.")
    assert len(fires) == 3
    number = int(headline.split()[1])

    shown = document(invoke(service.data_dir, "schedules", "show", str(number), "--json"))
    assert (shown["timezone"], shown["name"]) == ("Europe/Berlin", "five")
    preview = document(invoke(service.data_dir, "schedules", "preview", str(number), "--count", "3", "--json"))
    assert preview["next_runs"] == shown["next_runs"]
    assert shown["next_runs"][0]["local"] in fires[0]

    travel(service, shown["next_fire_at"])
    wait_until(lambda: [run["status"] for run in runs(service, number)] == ["completed"])
    (run,) = runs(service, number)
    assert datetime.fromisoformat(run["fire_at"]) == datetime.fromisoformat(shown["next_fire_at"])
    assert run["conversation_id"] != owner
    table = invoke(service.data_dir, "schedules", "runs", str(number)).stdout
    assert "Echo: Check my PRs" in table

    transcript = invoke(service.data_dir, "chat", str(run["conversation_id"])).stdout.splitlines()
    assert transcript[1:5] == [
        "user: Hello",
        "assistant: Echo: Hello",
        "user: Anything new?",
        "assistant: Echo: Anything new?",
    ]
    assert transcript[5].startswith(f"schedule {number}, ")
    assert transcript[5].endswith("Check my PRs")
    assert transcript[6] == "assistant: Echo: Check my PRs"

    listed = invoke(service.data_dir, "schedules", "list", str(owner)).stdout
    assert "Every 5 minutes" in listed
    cancelled = invoke(service.data_dir, "schedules", "cancel", str(number))
    assert (cancelled.exit_code, cancelled.stdout) == (0, f"Schedule {number} is cancelled. Next fire: none.\n")
    assert document(invoke(service.data_dir, "schedules", "list", str(owner), "--json"))["items"] == []
    ended = document(invoke(service.data_dir, "schedules", "list", str(owner), "--status", "cancelled", "--json"))
    assert [each["id"] for each in ended["items"]] == [number]


def test_pause_resume_and_run_now(service: Process) -> None:
    number = str(schedule(service, conversation(service), "--every", "1h")["id"])
    paused = document(invoke(service.data_dir, "schedules", "pause", number, "--note", "On holiday", "--json"))
    assert (paused["status"], paused["pause_note"], paused["next_fire_at"]) == ("paused", "On holiday", None)
    assert invoke(service.data_dir, "schedules", "run-now", number).exit_code == 0
    wait_until(lambda: [run["status"] for run in runs(service, int(number))] == ["completed"])
    resumed = document(invoke(service.data_dir, "schedules", "resume", number, "--json"))
    assert resumed["status"] == "active"
    assert resumed["next_fire_at"] is not None


def test_every_problem_is_a_line_that_says_what_to_write(service: Process) -> None:
    owner = str(conversation(service))
    wrong = ("schedules", "create", owner, "--prompt", "x", "--cron", "0 0 30 2 *", "--timezone", "Europe/Berlim")
    refused = invoke(service.data_dir, *wrong)
    assert (refused.exit_code, refused.stdout) == (1, "")
    lines = refused.stderr.splitlines()
    assert sorted(line.split(":")[0] for line in lines) == ["cron", "timezone"]
    assert all(" → " in line for line in lines)
    assert any("Europe/Berlin" in line for line in lines)

    as_json = invoke(service.data_dir, *wrong, "--json")
    assert (as_json.exit_code, as_json.stdout) == (1, "")
    assert {each["field"] for each in json.loads(as_json.stderr)["errors"]} == {"cron", "timezone"}


def test_what_is_not_there_is_refused(service: Process) -> None:
    for command in ("show", "cancel", "pause", "resume", "run-now", "preview", "runs"):
        refused = invoke(service.data_dir, "schedules", command, "987654")
        assert refused.exit_code == 1, command
        assert "There is no schedule 987654" in refused.stderr
    assert invoke(service.data_dir, "chat", "987654").exit_code == 1


def test_a_preview_saves_nothing_and_shows_what_would_be_refused(service: Process) -> None:
    result = invoke(service.data_dir, "schedules", "preview", "--cron", "* * * * *", "--count", "2")
    assert result.exit_code == 1, result.output
    headline, *fires = result.stdout.splitlines()
    assert headline == "Every minute."
    assert len(fires) == 2
    assert result.stderr.startswith("cron: ")


def test_a_turn_that_fails_is_told(service: Process) -> None:
    model = ("--model", "nobody:nothing")
    result = invoke(service.data_dir, "chat", *model, stdin="Hello\n")
    assert result.exit_code == 1
    assert "answered by pydantic-ai with nobody:nothing" in result.stdout
    assert "The turn is failed: " in result.stderr


def test_chat_as_json(service: Process) -> None:
    result = invoke(service.data_dir, "chat", "--json", "--timezone", "Asia/Kathmandu", stdin="Hello\n")
    made, said, reply = map(json.loads, result.stdout.splitlines())
    assert (made["timezone"], made["agent"]["harness"]) == ("Asia/Kathmandu", "echo")
    assert [(each["role"], each["content"]) for each in (said, reply)] == [
        ("user", "Hello"),
        ("assistant", "Echo: Hello"),
    ]


def test_a_long_conversation_begins_with_its_end(service: Process) -> None:
    owner = conversation(service)
    said = "".join(f"{number}\n" for number in range(11))
    assert invoke(service.data_dir, "chat", str(owner), stdin=said).exit_code == 0
    shown = invoke(service.data_dir, "chat", str(owner)).stdout.splitlines()
    assert shown[1] == "… 2 earlier entries"
    assert shown[2:4] == ["user: 1", "assistant: Echo: 1"]
    assert len(shown) == 22


def test_a_key_for_somebody_else_sees_nothing_of_it(service: Process) -> None:
    owner = conversation(service)
    key = document(invoke(service.data_dir, "keys", "create", "--principal", "grace", "--label", "laptop", "--json"))
    result = invoke(service.data_dir, "chat", str(owner), AGENTSCHED_API_KEY=key["api_key"])
    assert result.exit_code == 1
    assert f"There is no conversation {owner}" in result.stderr

    (listed,) = document(invoke(service.data_dir, "keys", "list", "--principal", "grace", "--json"))["items"]
    assert (listed["label"], listed["scope"], listed["revoked_at"]) == ("laptop", "user", None)
    assert key["api_key"] not in json.dumps(listed)
    assert invoke(service.data_dir, "keys", "revoke", str(key["id"]), "--principal", "grace").exit_code == 0
    unknown = invoke(service.data_dir, "keys", "list", "--principal", "gracie")
    assert (unknown.exit_code, "There is no principal gracie" in unknown.stderr) == (1, True)
    refused = invoke(service.data_dir, "chat", AGENTSCHED_API_KEY=key["api_key"])
    assert refused.exit_code == 1
    assert "no API key in force" in refused.stderr


def test_a_tick_by_hand(service: Process) -> None:
    number = schedule(service, conversation(service), "--in", "10m")
    query(
        service.ready["database_url"],
        f"UPDATE clock SET shift = '{number['next_fire_at']}'::timestamptz + interval '1 second' - clock_timestamp()",
    )
    report = document(invoke(service.data_dir, "tick", "--json"))
    assert report["due"] == report["fired"] + report["skipped"] + report["missed"] >= 1
    wait_until(lambda: [run["status"] for run in runs(service, number["id"])] == ["completed"])


def test_doctor_finds_a_running_service_well(service: Process) -> None:
    found = document(invoke(service.data_dir, "doctor", "--json"))
    states = {each["check"]: each["state"] for each in found["checks"]}
    assert states["api"] == states["database"] == states["schema"] == states["workers"] == states["redis"] == "ok"
    assert found["ok"]


def test_the_docs_page_that_is_printed_is_there(service: Process) -> None:
    from agentsched.cli.services import DOCS_PATH

    answer = httpx.get(f"{service.url}{DOCS_PATH}", follow_redirects=True)
    assert answer.status_code == 200
    assert "text/html" in answer.headers["content-type"]


def test_the_specification_is_the_one_that_is_served(service: Process) -> None:
    printed = json.loads(invoke(service.data_dir, "openapi").stdout)
    assert printed == httpx.get(f"{service.url}/schema/openapi.json").json()


def test_an_empty_line_shows_what_a_schedule_has_said(service: Process) -> None:
    owner = conversation(service)
    number = schedule(service, owner, "--every", "1d", "--mode", "append")["id"]
    with subprocess.Popen(
        [sys.executable, "-m", "agentsched.cli.main", "chat", str(owner)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env=environment(service.data_dir),
    ) as chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        assert chat.stdout.readline() == f"Conversation {owner}, answered by echo.\n"
        assert invoke(service.data_dir, "schedules", "run-now", str(number)).exit_code == 0
        wait_until(lambda: [run["status"] for run in runs(service, number)] == ["completed"])
        chat.stdin.write("\n")
        assert chat.stdout.readline().startswith(f"schedule {number}, ")
        assert chat.stdout.readline() == "assistant: Echo: Say hello\n"
        chat.stdin.write("Thanks\n")
        assert chat.stdout.readline() == "assistant: Echo: Thanks\n", "each entry once"
        chat.stdin.close()
        assert chat.stdout.read() == ""
    assert chat.returncode == 0
