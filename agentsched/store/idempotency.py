"""Idempotency keys of API requests, and what each first request made."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class Made(NamedTuple):
    request_hash: bytes
    subject_id: int


_FIND = text("""
SELECT request_hash, subject_id FROM idempotency_keys
WHERE principal_id = :principal_id AND operation = :operation AND key = :key
""")

_INSERT = text("""
INSERT INTO idempotency_keys (principal_id, operation, key, request_hash, subject_id, created_at)
VALUES (:principal_id, :operation, :key, :request_hash, :subject_id, :now)
""")


async def find(conn: AsyncConnection, principal_id: int, operation: str, key: str) -> Made | None:
    """What the first request with this key made; None if there was none."""
    parameters = {"principal_id": principal_id, "operation": operation, "key": key}
    row = (await conn.execute(_FIND, parameters)).first()
    return None if row is None else Made(*row)


async def insert(
    conn: AsyncConnection,
    principal_id: int,
    operation: str,
    key: str,
    request_hash: bytes,
    subject_id: int,
    now: datetime,
) -> None:
    """Remember a key."""
    await conn.execute(
        _INSERT,
        {
            "principal_id": principal_id,
            "operation": operation,
            "key": key,
            "request_hash": request_hash,
            "subject_id": subject_id,
            "now": now,
        },
    )
