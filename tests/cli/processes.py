"""Real `agentsched` processes, as somebody starts them from a shell."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from click.testing import CliRunner, Result

from agentsched.cli.main import main

DEADLINE_SECONDS = 60.0
UNSET = ("AGENTSCHED_URL", "AGENTSCHED_API_KEY", "AGENTSCHED_DATABASE_URL", "AGENTSCHED_REDIS_URL", "AGENTSCHED_PORT")
PROVIDER_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


def environment(data_dir: Path, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what would lead to another service or to a provider."""
    kept = {name: value for name, value in os.environ.items() if name not in (*UNSET, *PROVIDER_KEYS)}
    return {**kept, "AGENTSCHED_DATA_DIR": str(data_dir), "AGENTSCHED_TIMEZONE": "Europe/Berlin", **(given or {})}


class Process:
    """One that runs until it is stopped; `ready` is the line that it prints once it is there."""

    def __init__(self, data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            [sys.executable, "-m", "agentsched.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(data_dir, given),
            start_new_session=True,
        )
        self._ready: dict[str, Any] | None = None

    @property
    def ready(self) -> dict[str, Any]:
        if self._ready is None:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.process.communicate(timeout=DEADLINE_SECONDS)[1]}"
            self._ready = json.loads(line)
        return self._ready

    @property
    def url(self) -> str:
        url: str = self.ready["url"]
        return url

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it this signal, and give its exit status once it is gone."""
        self.process.send_signal(number)
        self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode

    def said_up_to(self, line: str) -> str:
        """What it prints, up to this line."""
        assert self.process.stdout is not None
        said = ""
        for each in self.process.stdout:
            said += each
            if each == line:
                return said
        raise AssertionError(f"it ended without {line!r}, and said {said!r}")

    def wait_for_log(self, event: str) -> None:
        """Read its log up to this event."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if json.loads(line)["event"] == event:
                return
        raise AssertionError(f"it ended without {event}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def up(data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None) -> Process:
    """`agentsched up` on a free port."""
    return Process(data_dir, "up", "--json", "--port", "0", *arguments, given=given)


def run(data_dir: Path, *arguments: str, given: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "agentsched.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env=environment(data_dir, given),
        check=False,
    )


def invoke(data_dir: Path, *arguments: str, stdin: str = "", **given: str) -> Result:
    """A command that ends by itself, inside this process: quick."""
    runner = CliRunner(env={**dict.fromkeys(UNSET), **environment(data_dir, given)})
    return runner.invoke(main, arguments, input=stdin)


def document(result: Result) -> Any:
    """What a command printed with `--json`."""
    assert result.exit_code == 0, f"exit code {result.exit_code}: {result.output}"
    return json.loads(result.stdout)
