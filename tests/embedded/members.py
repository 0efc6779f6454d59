"""Other processes that use an embedded PostgreSQL, and what can be seen of the server from outside."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncpg
import psutil  # type: ignore[import-untyped]

QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
DEADLINE_SECONDS = 30.0


class Member:
    """`member.py` on a data directory, in its own process session like a command in a terminal."""

    def __init__(self, data_dir: Path, *, script: str = "", environment: Mapping[str, str] | None = None) -> None:
        program = ["-c", script] if script else [str(Path(__file__).with_name("member.py"))]
        self.process = subprocess.Popen(
            [sys.executable, *program, str(data_dir), *(f"{name}={value}" for name, value in QUICK.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    @property
    def url(self) -> str:
        """Wait until it has joined."""
        assert self.process.stdout is not None
        url = self.process.stdout.readline().strip()
        assert url.startswith("postgresql://"), f"the member said {url!r}"
        return url

    def end(self, signal_number: int | None = None) -> int:
        """Let it end by itself, or by this signal, and give its exit status once all its output is closed."""
        if signal_number is not None:
            self.process.send_signal(signal_number)
        self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def postmaster(data_dir: Path) -> psutil.Process | None:
    """The live server process of this data directory, found among all processes."""
    data = (data_dir / "postgres").resolve() / "cluster" / "data"
    for process in psutil.process_iter(["name", "cmdline", "status"]):
        running = process.info["status"] != psutil.STATUS_ZOMBIE
        if running and process.info["name"] == "postgres" and str(data) in (process.info["cmdline"] or []):
            return process
    return None


def wait_until(condition: Callable[[], bool]) -> None:
    """For what another process does, which no signal tells."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def query(url: str, sql: str) -> object:
    """The first value of the answer, on a connection of its own."""

    async def ask() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(ask())


def remove(data_dir: Path) -> None:
    """The data directory and the database, which may lie elsewhere."""
    shutil.rmtree((data_dir / "postgres").resolve(), ignore_errors=True)
    shutil.rmtree(data_dir, ignore_errors=True)
