"""The composition that every process shares: settings → database → schema → principal → admin key (DESIGN §14)."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import structlog
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from agentsched.cli.data_dir import DataDir
from agentsched.cli.refusal import CommandRefused
from agentsched.core.problems import Refused
from agentsched.core.words import Scope
from agentsched.core.zones import zone
from agentsched.embedded.locks import locked
from agentsched.embedded.postgres import EmbeddedPostgres
from agentsched.service import keys
from agentsched.service.authenticate import authenticate
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.migrate import is_current, migrate
from agentsched.telemetry import redacted_text

log = structlog.get_logger()

ADMIN_KEY_LABEL = "admin key of the data directory"


@dataclass(frozen=True)
class Place:
    """Where the database is. ``data_dir`` is None for a given one, which keeps no files on this machine."""

    settings: Settings
    database_url: str
    data_dir: DataDir | None


@contextlib.contextmanager
def place(settings: Settings) -> Iterator[Place]:
    """The configured database, or the embedded one, joined or started for as long as this is open. Blocks.

    Raises EmbeddedPostgresError, and CommandRefused for a URL that is none.
    """
    if settings.database_url is not None:
        yield Place(settings, _checked(settings.database_url), None)
        return
    data_dir = DataDir.of(settings)
    with usable(data_dir):
        postgres = EmbeddedPostgres.start(data_dir.path)
    with postgres:
        yield Place(settings, postgres.url, data_dir)


@contextlib.contextmanager
def usable(data_dir: DataDir) -> Iterator[None]:
    """Raises CommandRefused where the operating system refuses the data directory."""
    try:
        yield
    except OSError as error:
        raise CommandRefused(
            "data_dir_unusable",
            f"The data directory {data_dir.path} cannot be used: {error}. "
            "Make it writable, or give another one with AGENTSCHED_DATA_DIR.",
        ) from error


@contextlib.asynccontextmanager
async def database(where: Place) -> AsyncIterator[Database]:
    """A pool on the database, which answers. Raises CommandRefused if it does not."""
    db = Database(where.database_url)
    try:
        await _reach(db)
        yield db
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def prepared(where: Place) -> AsyncIterator[Database]:
    """A database with the schema of this version: the embedded one is migrated, a given one has to be already.

    Raises CommandRefused for a given database that is not.
    """
    async with database(where) as db:
        if where.data_dir is not None:
            await migrate(db)
        elif not await is_current(db):
            raise CommandRefused(
                "schema_not_current",
                f"The schema of the database {db.url.render_as_string()} is not the one that this version needs. "
                "Run `agentsched migrate` first.",
            )
        yield db


async def set_up(where: Place, db: Database) -> str | None:
    """The default principal, with the host's zone at first; and, on the embedded database, the admin key of its file.

    The key; None for a given database.
    """
    principal = await keys.ensure_principal(db, keys.DEFAULT_PRINCIPAL, host_timezone(where.settings))
    if where.data_dir is None:
        return None
    # Processes that start at once make one key between them. Nothing else runs in this one yet
    # that waiting could delay.
    with locked(where.data_dir.path / "api_key.lock"):
        key = where.data_dir.api_key()
        if key is None or await authenticate(db, key) is None:
            _, key = await keys.create_key(db, principal.id, scope=Scope.ADMIN, label=ADMIN_KEY_LABEL)
            where.data_dir.write_api_key(key)
        return key


def host_timezone(settings: Settings) -> str | None:
    """The configured zone, else this machine's; None if the machine does not say, or says what is no IANA zone.

    Raises Refused for a configured zone that is unknown.
    """
    if settings.timezone is not None:
        zone(settings.timezone)
        return settings.timezone
    import tzlocal

    try:
        name = tzlocal.get_localzone_name()
        zone(name)
    except (LookupError, ValueError, OSError, Refused) as error:
        log.warning("host_timezone_unknown", error=str(error), fix="Set AGENTSCHED_TIMEZONE, such as Europe/Berlin.")
        return None
    return name


def _checked(url: str) -> str:
    try:
        backend = make_url(url).get_backend_name()
    except (ArgumentError, ValueError):
        backend = ""
    if backend not in ("postgresql", "postgres"):
        raise CommandRefused(
            "database_url_invalid",
            "AGENTSCHED_DATABASE_URL is not the address of a PostgreSQL. "
            "Write postgresql://user:password@host:5432/database, or unset it to use the embedded one.",
        )
    return url


async def _reach(db: Database) -> None:
    try:
        async with db.begin() as conn:
            await conn.execute(text("SELECT 1"))
    except (OSError, TimeoutError, SQLAlchemyError) as error:
        reason = redacted_text(str(getattr(error, "orig", None) or error) or type(error).__name__)
        raise CommandRefused(
            "database_unreachable",
            f"The database {db.url.render_as_string()} does not answer: {reason} "
            "Check that it runs, and AGENTSCHED_DATABASE_URL.",
        ) from error
