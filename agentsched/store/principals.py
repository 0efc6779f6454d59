"""Principals and their API keys."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class PrincipalRow(NamedTuple):
    id: int
    name: str
    timezone: str | None


class KeyRow(NamedTuple):
    """An API key as its owner may see it again; the key itself is stored nowhere."""

    id: int
    principal_id: int
    scope: str
    label: str
    prefix: str
    conversation_id: int | None
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


_ENSURE = text("""
INSERT INTO principals (name, timezone, created_at) VALUES (:name, :timezone, :now)
ON CONFLICT (name) DO UPDATE SET timezone = coalesce(principals.timezone, excluded.timezone)
RETURNING id, name, timezone
""")

_READ = text("SELECT id, name, timezone FROM principals WHERE id = :id")

_FIND = text("SELECT id, name, timezone FROM principals WHERE name = :name")

_LOCK = text("SELECT FROM principals WHERE id = :id FOR NO KEY UPDATE")

_KEY = (
    "SELECT id, principal_id, scope, label, prefix, conversation_id, created_at, last_used_at, revoked_at FROM api_keys"
)

_INSERT_KEY = text("""
INSERT INTO api_keys (principal_id, scope, label, prefix, hash, conversation_id, created_at)
VALUES (:principal_id, :scope, :label, :prefix, :hash, :conversation_id, :now)
RETURNING id
""")

_FIND_KEY = text(_KEY + " WHERE hash = :hash AND revoked_at IS NULL")

_LIST_KEYS = text(_KEY + " WHERE principal_id = :principal_id ORDER BY id")

_REVOKE_KEY = text("""
UPDATE api_keys SET revoked_at = :now WHERE id = :id AND principal_id = :principal_id AND revoked_at IS NULL
""")

_REVOKE_KEYS_OF = text("""
UPDATE api_keys SET revoked_at = :now
WHERE principal_id = :principal_id AND conversation_id = :conversation_id AND revoked_at IS NULL
""")

_USED = text("""
UPDATE api_keys SET last_used_at = clock_now()
WHERE id = :id AND (last_used_at IS NULL OR last_used_at < clock_now() - interval '1 minute')
""")


async def ensure(conn: AsyncConnection, name: str, timezone: str | None, now: datetime) -> PrincipalRow:
    """The principal of this name, made if absent; a zone is set where there is none."""
    return PrincipalRow(*(await conn.execute(_ENSURE, {"name": name, "timezone": timezone, "now": now})).one())


async def read(conn: AsyncConnection, principal_id: int) -> PrincipalRow | None:
    """Read a principal; None if there is none."""
    row = (await conn.execute(_READ, {"id": principal_id})).first()
    return None if row is None else PrincipalRow(*row)


async def find(conn: AsyncConnection, name: str) -> PrincipalRow | None:
    """The principal of this name; None if there is none."""
    row = (await conn.execute(_FIND, {"name": name})).first()
    return None if row is None else PrincipalRow(*row)


async def lock(conn: AsyncConnection, principal_id: int) -> None:
    """Lock one principal."""
    await conn.execute(_LOCK, {"id": principal_id})


async def insert_key(
    conn: AsyncConnection,
    *,
    principal_id: int,
    scope: str,
    label: str,
    prefix: str,
    hash: bytes,  # noqa: A002 — the column's name
    conversation_id: int | None,
    now: datetime,
) -> int:
    """Store the hash of a new key; its id."""
    parameters = {
        "principal_id": principal_id,
        "scope": scope,
        "label": label,
        "prefix": prefix,
        "hash": hash,
        "conversation_id": conversation_id,
        "now": now,
    }
    key_id: int = (await conn.execute(_INSERT_KEY, parameters)).scalar_one()
    return key_id


async def find_key(conn: AsyncConnection, hash: bytes) -> KeyRow | None:  # noqa: A002 — the column's name
    """The key with this hash that has not been revoked."""
    row = (await conn.execute(_FIND_KEY, {"hash": hash})).first()
    return None if row is None else KeyRow(*row)


async def list_keys(conn: AsyncConnection, principal_id: int) -> list[KeyRow]:
    """All keys of a principal, revoked ones too."""
    return [KeyRow(*row) for row in await conn.execute(_LIST_KEYS, {"principal_id": principal_id})]


async def revoke_key(conn: AsyncConnection, principal_id: int, key_id: int, now: datetime) -> bool:
    """Revoke a key; False if the principal has no such key that is in force."""
    parameters = {"principal_id": principal_id, "id": key_id, "now": now}
    return (await conn.execute(_REVOKE_KEY, parameters)).rowcount == 1


async def revoke_keys_of(conn: AsyncConnection, principal_id: int, conversation_id: int, now: datetime) -> None:
    """Revoke the keys that were made for a conversation."""
    parameters = {"principal_id": principal_id, "conversation_id": conversation_id, "now": now}
    await conn.execute(_REVOKE_KEYS_OF, parameters)


async def mark_used(conn: AsyncConnection, key_id: int) -> None:
    """Note that a key was used, to the minute."""
    await conn.execute(_USED, {"id": key_id})
