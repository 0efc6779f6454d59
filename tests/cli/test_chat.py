"""Commands in `agentsched chat`, against a running service."""

import json

from tests.cli.processes import Process, document, invoke


def test_commands_are_answered_between_messages(service: Process) -> None:
    owner = str(document(invoke(service.data_dir, "conversations", "create", "--json"))["id"])
    typed = [
        "Hello",
        "/schedule add 0 9 * * 1-5 Check my open pull requests --name Briefing",
        "/schedules",
        " /schedules",
        "/schedule cancl 1",
        "/schedule cancel 1",
    ]
    said = invoke(service.data_dir, "chat", owner, stdin="\n".join(typed) + "\n")
    assert said.exit_code == 0, said.output
    lines = [line for line in said.stdout.splitlines()[1:] if line]
    assert lines[0] == "assistant: Echo: Hello"
    assert lines[1].startswith("I have scheduled “Briefing”: every weekday at 09:00 (Europe/Berlin); the next run is ")
    assert lines[3] == "1 schedule:"
    assert lines[4].startswith("- **1** “Briefing”: Every weekday at 09:00 (Europe/Berlin); next ")
    assert lines[5] == "assistant: Echo:  /schedules"
    assert "Did you mean `/schedule cancel`?" in lines[6]
    assert lines[7] == "I have cancelled “Briefing”: every weekday at 09:00 (Europe/Berlin)."
    entries = invoke(service.data_dir, "conversations", "entries", owner).stdout
    assert "Briefing" not in entries


def test_a_reply_is_a_line_of_json(service: Process) -> None:
    owner = str(document(invoke(service.data_dir, "conversations", "create", "--json"))["id"])
    said = invoke(service.data_dir, "chat", owner, "--json", stdin="/schedules\n")
    assert [list(json.loads(line)) for line in said.stdout.splitlines()[1:]] == [["reply"]]
