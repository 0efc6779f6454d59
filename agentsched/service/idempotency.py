"""`Idempotency-Key` of creates, run-nows and backfills: the first answer again, never a second thing (DESIGN §13)."""

import hashlib
import json
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.problems import Problem, Refused
from agentsched.store import idempotency

LONGEST_KEY = 255


def request_hash(request: Any) -> bytes:
    """What makes two requests the same, from their JSON form."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).digest()


async def replayed(
    conn: AsyncConnection, principal_id: int, operation: str, key: str | None, request: Any
) -> int | None:
    """The id of what the first request with this key made; None for the first one, or without a key.

    Raises Refused if the key was used for another request. The caller holds a lock that orders equal keys.
    """
    if key is None:
        return None
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise Refused(
            Problem(
                "idempotency_key_invalid",
                "Idempotency-Key",
                key[:40],
                f"A key has 1 to {LONGEST_KEY} printable characters.",
                "Send a UUID.",
            )
        )
    found = await idempotency.find(conn, principal_id, operation, key)
    if found is None:
        return None
    if found.request_hash != request_hash(request):
        raise Refused(
            Problem(
                "idempotency_key_reused",
                "Idempotency-Key",
                key,
                "This key belongs to another request.",
                "Use a new key for a new request, and the same key only to repeat one.",
            )
        )
    return found.subject_id


async def remember(
    conn: AsyncConnection,
    principal_id: int,
    operation: str,
    key: str | None,
    request: Any,
    subject_id: int,
    now: datetime,
) -> None:
    """Note what a request made under its key."""
    if key is not None:
        await idempotency.insert(conn, principal_id, operation, key, request_hash(request), subject_id, now)
