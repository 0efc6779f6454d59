"""Who holds a credential: an API key, or the token of a running task (DESIGN §10)."""

from hmac import compare_digest

from agentsched.core.credentials import Prefix, digest, is_well_formed
from agentsched.core.words import Scope
from agentsched.service.caller import Caller, TaskOfCaller
from agentsched.store import principals, tasks
from agentsched.store.database import Database


async def authenticate(db: Database, credential: str) -> Caller | None:
    """Who holds this credential; None for anything that is not one in force. A malformed one costs no query."""
    if is_well_formed(credential, Prefix.API_KEY):
        return await _of_key(db, digest(credential))
    if is_well_formed(credential, Prefix.TASK_TOKEN):
        return await _of_task(db, digest(credential))
    return None


async def _of_key(db: Database, hashed: bytes) -> Caller | None:
    async with db.begin() as conn:
        key = await principals.find_key(conn, hashed)
        if key is None:
            return None
        await principals.mark_used(conn, key.id)
    return Caller(key.principal_id, Scope(key.scope), f"key:{key.id}", key.conversation_id)


async def _of_task(db: Database, hashed: bytes) -> Caller | None:
    async with db.begin() as conn:
        found = await tasks.find_by_token(conn, hashed)
    if found is None or not compare_digest(found.token_hash, hashed):
        return None
    task = TaskOfCaller(found.id, found.scheduled_run_id, found.scheduled_by)
    return Caller(found.principal_id, Scope.USER, f"task:{found.id}", found.conversation_id, task, by_model=True)
