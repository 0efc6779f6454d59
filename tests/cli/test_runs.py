"""Runs by the command line, against a running service."""

import json
from typing import Any

import pytest

from tests.cli.processes import Process, document, invoke
from tests.embedded.members import wait_until


def run(service: Process, number: int) -> dict[str, Any]:
    found: dict[str, Any] = document(invoke(service.data_dir, "runs", "show", str(number), "--json"))
    return found


def wait_for(service: Process, number: int, status: str) -> None:
    wait_until(lambda: run(service, number)["status"] == status)


@pytest.fixture
def failing(service: Process) -> str:
    """The id of a schedule whose runs fail."""
    owner = document(
        invoke(service.data_dir, *("conversations", "create", "--model", "nobody:nothing", "--json")),
    )["id"]
    made = document(
        invoke(service.data_dir, *("schedules", "create", str(owner), "--every", "1d", "--prompt", "Look", "--json"))
    )
    return str(made["id"])


def dead_letter(service: Process, schedule: str) -> int:
    number: int = document(invoke(service.data_dir, "schedules", "run-now", schedule, "--json"))["run"]["id"]
    wait_for(service, number, "failed")
    return number


def test_a_failed_run_is_seen_requeued_and_discarded(service: Process, failing: str) -> None:
    failed = dead_letter(service, failing)
    found = run(service, failed)
    assert [attempt["status"] for attempt in found["attempts"]] == ["failed"]
    shown = invoke(service.data_dir, "runs", "show", str(failed)).stdout
    assert "dead letter" in shown
    assert shown.splitlines()[-1].split()[:3] == ["1", str(found["attempts"][0]["id"]), "failed"]
    dead = document(invoke(service.data_dir, *("runs", "list", "--schedule", failing, "--dead", "--json")))["items"]
    assert [each["id"] for each in dead] == [failed]
    table = invoke(service.data_dir, "runs", "list", "--status", "failed", "--limit", "1000").stdout
    assert any(line.split()[:2] == [str(failed), failing] for line in table.splitlines())

    requeued = invoke(service.data_dir, "runs", "requeue", str(failed))
    assert requeued.exit_code == 0, requeued.output
    new = int(requeued.stdout.rstrip(".\n").split()[-1])
    assert requeued.stdout == f"Run {failed} is requeued as run {new}.\n"
    wait_for(service, new, "failed")
    assert (run(service, new)["requeue_of"], run(service, new)["dead_letter"]) == (failed, True)

    discarded = invoke(service.data_dir, "runs", "discard", str(new))
    assert (discarded.exit_code, discarded.stdout) == (0, f"Run {new} is discarded.\n")
    assert run(service, new)["discarded_at"] is not None


def test_many_at_once_and_what_is_refused(service: Process, failing: str) -> None:
    first, second, third = [dead_letter(service, failing) for _ in range(3)]
    as_json = invoke(service.data_dir, *("runs", "requeue", "--schedule", failing, "--limit", "1", "--json"))
    done = document(as_json)
    assert ([each["run_id"] for each in done["runs"]], done["remaining"]) == ([first], 2)

    mixed = invoke(service.data_dir, "runs", "discard", str(first), str(second))
    assert (mixed.exit_code, mixed.stdout) == (1, f"Run {second} is discarded.\n")
    assert mixed.stderr.startswith(f"Run {first}: ")
    error_code = run(service, third)["error_code"]
    rest = invoke(
        service.data_dir,
        *("runs", "discard", "--schedule", failing, "--error-code", error_code, "--failed-before", "2999-01-01T00:00Z"),
    )
    assert (rest.exit_code, f"Run {third} is discarded.\n" in rest.stdout) == (0, True)
    wait_for(service, done["runs"][0]["new_run_id"], "failed")
    invoke(service.data_dir, "runs", "discard", "--schedule", failing)
    nothing = invoke(service.data_dir, "runs", "requeue", "--schedule", failing)
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "No dead letter fits.\n")


def test_what_cannot_be_is_refused(service: Process, failing: str) -> None:
    for command in ("show", "cancel", "requeue", "discard"):
        refused = invoke(service.data_dir, "runs", command, "987654", "--json")
        assert (refused.exit_code, json.loads(refused.stderr)["code"]) == (1, "run_not_found"), command
    failed = dead_letter(service, failing)
    ended = invoke(service.data_dir, "runs", "cancel", str(failed))
    assert (ended.exit_code, "is failed already" in ended.stderr) == (1, True)
    wrong = invoke(service.data_dir, "runs", "discard", "--failed-before", "yesterday")
    assert (wrong.exit_code, wrong.stderr.startswith("failed_before: ")) == (1, True)
    for command in ("requeue", "discard"):
        for arguments in ((), ("--limit", "5"), (str(failed), "--all"), (str(failed), "--limit", "5")):
            assert invoke(service.data_dir, "runs", command, *arguments).exit_code == 2
    assert run(service, failed)["dead_letter"]


def test_a_waiting_run_is_cancelled(service: Process) -> None:
    owner = document(invoke(service.data_dir, *("conversations", "create", "--harness", "nobody-serves", "--json")))[
        "id"
    ]
    made = document(
        invoke(service.data_dir, *("schedules", "create", str(owner), "--every", "1d", "--prompt", "Look", "--json"))
    )
    number = document(invoke(service.data_dir, "schedules", "run-now", str(made["id"]), "--json"))["run"]["id"]
    cancelled = invoke(service.data_dir, "runs", "cancel", str(number))
    assert (cancelled.exit_code, cancelled.stdout) == (0, f"Run {number} is cancelled.\n")
    assert run(service, number)["status"] == "cancelled"
