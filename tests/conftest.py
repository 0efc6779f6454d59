"""One PostgreSQL for the suite, one database a pytest worker, made from a migrated template; emptied before each test.

``AGENTSCHED_TEST_DATABASE_URL`` names a server to use instead of the embedded one; its user must be able to create
databases.
"""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL, make_url

from agentsched.embedded.locks import locked
from agentsched.embedded.postgres import EmbeddedPostgres
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.migrate import migrate
from tests.clock import Clock

TEMPLATE = "agentsched_template"
SERVER_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "300"}


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return ("asyncio", {"debug": False})


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory that all pytest workers of this run share, and no other run."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


def pytest_sessionfinish(session: pytest.Session) -> None:
    """As root the data lies outside of the run's directory; once everybody has left, it goes."""
    if not hasattr(session.config, "workerinput"):
        factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]  # pytest offers hooks no other way to it
        shutil.rmtree((factory.getbasetemp() / "suite" / "postgres").resolve(), ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With AGENTSCHED_NO_SKIPS a skipped test is a failure, because then everything that tests need is there."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("AGENTSCHED_NO_SKIPS"):
        terminalreporter.write_line(f"{len(skipped)} tests were skipped, and AGENTSCHED_NO_SKIPS allows none", red=True)
        pytest.exit("tests were skipped", returncode=1)


@pytest.fixture(scope="session")
def server_url(run_dir: Path) -> Iterator[URL]:
    given = os.environ.get("AGENTSCHED_TEST_DATABASE_URL")
    with _server(given, run_dir) as url:
        yield url


@contextmanager
def _server(given: str | None, run_dir: Path) -> Iterator[URL]:
    if given is not None:
        yield make_url(given)
        return
    with EmbeddedPostgres.start(run_dir / "suite", options=SERVER_OPTIONS) as server:
        yield make_url(server.url)


@pytest.fixture(scope="session")
async def template(server_url: URL, run_dir: Path) -> str:
    """The name of a migrated database that others are made from."""
    name = f"{TEMPLATE}_{run_dir.name.replace('-', '_')}"
    made = run_dir / "template-made"
    with locked(run_dir / "template.lock"):
        if not made.exists():
            await _create(server_url, name, "template1")
            db = Database(_url(server_url, name), pool_size=0)
            await migrate(db)
            await db.close()
            made.touch()
    return name


@pytest.fixture(scope="session")
async def database_url(server_url: URL, template: str, run_dir: Path, worker_id: str) -> AsyncIterator[str]:
    """This pytest worker's own database."""
    name = f"agentsched_{run_dir.name.replace('-', '_')}_{worker_id}"
    with locked(run_dir / "template.lock"):
        await _create(server_url, name, template)
    yield _url(server_url, name)
    await _drop(server_url, name)


@pytest.fixture(scope="session")
async def shared_db(database_url: str) -> AsyncIterator[Database]:
    db = Database(database_url)
    yield db
    await db.close()


@pytest.fixture
async def db(shared_db: Database) -> Database:
    """An empty database at the newest revision, with a running clock."""
    async with shared_db.begin() as conn:
        names = (
            await conn.execute(
                text(
                    "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables WHERE schemaname = 'public'"
                    " AND tablename NOT IN ('clock', 'alembic_version')"
                )
            )
        ).scalar_one()
        await conn.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
        await conn.execute(text("UPDATE clock SET shift = NULL, frozen_at = NULL"))
    return shared_db


@pytest.fixture
def clock(db: Database) -> Clock:
    """The one clock, to freeze and to step."""
    return Clock(db)


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url)


async def _create(server: URL, name: str, template: str) -> None:
    await _maintain(server, f'DROP DATABASE IF EXISTS "{name}"', f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


async def _drop(server: URL, name: str) -> None:
    await _maintain(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


async def _maintain(server: URL, *statements: str) -> None:
    db = Database(_url(server, "postgres"), pool_size=0)
    async with db.autocommit() as conn:
        for statement in statements:
            await conn.execute(text(statement))
    await db.close()


def _url(server: URL, name: str) -> str:
    return server.set(database=name).render_as_string(hide_password=False)
