"""Where the embedded PostgreSQL keeps its files."""

import hashlib
import os
import secrets
import sys
from pathlib import Path

import platformdirs

from agentsched.embedded.errors import EmbeddedPostgresError

#: Root's default data directory, and the only place where the system user's files are put otherwise.
SYSTEM_HOME = Path("/var/lib/agentsched")


def running_as_root() -> bool:
    """Whether this process is root, as whom PostgreSQL refuses to run."""
    return sys.platform != "win32" and os.geteuid() == 0


def default_data_dir() -> Path:
    """The data directory if none is configured: the user's own, or /var/lib/agentsched for root."""
    return SYSTEM_HOME if running_as_root() else Path(platformdirs.user_data_dir("agentsched"))


def user_home(data_dir: Path) -> Path:
    """`<data_dir>/postgres`, made if absent, for an ordinary user.

    Raises EmbeddedPostgresError if it belongs to somebody else.
    """
    home = data_dir / "postgres"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _own(home.resolve())


def root_home(data_dir: Path, *, uid: int, gid: int) -> Path:
    """The directory for root's PostgreSQL, run by the system user `uid`. The caller holds the setup lock.

    `<data_dir>/postgres` where the system user can get there. Where it can not (a directory in root's home),
    that name is a link to a new directory `/var/lib/agentsched/<digest of the path>-<random>`; the random
    part keeps a data directory that was deleted from coming back with its old database.

    Raises EmbeddedPostgresError if the directory is gone, belongs to somebody else or has become unreachable.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    place = data_dir / "postgres"
    if not os.path.lexists(place):
        if can_reach(data_dir, uid=uid, gid=gid):
            make_passable(place)
        else:
            digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
            target = SYSTEM_HOME / f"{digest}-{secrets.token_hex(4)}"
            make_passable(target)
            place.symlink_to(target)
    home = place.resolve()
    if not home.is_dir():
        raise EmbeddedPostgresError(
            f"{place} points to {home}, where the database was kept, and that is gone. "
            f"Bring it back, or remove {place} to start with an empty database."
        )
    if not can_reach(home, uid=uid, gid=gid):
        raise EmbeddedPostgresError(
            f"The system user (uid {uid}) that runs PostgreSQL can not get to {home}. "
            f"Let it pass through (chmod o+x on the directories above), or give another data directory."
        )
    return _own(home)


def make_passable(directory: Path) -> None:
    """Create a directory of ours that others may pass through but not list, whatever the umask."""
    directory.mkdir()
    directory.chmod(0o711)


def can_reach(path: Path, *, uid: int, gid: int) -> bool:
    """Whether the permissions let this user pass through `path` and everything above it."""
    for directory in (path.resolve(), *path.resolve().parents):
        status = directory.stat()
        bit = 0o100 if status.st_uid == uid else 0o010 if status.st_gid == gid else 0o001
        if not status.st_mode & bit:
            return False
    return True


def _own(home: Path) -> Path:
    owner = home.stat().st_uid
    if owner != os.geteuid():
        raise EmbeddedPostgresError(
            f"{home} belongs to uid {owner}, and this is uid {os.geteuid()}. "
            f"Run as that user, or give another data directory (AGENTSCHED_DATA_DIR)."
        )
    return home
