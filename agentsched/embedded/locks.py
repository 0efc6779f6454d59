"""Advisory file locks (flock).

The kernel drops them when the last process that has the file open is gone, however it went, so a lock
says "somebody is alive" more reliably than a process id in a file: ids are reused, and zombies still answer
to theirs.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_lock(path: Path) -> int:
    """Open (and create, for the owner only) a lock file; the caller closes the descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_exclusive(descriptor: int) -> bool:
    """Take the lock alone if nobody else has it. What the descriptor held before is given up either way."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def share(descriptor: int) -> None:
    """Take the lock together with others."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def release(descriptor: int) -> None:
    """Give the lock up, also on behalf of forked children that still have the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock alone, waiting for it as long as it takes."""
    descriptor = open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
