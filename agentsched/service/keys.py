"""API keys: shown once, hashed, of one scope, revocable (DESIGN §10)."""

import secrets

from agentsched.core.credentials import RANDOM_BYTES, SHOWN, Prefix, compose, digest
from agentsched.core.words import Scope
from agentsched.core.zones import zone
from agentsched.service.errors import NotFound
from agentsched.store import clock, conversations, principals
from agentsched.store.database import Database
from agentsched.store.principals import KeyRow, PrincipalRow

DEFAULT_PRINCIPAL = "default"


async def ensure_principal(db: Database, name: str, timezone: str | None = None) -> PrincipalRow:
    """The principal of this name, made if absent. Raises Refused for an unknown zone."""
    if timezone is not None:
        zone(timezone)
    async with db.begin() as conn:
        return await principals.ensure(conn, name, timezone, await clock.now(conn))


async def find_principal(db: Database, name: str) -> PrincipalRow:
    """The principal of this name. Raises NotFound if there is none."""
    async with db.begin() as conn:
        found = await principals.find(conn, name)
    if found is None:
        raise NotFound("principal", name)
    return found


async def create_key(
    db: Database, principal_id: int, *, scope: Scope, label: str, conversation_id: int | None = None
) -> tuple[int, str]:
    """Make a key; its id, and the key itself, which is never shown again.

    Raises NotFound if the key is to be for a conversation that the principal does not have.
    """
    key = compose(Prefix.API_KEY, secrets.token_bytes(RANDOM_BYTES))
    async with db.begin() as conn:
        if conversation_id is not None and await conversations.read(conn, principal_id, conversation_id) is None:
            raise NotFound("conversation", conversation_id)
        key_id = await principals.insert_key(
            conn,
            principal_id=principal_id,
            scope=scope,
            label=label,
            prefix=key[:SHOWN],
            hash=digest(key),
            conversation_id=conversation_id,
            now=await clock.now(conn),
        )
    return key_id, key


async def list_keys(db: Database, principal_id: int) -> list[KeyRow]:
    """All keys of a principal, without the keys themselves."""
    async with db.begin() as conn:
        return await principals.list_keys(conn, principal_id)


async def revoke_key(db: Database, principal_id: int, key_id: int) -> None:
    """Revoke a key, from now on. Raises NotFound if there is no such key in force."""
    async with db.begin() as conn:
        if not await principals.revoke_key(conn, principal_id, key_id, await clock.now(conn)):
            raise NotFound("key", key_id)
