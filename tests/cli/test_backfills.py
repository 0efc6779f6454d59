"""Backfills by the command line: counted, asked about, made, watched and cancelled."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.processes import Process, document, invoke
from tests.cli.test_tour import conversation, schedule
from tests.embedded.members import wait_until

RANGE = ("--from", "2026-05-01T00:00Z", "--to", "2026-05-02T00:00Z")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--from", "2026-05-01T09:00", "--to", "2026-05-02T00:00Z"), "Write 2026-05-01T09:00Z for UTC"),
        (("--from", "2026-05-01", "--to", "2026-05-02T00:00Z"), "has no offset from UTC"),
        (("--from", "2026-05-01T00:00Z", "--to", "tomorrow"), "'tomorrow' is no instant"),
        (("--from", "2026-05-01T00:00Z"), "--to"),
        ((*RANGE, "--reprocess", "some"), "some"),
    ],
)
def test_an_instant_says_its_offset(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    result = invoke(tmp_path, "schedules", "backfill", "1", *arguments)
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.stderr.replace("│", " ").split())


def test_a_backfill_from_its_count_to_its_end(service: Process) -> None:
    made = schedule(service, conversation(service), "--cron", "*/5 * * * *")
    number = str(made["id"])
    end = datetime.fromisoformat(made["next_fire_at"]) - timedelta(minutes=1)
    many = ("--from", (end - timedelta(minutes=5 * 26)).isoformat(), "--to", end.isoformat())
    few = ("--from", (end - timedelta(minutes=5 * 2)).isoformat(), "--to", end.isoformat())

    def backfill(*options: str) -> tuple[int, str, str]:
        result = invoke(service.data_dir, "schedules", "backfill", number, *options)
        return result.exit_code, result.stdout, result.stderr

    code, counted, _ = backfill(*many, "--dry-run")
    assert (code, counted.startswith("26 slots would run: ")) == (0, True)
    assert counted.endswith(" It needs --confirm.\n")
    code, nothing, asks = backfill(*many)
    assert (code, nothing) == (1, "")
    assert "26 slots" in asks
    assert "--confirm" in asks
    code, _, over = backfill(*many, "--confirm", "--limit", "20")
    assert (code, "--limit 26" in over) == (1, True)
    as_json = invoke(service.data_dir, "schedules", "backfill", number, *many, "--json")
    assert json.loads(as_json.stderr)["count"] == 26

    code, said, _ = backfill(*few)
    assert code == 0
    identifier = said.split()[1]
    assert said == f"Backfill {identifier} is running: 2 slots.\n"
    wait_until(
        lambda: document(invoke(service.data_dir, "backfills", "show", identifier, "--json"))["status"] == "completed"
    )
    shown = invoke(service.data_dir, "backfills", "show", identifier).stdout
    assert "completed 2" in shown
    listed = document(invoke(service.data_dir, "backfills", "list", number, "--json"))["items"]
    assert [str(each["id"]) for each in listed] == [identifier]
    assert "completed 2" in invoke(service.data_dir, "backfills", "list", number).stdout
    assert backfill(*few, "--dry-run")[1] == "No slot would run.\n"
    assert backfill(*few, "--reprocess", "failed")[1].endswith("is completed: 0 slots.\n")

    refused = invoke(service.data_dir, "backfills", "cancel", identifier)
    assert (refused.exit_code, "is completed" in refused.stderr) == (1, True)


def test_cancel_says_what_became_of_the_runs(service: Process) -> None:
    nobody = ("--mode", "fresh", "--harness", "nobody")
    made = schedule(service, conversation(service), "--cron", "*/5 * * * *", *nobody)
    end = datetime.fromisoformat(made["next_fire_at"]) - timedelta(minutes=1)
    begin = end - timedelta(minutes=15)
    backfill = document(
        invoke(
            service.data_dir,
            *("schedules", "backfill", str(made["id"]), "--json"),
            *("--from", begin.isoformat(), "--to", end.isoformat(), "--reprocess", "all"),
        )
    )
    assert (backfill["count"], backfill["progress"]) == (3, {"pending": 1, "queued": 2})
    number = str(backfill["id"])
    cancelled = invoke(service.data_dir, "backfills", "cancel", number)
    assert cancelled.stdout == f"Backfill {number} is cancelled: pending 1, skipped 2.\n"
    stopped = document(invoke(service.data_dir, "backfills", "cancel", number, "--stop-running", "--json"))
    assert (stopped["status"], stopped["progress"]) == ("cancelled", {"cancelled": 1, "skipped": 2})
    invoke(service.data_dir, "schedules", "cancel", str(made["id"]), "--stop-running")


def test_what_is_not_there_is_refused(service: Process) -> None:
    for command in ("show", "cancel"):
        refused = invoke(service.data_dir, "backfills", command, "987654")
        assert (refused.exit_code, "There is no backfill 987654" in refused.stderr) == (1, True)
    for arguments in (("backfills", "list", "987654"), ("schedules", "backfill", "987654", *RANGE)):
        refused = invoke(service.data_dir, *arguments)
        assert (refused.exit_code, "There is no schedule 987654" in refused.stderr) == (1, True)
