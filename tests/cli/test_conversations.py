"""Conversations and changes of schedules by the command line, against a running service."""

import json

from tests.cli.processes import Process, document, invoke


def test_a_conversation_from_its_creation_to_its_deletion(service: Process) -> None:
    made = document(
        invoke(service.data_dir, *("conversations", "create", "--title", "Diary", "--timezone", "Asia/Tokyo", "--json"))
    )
    owner = str(made["id"])
    assert (made["title"], made["timezone"], made["agent"]["harness"]) == ("Diary", "Asia/Tokyo", "echo")
    said = invoke(service.data_dir, "chat", owner, stdin="Dear diary\n")
    assert said.exit_code == 0, said.output

    listed = invoke(service.data_dir, "conversations", "list", "--limit", "1000")
    assert any(line.split()[:2] == [owner, "Diary"] for line in listed.stdout.splitlines())
    entries = invoke(service.data_dir, "conversations", "entries", owner).stdout
    assert "Dear diary" in entries
    assert "Echo: Dear diary" in entries
    assert document(invoke(service.data_dir, "conversations", "inbox", owner, "--json"))["items"] == []

    deleted = invoke(service.data_dir, "conversations", "delete", owner)
    assert deleted.stdout == f"Conversation {owner} is deleted, and its schedules are cancelled.\n"
    again = invoke(service.data_dir, "conversations", "entries", owner, "--json")
    assert (again.exit_code, json.loads(again.stderr)["code"]) == (1, "conversation_not_found")


def test_a_schedule_is_changed_and_its_history_tells(service: Process) -> None:
    owner = str(document(invoke(service.data_dir, "conversations", "create", "--json"))["id"])
    made = document(
        invoke(service.data_dir, *("schedules", "create", owner, "--every", "1h", "--prompt", "Look", "--json"))
    )
    schedule = str(made["id"])

    changed = invoke(
        service.data_dir, "schedules", "update", schedule, "--cron", "30 8 * * 1-5", "--queue-limit", "none"
    )
    assert changed.exit_code == 0, changed.output
    headline, *fires = changed.stdout.splitlines()
    assert headline == f"Schedule {schedule} is at version 2: Every weekday at 08:30 (Europe/Berlin)."
    assert len(fires) == 3
    shown = document(invoke(service.data_dir, "schedules", "show", schedule, "--json"))
    assert (shown["kind"], shown["queue_limit"], shown["prompt"]) == ("cron", None, "Look")

    late = invoke(service.data_dir, "schedules", "update", schedule, "--prompt", "x", "--version", "1", "--json")
    assert (late.exit_code, json.loads(late.stderr)["code"]) == (1, "version_mismatch")
    nothing = invoke(service.data_dir, "schedules", "update", schedule)
    assert (nothing.exit_code, "what to change" in nothing.stderr) == (2, True)
    history = invoke(service.data_dir, "schedules", "changes", schedule).stdout
    assert [line.split()[2] for line in history.splitlines()[1:]] == ["created", "updated"]
