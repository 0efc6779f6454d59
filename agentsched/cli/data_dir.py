"""What the processes of one machine leave for each other in the data directory (DESIGN §14).

- `serving.lock` is held by the process whose API is announced;
- `url` has its address, from when it is ready, and means nothing unless the lock is held;
- `api_key` (0600) has the admin key of the embedded database.
"""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentsched.embedded.locks import open_lock, try_exclusive
from agentsched.embedded.places import default_data_dir
from agentsched.settings import Settings

CLAIM_SECONDS = 0.5
"""Commands that look whether the lock is held hold it themselves for an instant."""

_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class DataDir:
    """The data directory of one embedded database."""

    path: Path

    @classmethod
    def of(cls, settings: Settings) -> "DataDir":
        return cls((settings.data_dir or default_data_dir()).absolute())

    @property
    def has_database(self) -> bool:
        return (self.path / "postgres" / "cluster").exists()

    @property
    def api_key_file(self) -> Path:
        return self.path / "api_key"

    @property
    def _url_file(self) -> Path:
        return self.path / "url"

    @property
    def _lock_file(self) -> Path:
        return self.path / "serving.lock"

    def api_key(self) -> str | None:
        """The admin key; None if there is none that this user may read."""
        return _read(self.api_key_file)

    def write_api_key(self, key: str) -> None:
        """Put the key in place, whole, readable by its owner only."""
        _write(self.api_key_file, key)

    def served_url(self) -> str | None:
        """The address of the API that is alive on this data directory, None if none is."""
        if not self._lock_file.exists():
            return None
        try:
            lock = os.open(self._lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(self._url_file)
        finally:
            os.close(lock)
        return None

    @contextlib.contextmanager
    def serving(self) -> Iterator[bool]:
        """Be the announced process of this data directory until the end; False if another one is.

        Raises OSError if the directory can be neither made nor written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = open_lock(self._lock_file)
        try:
            deadline = time.monotonic() + CLAIM_SECONDS
            while not (claimed := try_exclusive(lock)) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if claimed:
                # Left behind by a process that was killed.
                self._url_file.unlink(missing_ok=True)
            try:
                yield claimed
            finally:
                if claimed:
                    self._url_file.unlink(missing_ok=True)
        finally:
            os.close(lock)

    def announce(self, url: str) -> None:
        """Write down where the API is; only for the process that is `serving`."""
        _write(self._url_file, url)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return None


def _write(path: Path, text: str) -> None:
    staging = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
        staging.replace(path)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise
