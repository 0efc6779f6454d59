"""The embedded PostgreSQL: started once, shared, kept, and stopped by the last one to leave."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psutil  # type: ignore[import-untyped]
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from agentsched.embedded.errors import EmbeddedPostgresError
from agentsched.embedded.places import default_data_dir
from agentsched.embedded.postgres import EmbeddedPostgres
from agentsched.embedded.programs import Account, run
from agentsched.embedded.system_user import installed_binaries
from tests.embedded.members import QUICK, Member, postmaster, query, remove, wait_until


def test_the_database_is_kept_between_starts(empty_dir: Path) -> None:
    with EmbeddedPostgres.start(empty_dir, options=QUICK) as postgres:
        query(postgres.url, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert postmaster(empty_dir) is None
    with EmbeddedPostgres.start(empty_dir, options=QUICK) as postgres:
        assert query(postgres.url, "SELECT answer FROM kept") == 42


def test_asyncpg_sqlalchemy_and_psql_take_the_url(used_dir: Path) -> None:
    async def by_sqlalchemy(url: str) -> object:
        engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
        async with engine.connect() as connection:
            found = await connection.scalar(sqlalchemy.text("SELECT current_database()"))
        await engine.dispose()
        return found

    with EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
        assert query(postgres.url, "SELECT current_database()::text") == "agentsched"
        assert asyncio.run(by_sqlalchemy(postgres.url)) == "agentsched"
        psql = [str(installed_binaries() / "psql"), "-XAtc", "SELECT current_database()", postgres.url]
        assert subprocess.run(psql, capture_output=True, text=True, check=True).stdout == "agentsched\n"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_version_num", "18"),
        ("server_encoding", "UTF8"),
        ("TimeZone", "UTC"),
        ("max_connections", "200"),
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
    ],
)
def test_without_options_the_server_is_durable_and_speaks_utc(
    production: EmbeddedPostgres, setting: str, value: str
) -> None:
    shown = query(production.url, f"SHOW {setting}")
    assert isinstance(shown, str)
    assert shown.startswith(value)


def test_texts_sort_by_code_point_and_fold_case_beyond_ascii(production: EmbeddedPostgres) -> None:
    assert query(production.url, "SELECT lower('ÄÉ') || ('Z' < 'a')") == "äétrue"


@pytest.fixture
def production(used_dir: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres.start(used_dir) as postgres:
        yield postgres


def test_options_are_server_settings(used_dir: Path) -> None:
    with EmbeddedPostgres.start(used_dir, options={**QUICK, "work_mem": "5MB"}) as postgres:
        assert query(postgres.url, "SHOW work_mem") == "5MB"
        assert query(postgres.url, "SHOW fsync") == "off"


def test_processes_that_start_at_once_share_one_server_which_the_last_one_stops(empty_dir: Path) -> None:
    members = [Member(empty_dir) for _ in range(4)]
    urls = {member.url for member in members}
    assert len(urls) == 1
    url = urls.pop()
    for number, member in enumerate(members):
        assert query(url, "SELECT 1") == 1, f"the server was gone after {number} of 4 had left"
        with member:
            assert member.end() == 0
    assert postmaster(empty_dir) is None


def test_a_process_may_join_more_than_once(used_dir: Path) -> None:
    first = EmbeddedPostgres.start(used_dir, options=QUICK)
    second = EmbeddedPostgres.start(used_dir, options=QUICK)
    first.leave()
    first.leave()
    assert query(second.url, "SELECT 1") == 1
    second.leave()
    assert postmaster(used_dir) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_ends_the_last_member_stops_the_server(used_dir: Path, number: int) -> None:
    with Member(used_dir) as member:
        assert query(member.url, "SELECT 1") == 1
        assert member.end(number) != 0
    assert postmaster(used_dir) is None


def test_a_member_that_never_leaves_is_gone_at_the_end_of_its_process(used_dir: Path) -> None:
    script = (
        "import sys, pathlib; from agentsched.embedded.postgres import EmbeddedPostgres; "
        "print(EmbeddedPostgres.start(pathlib.Path(sys.argv[1])).url, flush=True); sys.stdin.read()"
    )
    with Member(used_dir, script=script) as member:
        assert query(member.url, "SELECT 1") == 1
        assert member.end() == 0
    assert postmaster(used_dir) is None


def test_a_forked_child_does_not_stop_the_server(used_dir: Path) -> None:
    script = (
        "import os, sys, pathlib; from agentsched.embedded.postgres import EmbeddedPostgres\n"
        "postgres = EmbeddedPostgres.start(pathlib.Path(sys.argv[1]))\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait(); print(postgres.url, flush=True); sys.stdin.read()"
    )
    with Member(used_dir, script=script) as member:
        assert query(member.url, "SELECT 1") == 1


def test_a_server_whose_only_member_was_killed_is_taken_over_and_stopped(used_dir: Path) -> None:
    with Member(used_dir) as member:
        url = member.url
        before = postmaster(used_dir)
        # That this returns also shows that the server does not hold the member's output open.
        member.end(signal.SIGKILL)
    assert query(url, "SELECT 1") == 1
    with EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
        assert postgres.url == url
        assert postmaster(used_dir) == before
    assert postmaster(used_dir) is None


def test_a_killed_member_does_not_keep_the_server_from_stopping(used_dir: Path) -> None:
    with EmbeddedPostgres.start(used_dir, options=QUICK), Member(used_dir) as member:
        assert member.url
        member.end(signal.SIGKILL)
    assert postmaster(used_dir) is None


def test_a_killed_server_is_started_again_with_its_data_where_its_members_find_it(used_dir: Path) -> None:
    durable = EmbeddedPostgres.start(used_dir)
    query(durable.url, "CREATE TABLE survivor AS SELECT 'here' AS note")
    process = postmaster(used_dir)
    assert process is not None
    process.kill()
    with EmbeddedPostgres.start(used_dir) as postgres:
        assert postgres.url == durable.url
        assert query(postgres.url, "SELECT note FROM survivor") == "here"
        assert postmaster(used_dir) not in (None, process)
        durable.leave()
        assert query(postgres.url, "SELECT 1") == 1


def test_a_reused_process_id_in_the_pid_file_does_not_matter(used_dir: Path) -> None:
    with EmbeddedPostgres.start(used_dir, options=QUICK):
        cluster = (used_dir / "postgres").resolve() / "cluster"
        pid_file = cluster / "data" / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
    owner = cluster.stat()
    # PostgreSQL itself refuses to start when the process exists and is one of the same user.
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=owner.st_uid) as stranger:
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        with EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
            assert query(postgres.url, "SELECT 1") == 1
        assert stranger.poll() is None, "the stranger was taken for the server and stopped"
        stranger.communicate()


def test_a_server_started_by_hand_on_the_files_is_left_alone(used_dir: Path) -> None:
    cluster = (used_dir / "postgres").resolve() / "cluster"
    owner = cluster.stat()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    account = Account(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None
    with EmbeddedPostgres.start(used_dir, options=QUICK):
        process = postmaster(used_dir)
        assert process is not None
        binary = process.exe()
    options = f"-D '{cluster / 'data'}' -p {port} -c unix_socket_directories='' -c listen_addresses=127.0.0.1"
    by_hand = run(["/bin/sh", "-c", f"'{binary}' {options} >/dev/null 2>&1 & echo $!"], account=account, stdout=-1)
    pid = int(by_hand.stdout)
    pid_file = cluster / "data" / "postmaster.pid"
    wait_until(lambda: pid_file.exists() and "ready" in pid_file.read_text())
    try:
        with pytest.raises(EmbeddedPostgresError, match=rf"started by other means \(pid {pid}\)"):
            EmbeddedPostgres.start(used_dir, options=QUICK)
        assert psutil.pid_exists(pid)
    finally:
        os.kill(pid, signal.SIGINT)
        wait_until(lambda: postmaster(used_dir) is None)


def test_a_crash_while_the_database_is_created_blocks_nothing(empty_dir: Path) -> None:
    with Member(empty_dir) as member:
        wait_until(lambda: any((empty_dir / "postgres").glob("creating-*/data/PG_VERSION")))
        member.end(signal.SIGKILL)
    assert not (empty_dir / "postgres" / "cluster").exists()
    with EmbeddedPostgres.start(empty_dir, options=QUICK) as postgres:
        assert query(postgres.url, "SELECT current_database()::text") == "agentsched"
    assert not list((empty_dir / "postgres").glob("creating-*"))


def test_a_data_directory_may_have_a_long_name_with_odd_signs(tmp_path: Path) -> None:
    directory = tmp_path / ("a 'long' $HOME \"näme\" " * 8) / ("x" * 200)
    try:
        with EmbeddedPostgres.start(directory, options=QUICK) as postgres:
            assert query(postgres.url, "SELECT 1") == 1
    finally:
        remove(directory)


def test_nobody_gets_in_without_the_password(used_dir: Path) -> None:
    with EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
        parts = urlsplit(postgres.url)
        for credentials in ("agentsched", "agentsched:wrong", "postgres"):
            url = urlunsplit(parts._replace(netloc=f"{credentials}@{parts.hostname}:{parts.port}"))
            with pytest.raises(asyncpg.PostgresError) as refused:
                query(url, "SELECT 1")
            assert refused.value.sqlstate == "28P01"
        methods = query(postgres.url, "SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules")
        assert methods == "scram-sha-256"
        process = postmaster(used_dir)
        assert process is not None
        listening = [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert [c.laddr.ip for c in listening] == ["127.0.0.1"]
        assert [c for c in process.net_connections("unix") if c.laddr] == []
        assert parts.password is not None
        assert parts.password not in " ".join(process.cmdline())
    cluster = used_dir / "postgres" / "cluster"
    assert cluster.stat().st_mode & 0o777 == 0o700
    assert (cluster / "password").stat().st_mode & 0o777 == 0o600
    assert (used_dir / "postgres" / "server.log").stat().st_mode & 0o777 == 0o600


def test_a_failed_start_quotes_the_log_and_spoils_nothing(used_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match='invalid value for parameter "shared_buffers": "plenty"'):
        EmbeddedPostgres.start(used_dir, options={"shared_buffers": "plenty"})
    with EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
        assert query(postgres.url, "SELECT 1") == 1


def test_a_port_that_was_taken_meanwhile_is_replaced(used_dir: Path) -> None:
    with EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
        port = urlsplit(postgres.url).port
        assert port is not None
    squatter = socket.create_server(("127.0.0.1", port))
    with squatter, EmbeddedPostgres.start(used_dir, options=QUICK) as postgres:
        assert urlsplit(postgres.url).port != port
        assert query(postgres.url, "SELECT 1") == 1


def test_ctrl_c_in_the_terminal_of_the_member_that_started_it_does_not_reach_the_server(
    used_dir: Path,
) -> None:
    with Member(used_dir) as starter:
        url = starter.url
        with EmbeddedPostgres.start(used_dir, options=QUICK):
            before = postmaster(used_dir)
            os.killpg(starter.process.pid, signal.SIGINT)
            starter.end()
            assert query(url, "SELECT 1") == 1
            assert postmaster(used_dir) == before


def test_the_default_data_directory_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSCHED_DATA_DIR", "elsewhere")
    if os.geteuid() == 0:
        assert default_data_dir() == Path("/var/lib/agentsched")
    elif sys.platform == "linux":
        monkeypatch.setenv("XDG_DATA_HOME", "/data")
        assert default_data_dir() == Path("/data/agentsched")
