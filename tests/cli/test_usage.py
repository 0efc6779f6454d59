"""What can be told without a service: usage, options, and where a service would be looked for."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich_click as click
from click.testing import CliRunner

import agentsched
from agentsched.cli.client import find_service
from agentsched.cli.data_dir import DataDir
from agentsched.cli.main import COMMANDS, main
from agentsched.cli.refusal import CommandRefused
from agentsched.cli.schedule_options import NONE_ALLOWED, NUMBERS, as_body, schedule_options
from agentsched.service.policies import NULL_MEANS_NONE
from agentsched.service.requests import NewSchedule
from agentsched.settings import Settings
from tests.cli.processes import invoke

LOCAL = "http://127.0.0.1:8420"


def test_version(tmp_path: Path) -> None:
    result = invoke(tmp_path, "--version")
    assert (result.exit_code, result.output) == (0, f"agentsched {agentsched.__version__}\n")


def test_every_command_says_what_it_does(tmp_path: Path) -> None:
    for name in COMMANDS:
        result = invoke(tmp_path, name, "--help")
        assert result.exit_code == 0, result.output
        assert "Usage:" in result.output


def test_every_command_that_prints_data_can_print_json() -> None:
    def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(group, click.Group):
            yield path, group
            return
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, f"{path} {name}".strip())

    without = {
        path for path, command in commands(main, "") if not any(each.name == "as_json" for each in command.params)
    }
    assert without == {"openapi", "mcp"}, "these print JSON anyhow"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Usage"),
        (("fly",), "fly"),
        (("up", "--port", "many"), "--port"),
        (("up", "--port", "70000"), "--port"),
        (("schedules", "create", "1", "--cron", "* * * * *"), "--prompt"),
        (("schedules", "create", "1", "--prompt", "x"), "none of them"),
        (("schedules", "create", "1", "--prompt", "x", "--cron", "@daily", "--in", "5m"), "--cron and --in"),
        (("schedules", "create", "1", "--prompt", "x", "--cron", "@daily", "--overlap", "maybe"), "maybe"),
        (("schedules", "create", "1", "--prompt", "x", "--cron", "@daily", "--queue-limit", "few"), "few"),
        (("schedules", "preview", "1", "--every", "2h"), "not both"),
        (("schedules", "preview"), "none of them"),
        (("chat", "1", "--title", "x"), "keeps its title"),
        (("keys", "create", "--scope", "king"), "king"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    result = invoke(tmp_path, *arguments)
    assert result.exit_code == 2, result.output
    assert says in result.output


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    result = invoke(tmp_path, "tick", AGENTSCHED_LEASE_SECONDS="soon")
    assert result.exit_code == 2
    assert "AGENTSCHED_LEASE_SECONDS" in result.output
    assert "soon" in result.output


def test_a_url_that_is_no_postgresql_is_refused(tmp_path: Path) -> None:
    result = invoke(tmp_path, "migrate", "--json", AGENTSCHED_DATABASE_URL="sqlite:///secret")
    assert result.exit_code == 1
    assert json.loads(result.stderr)["code"] == "database_url_invalid"


def test_a_database_that_is_away_is_refused_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://me:hidden@127.0.0.1:1/agentsched"
    result = invoke(tmp_path, "tick", AGENTSCHED_DATABASE_URL=url)
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
    assert "hidden" not in result.output


@pytest.mark.parametrize("command", ["up", "worker"])
def test_a_data_directory_that_cannot_be(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke(tmp_path / "file" / "inside", command)
    assert result.exit_code == 1
    assert "AGENTSCHED_DATA_DIR" in result.stderr


def test_without_a_service_the_clients_say_how_to_start_one(tmp_path: Path) -> None:
    result = invoke(tmp_path, "schedules", "list", "1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "agentsched up" in result.stderr
    assert str(tmp_path) in result.stderr


def test_what_answers_nothing_is_named(tmp_path: Path) -> None:
    result = invoke(tmp_path, "schedules", "list", "1", AGENTSCHED_URL="http://127.0.0.1:1", AGENTSCHED_API_KEY="x")
    assert result.exit_code == 1
    assert "Nothing answers at http://127.0.0.1:1" in result.stderr


def test_the_local_key_stays_on_this_machine(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    DataDir.of(settings).write_api_key("ask_local")
    assert find_service(settings, LOCAL, None).api_key == "ask_local"
    assert find_service(settings, "http://localhost:8420", None).api_key == "ask_local"
    with pytest.raises(CommandRefused, match="no key for"):
        find_service(settings, "https://elsewhere.example", None)


def test_with_a_key_and_no_local_service_the_configured_port_is_asked(tmp_path: Path) -> None:
    found = find_service(Settings(data_dir=tmp_path, port=9999), None, "ask_given")
    assert found == ("http://127.0.0.1:9999", "ask_given")


def test_an_address_left_behind_counts_for_nothing(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    with data_dir.serving() as first:
        assert first
        data_dir.announce(LOCAL)
        assert data_dir.served_url() == LOCAL
        with data_dir.serving() as second:
            assert not second
        assert data_dir.served_url() == LOCAL, "the second one has taken nothing away"
    (tmp_path / "url").write_text(LOCAL)
    assert data_dir.served_url() is None
    with data_dir.serving():
        assert data_dir.served_url() is None, "it is not ready yet"


def test_options_become_the_request() -> None:
    bodies = []

    @click.command()
    @schedule_options
    def command(**options: object) -> None:
        bodies.append(as_body(options))

    arguments = "--in 20m --name n --overlap allow --max-concurrency none --max-runs 3 --retry-max-attempts 2"
    result = CliRunner().invoke(command, [*arguments.split(), "--model", "openai:gpt-5", "--catch-up"])
    assert result.exit_code == 0, result.output
    assert bodies == [
        {
            "in": "20m",
            "name": "n",
            "overlap": "allow",
            "max_concurrency": None,
            "max_runs": 3,
            "catch_up": True,
            "retry": {"max_attempts": 2},
            "agent": {"harness": "pydantic-ai", "model": "openai:gpt-5"},
        }
    ]


def test_a_wrong_setting_is_named_and_no_password_is_shown(tmp_path: Path) -> None:
    secret = {"AGENTSCHED_DATABASE_URL": "postgresql://u:topsecret@h/d", "AGENTSCHED_HEARTBEAT_SECONDS": "60"}
    for given, named in (({}, "AGENTSCHED_LEASE_SECONDS"), ({"AGENTSCHED_SWEEP_SECONDS": "soon"}, "got 'soon'")):
        result = invoke(tmp_path, "doctor", **secret, **given)
        assert result.exit_code == 2
        assert named in result.output
        assert "topsecret" not in result.output
        assert "Value error" not in result.output


def test_every_field_of_a_schedule_is_an_option() -> None:
    @click.command()
    @schedule_options
    def command(**options: object) -> None: ...

    names = {each.name for each in command.params}
    nested = {"retry", "agent"}
    elsewhere = {"prompt", "webhook"}
    assert NewSchedule.model_fields.keys() - nested - elsewhere <= names
    assert set(NONE_ALLOWED) == set(NULL_MEANS_NONE)
    assert set(NONE_ALLOWED) <= set(NUMBERS)
