"""`agentsched doctor`: is everything there that is needed, does it work, and what is to be done if not."""

import asyncio
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict

import httpx
import rich_click as click
from click.exceptions import Exit

from agentsched.cli.client import is_local
from agentsched.cli.configuration import read_settings
from agentsched.cli.connection_checks import check_database, check_redis
from agentsched.cli.data_dir import DataDir
from agentsched.cli.finding import Finding, State
from agentsched.cli.output import json_option, print_json, print_table
from agentsched.cli.refusal import CommandRefused
from agentsched.cli.runtime import place
from agentsched.core.zones import tzdata_version
from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.settings import Settings

ANSWER_SECONDS = 5.0


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check everything that is needed, and say what to do where something is wrong. Nothing is changed.

    Exit code 1 if there is a problem; warnings are none.
    """
    settings = read_settings()
    findings = [*_machine(), *_data_dir(settings), *_database(settings), asyncio.run(check_redis(settings))]
    if as_json:
        print_json({"ok": _healthy(findings), "checks": [asdict(finding) for finding in findings]})
    else:
        print_table(
            ("CHECK", "STATE", "FINDING", "WHAT TO DO"),
            ((each.check, each.state, each.finding, each.advice) for each in findings),
        )
    if not _healthy(findings):
        raise Exit(1)


def _healthy(findings: list[Finding]) -> bool:
    return not any(finding.state is State.PROBLEM for finding in findings)


def _machine() -> Iterator[Finding]:
    yield Finding("python", State.OK, platform.python_version())
    yield Finding("tzdata", State.OK, tzdata_version())
    unknown = sorted(name for name in os.environ if name.startswith("AGENTSCHED_") and not _is_known(name))
    if unknown:
        yield Finding(
            "settings", State.WARNING, f"not a setting: {', '.join(unknown)}", "Correct the names, or unset them."
        )
    else:
        yield Finding("settings", State.OK, "every AGENTSCHED_ variable is one")


def _is_known(variable: str) -> bool:
    name = variable.removeprefix("AGENTSCHED_").lower()
    return name in Settings.model_fields or name in ("url", "api_key")


def _data_dir(settings: Settings) -> Iterator[Finding]:
    if settings.database_url is not None:
        yield Finding("data dir", State.OK, "not needed: AGENTSCHED_DATABASE_URL is given")
        return
    data_dir = DataDir.of(settings)
    if not data_dir.path.exists():
        yield Finding("data dir", State.WARNING, f"{data_dir.path} is not there yet", "`agentsched up` makes it.")
    elif not os.access(data_dir.path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "data dir",
            State.PROBLEM,
            f"{data_dir.path} cannot be written",
            "Change its owner, or give another directory with AGENTSCHED_DATA_DIR.",
        )
    else:
        yield Finding("data dir", State.OK, str(data_dir.path))
    yield _service(data_dir)


def _service(data_dir: DataDir) -> Finding:
    url = data_dir.served_url()
    if url is None:
        return Finding("api", State.WARNING, "not running on this data directory", "`agentsched up` starts it.")
    try:
        answer = httpx.get(f"{url}/health/ready", timeout=ANSWER_SECONDS, trust_env=not is_local(url))
    except httpx.HTTPError as error:
        return Finding("api", State.PROBLEM, f"{url} does not answer: {error}", "Stop it, and start it again.")
    if answer.is_success:
        return Finding("api", State.OK, url)
    return Finding("api", State.PROBLEM, f"{url} is not ready (HTTP {answer.status_code})", "See its log.")


def _database(settings: Settings) -> list[Finding]:
    if settings.database_url is None and not DataDir.of(settings).has_database:
        return [Finding("database", State.WARNING, "there is none yet", "`agentsched up` makes it.")]
    try:
        with place(settings) as where:
            return asyncio.run(check_database(where))
    except EmbeddedPostgresError as error:
        return [Finding("database", State.PROBLEM, str(error), "See what it says.")]
    except CommandRefused as refused:
        return [Finding("database", State.PROBLEM, str(refused), "Start it, or correct AGENTSCHED_DATABASE_URL.")]
