"""One PostgreSQL server: its files made, its process started, found and stopped.

Every call here is made under the lock of the directory (see `agentsched.embedded.postgres`).

The server's processes inherit a locked file, `server.lock`. While the lock is held some process of the
server is alive; once it is free none is, whatever `postmaster.pid` says.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

import psutil  # type: ignore[import-untyped]

from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.embedded.locks import open_lock, try_exclusive
from agentsched.embedded.programs import Account, run

DATABASE = "agentsched"
USER = "agentsched"
HOST = "127.0.0.1"

#: Long enough for the recovery after a crash on a slow disk.
START_SECONDS = 120.0
STOP_SECONDS = 120.0
_POLL_SECONDS = 0.01
_PORTS_TRIED = 20
_LOG_LINES_QUOTED = 20

#: Durable, and small enough for a laptop.
DEFAULT_OPTIONS: Mapping[str, str] = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # The detail of an error quotes column values, and those may be prompts or hashes of tokens.
    "log_error_verbosity": "terse",
    "jit": "off",
}


@dataclass(frozen=True)
class Server:
    """The server of one directory `home`, run by `account` if not by this process's own user."""

    home: Path
    binaries: Path
    account: Account | None

    @property
    def log(self) -> Path:
        """What the server said since it was last started."""
        return self.home / "server.log"

    @property
    def _cluster(self) -> Path:
        return self.home / "cluster"

    @property
    def _data(self) -> Path:
        return self._cluster / "data"

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"

    def url(self) -> str:
        """How to connect; the server runs."""
        password = (self._cluster / "password").read_text()
        port = (self.home / "port").read_text()
        return f"postgresql://{USER}:{password}@{HOST}:{port}/{DATABASE}"

    def ensure_running(self, options: Mapping[str, str]) -> None:
        """Join the running server, or create what is missing and start it.

        `options` are server settings over the defaults, used only if it is this call that starts the server.
        Raises EmbeddedPostgresError, which quotes the server's log.
        """
        deadline = time.monotonic() + START_SECONDS
        while self._is_alive():
            # Ready, starting, stopping, or orphans about to notice that their postmaster is gone.
            if self._is_ready():
                return
            self._wait(deadline, "An earlier server neither became ready nor went away")
        stranger = self._postmaster()
        if stranger is not None:
            raise EmbeddedPostgresError(
                f"A PostgreSQL that was started by other means (pid {stranger.pid}) runs on {self._data}. "
                f"Stop it first (pg_ctl stop -D {self._data})."
            )
        self._create_cluster(quick=options.get("fsync") == "off")
        self._start({**DEFAULT_OPTIONS, **options})

    def stop(self) -> None:
        """Shut down fast and cleanly, and wait until no process of the server is left.

        Raises EmbeddedPostgresError if it does not stop in time.
        """
        deadline = time.monotonic() + STOP_SECONDS
        postmaster = self._postmaster()
        if postmaster is not None:
            postmaster.send_signal(signal.SIGINT)
        while self._is_alive():
            self._wait(deadline, f"The server did not stop in {STOP_SECONDS:.0f} s")

    def _create_cluster(self, *, quick: bool) -> None:
        for leftover in self.home.glob("creating-*"):
            shutil.rmtree(leftover)
        if self._cluster.exists():
            return
        staging = Path(tempfile.mkdtemp(prefix="creating-", dir=self.home))
        password = staging / "password"
        password.touch(0o600)
        password.write_text(secrets.token_urlsafe(32))
        if self.account is not None:
            for path in (staging, password):
                os.chown(path, self.account.uid, self.account.gid)
        self._run(
            "initdb",
            f"--pgdata={staging / 'data'}",
            f"--username={USER}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--no-instructions",
            *(["--no-sync"] if quick else []),
        )
        single = ["--single", "-D", str(staging / "data"), *(["-F"] if quick else []), "postgres"]
        self._run("postgres", *single, stdin=f"CREATE DATABASE {DATABASE};\n")
        # Only a finished cluster gets the name, so that a crash on the way blocks nothing.
        staging.rename(self._cluster)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> None:
        command = [str(self.binaries / program), *arguments]
        # They hold the lock as well: should this process be killed, the next start waits for them to end.
        with self._lock_for_children() as inherited:
            done = run(
                command,
                account=self.account,
                input=stdin,
                stdout=PIPE,
                stderr=STDOUT,
                text=True,
                pass_fds=inherited,
            )
        # A single-user server goes on after an error and exits with 0.
        if done.returncode != 0 or "ERROR:" in done.stdout:
            raise EmbeddedPostgresError(
                f"{program} failed (exit {done.returncode}) while the database was being created "
                f"in {self.home}. It said:\n{_last_lines(done.stdout)}"
            )

    def _start(self, options: Mapping[str, str]) -> None:
        # Stale, as no process of the server is left; PostgreSQL would believe it if the id has been reused.
        self._pid_file.unlink(missing_ok=True)
        if self.log.exists():
            self.log.replace(self.home / "server.log.1")
        for port in self._ports():
            (self.home / "port").write_text(str(port))
            said_before = self.log.stat().st_size if self.log.exists() else 0
            self._spawn(options, port)
            if self._becomes_ready():
                return
            said = self.log.read_bytes()[said_before:].decode(errors="replace")
            if "could not bind" not in said:
                raise EmbeddedPostgresError(
                    f"The embedded PostgreSQL in {self.home} did not start. "
                    f"Last lines of {self.log}:\n{_last_lines(said)}"
                )
        raise EmbeddedPostgresError(f"The embedded PostgreSQL got none of {_PORTS_TRIED} ports on {HOST}.")

    def _ports(self) -> Iterator[int]:
        # The last port first: after a crash of the server the pools of other members find it again.
        with contextlib.suppress(FileNotFoundError, ValueError):
            yield int((self.home / "port").read_text())
        for _ in range(_PORTS_TRIED):
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
            yield port

    def _spawn(self, options: Mapping[str, str], port: int) -> None:
        settings = {**options, "listen_addresses": HOST, "port": str(port), "unix_socket_directories": ""}
        server = [str(self.binaries / "postgres"), "-D", str(self._data)]
        for name, value in settings.items():
            server += ["-c", f"{name}={value}"]
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # The shell goes away at once: the server is nobody's child here, and no zombie when it ends.
            command = ["/bin/sh", "-c", '"$@" &', "sh", *server]
            with self._lock_for_children() as inherited:
                run(command, account=self.account, stdin=DEVNULL, stdout=log, stderr=log, pass_fds=inherited)
        finally:
            os.close(log)

    @contextlib.contextmanager
    def _lock_for_children(self) -> Iterator[list[int]]:
        lock = open_lock(self.home / "server.lock")
        try:
            try_exclusive(lock)
            yield [lock]
        finally:
            os.close(lock)

    def _becomes_ready(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self._is_alive():
            if self._is_ready():
                return True
            self._wait(deadline, f"The server was not ready after {START_SECONDS:.0f} s")
        return False

    def _is_alive(self) -> bool:
        lock = open_lock(self.home / "server.lock")
        try:
            return not try_exclusive(lock)
        finally:
            os.close(lock)

    def _is_ready(self) -> bool:
        lines = self._pid_file_lines()
        return len(lines) >= 8 and lines[7].strip() == "ready" and self._postmaster() is not None

    def _postmaster(self) -> psutil.Process | None:
        """The process that `postmaster.pid` names, if it is a server of this directory, not a reused id."""
        lines = self._pid_file_lines()
        try:
            process = psutil.Process(int(lines[0]))
            if process.name() == "postgres" and Path(process.cwd()) == self._data:
                return process
        except (IndexError, ValueError, psutil.Error):
            pass
        return None

    def _pid_file_lines(self) -> Sequence[str]:
        try:
            return self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return []

    def _wait(self, deadline: float, what_is_wrong: str) -> None:
        if time.monotonic() > deadline:
            said = self.log.read_text(errors="replace") if self.log.exists() else ""
            raise EmbeddedPostgresError(
                f"{what_is_wrong} (the embedded PostgreSQL in {self.home}). "
                f"Last lines of {self.log}:\n{_last_lines(said)}"
            )
        time.sleep(_POLL_SECONDS)


def _last_lines(text: str) -> str:
    return "\n".join(text.splitlines()[-_LOG_LINES_QUOTED:]) or "(nothing)"
