"""Bring the schema of a database to the version of this package."""

from importlib.resources import as_file, files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from agentsched.store.database import Database

ADVISORY_LOCK = 7_218_420_001
"""Held while migrating, so that processes that start at once do it one after the other."""


async def migrate(db: Database) -> str:
    """Upgrade to the newest revision, in one transaction; its name."""
    async with db.begin() as conn:
        await conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        return await conn.run_sync(_upgrade)


async def is_current(db: Database) -> bool:
    """Whether the schema is at the newest revision."""
    async with db.begin() as conn:
        return await conn.run_sync(lambda sync: _revision(sync) == _script().get_current_head())


def script_location() -> Path:
    """Where the migrations lie: in the installed package, or beside it in a checkout."""
    with as_file(files("agentsched")) as package:
        inside = package / "migrations"
        return inside if inside.is_dir() else package.parent / "migrations"


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    return config


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(alembic_config())


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _upgrade(connection: Connection) -> str:
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    return _revision(connection) or ""
