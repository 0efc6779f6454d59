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
        self.log = self.process.communicate(timeout=DEADLINE_SECONDS)[1]
        return self.process.returncode

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


def run(data_dir: Path, *arguments: str, stdin: str = "", given: Mapping[str, str] | None = None) -> "Ended":
    """A command that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "agentsched.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env=environment(data_dir, given),
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Ended:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def document(self) -> Any:
        """What `--json` printed."""
        assert self.code == 0, f"exit code {self.code}: {self.err}"
        return json.loads(self.out)
