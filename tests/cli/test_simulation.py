"""`schedules preview --simulate`: a table and a sentence for people, JSON for scripts."""

from pathlib import Path

import pytest
import rich_click as click

from agentsched.cli.simulation import OPTIONS, Duration
from agentsched.service.requests import Supposition
from tests.cli.processes import Process, document, invoke

PREVIEW = ("schedules", "preview")
DAY = ("--simulate", "--from", "2026-12-01T00:00", "--timezone", "Europe/Berlin")


def squeezed(line: str) -> str:
    return " ".join(line.split())


def test_a_table_and_a_sentence(service: Process) -> None:
    result = invoke(
        service.data_dir,
        *PREVIEW,
        *DAY,
        "--cron",
        "*/15 * * * *",
        "--overlap",
        "queue",
        "--run-takes",
        "20m",
        "--span",
        "1h",
    )

    assert result.exit_code == 0, result.output
    assert [squeezed(line) for line in result.stdout.splitlines()] == [
        "Every 15 minutes.",
        "SLOT WHAT HAPPENS STARTED ENDED WAITED IN LINE",
        "Tue 2026-12-01 00:15 +01:00 completed 00:15:00 00:35:00",
        "Tue 2026-12-01 00:30 +01:00 completed 00:35:00 00:55:00 5m 1",
        "Tue 2026-12-01 00:45 +01:00 running 00:55:00 10m 1",
        "Tue 2026-12-01 01:00 +01:00 queued 1",
        "4 slots: 2 completed, 1 still running at the end, 1 still in line at the end. "
        "The longest wait was 10m, and at most 1 was in line at once.",
    ]  # fmt: skip


def test_equal_rows_are_one(service: Process) -> None:
    result = invoke(service.data_dir, *PREVIEW, *DAY, "--every", "2h", "--run-takes", "90s", "--span", "2d")

    assert result.exit_code == 0, result.output
    _, _, *rows, sentence = result.stdout.splitlines()
    assert [squeezed(row) for row in rows] == [
        "Tue 2026-12-01 02:00 +01:00 … Wed 2026-12-02 22:00 +01:00 × 23 completed",
        "Thu 2026-12-03 00:00 +01:00 running 00:00:00",
    ]
    assert sentence == "24 slots: 23 completed, 1 still running at the end."


def test_what_is_supposed_is_sent(service: Process) -> None:
    found = document(
        invoke(
            service.data_dir,
            *(*PREVIEW, *DAY, "--every", "1h", "--misfire", "latest", "--span", "6h", "--json"),
            *("--run-takes", "30m10s", "--stop-takes", "5s", "--fails-every", "4", "--timeout-seconds", "7200"),
            *("--down", "2026-12-01T01:15/2026-12-01T03:30", "--down", "2026-12-01T05:45/2026-12-01T05:50"),
        )
    )

    assert [(run["local"][15:20], run["status"], run["ended_at"]) for run in found["runs"]] == [
        ("01:00", "completed", "2026-12-01T03:00:10Z"),
        ("02:00", "missed", "2026-12-01T02:30:00Z"),
        ("03:00", "skipped", "2026-12-01T02:30:00Z"),
        ("04:00", "skipped", "2026-12-01T03:00:00Z"),
        ("05:00", "completed", "2026-12-01T04:30:10Z"),
        ("06:00", "running", None),
    ]


def test_a_saved_schedule_is_simulated(service: Process) -> None:
    chat = document(invoke(service.data_dir, "chat", "--json"))
    made = document(
        invoke(service.data_dir, "schedules", "create", str(chat["id"]), "--every", "1h", "--prompt", "x", "--json")
    )
    result = invoke(service.data_dir, *PREVIEW, str(made["id"]), "--simulate", "--span", "12h", "--run-takes", "61m")
    assert result.exit_code == 0, result.output
    assert "failed (timeout)" in result.stdout
    assert "3 failures in a row paused the schedule" in result.stdout


def test_limits_that_would_refuse_it_are_told_and_are_1(service: Process) -> None:
    for options in ((), ("--simulate",)):
        result = invoke(service.data_dir, *PREVIEW, "--cron", "* * * * *", *options)
        assert result.exit_code == 1, result.output
        assert "Every minute." in result.stdout
        assert len(result.stdout.splitlines()) > 3
        assert result.stderr.startswith("cron: Two occurrences are only 1 minute apart")
        assert "→" in result.stderr
    result = invoke(service.data_dir, *PREVIEW, "--cron", "* * * * *", "--json")
    assert result.exit_code == 1
    assert '"next_runs"' in result.stdout
    assert '"interval_too_short"' in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--every", "2h", "--span", "2h"), "Only --simulate takes"),
        (("--every", "2h", "--run-takes", "2h"), "Only --simulate takes"),
        (("--every", "2h", "--simulate", "--count", "5"), "not a --count"),
        (("--every", "2h", "--simulate", "--run-takes", "40"), "90s, 40m or 1h30m"),
        (("--every", "2h", "--simulate", "--run-takes", "40 minutes"), "90s, 40m or 1h30m"),
        (("--every", "2h", "--simulate", "--down", "2026-12-01T00:00"), "FROM/UNTIL"),
        (("1", "--every", "2h", "--simulate"), "not both"),
        (("--simulate",), "none of them"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    result = invoke(tmp_path, *PREVIEW, *arguments)
    assert result.exit_code == 2, result.output
    assert says in result.output


@pytest.mark.parametrize(("written", "seconds"), [("90s", 90), ("40m", 2400), ("1h30m", 5400), ("2d", 172_800)])
def test_durations_may_have_seconds(written: str, seconds: int) -> None:
    assert Duration().convert(written, None, None) == seconds


@pytest.mark.parametrize("written", ["", "s", "90", "-5m", "1.5h", "5m ", "5x", "m5"])
def test_what_is_no_duration(written: str) -> None:
    with pytest.raises(click.UsageError, match="no duration"):
        Duration().convert(written, None, None)


def test_everything_that_can_be_supposed_has_an_option() -> None:
    assert set(OPTIONS) == set(Supposition.model_fields)
