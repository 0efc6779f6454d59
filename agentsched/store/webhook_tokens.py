"""What makes a schedule a webhook: its row of limits, and the tokens that call it."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class TokenRow(NamedTuple):
    """A token in force; the token itself is stored nowhere."""

    id: int
    schedule_id: int
    hash: bytes


_OPEN = text("""
INSERT INTO webhooks (schedule_id, rate_per_minute, rate_burst, bucket_tokens, bucket_filled_at)
VALUES (:schedule_id, :rate_per_minute, :rate_burst, CAST(:rate_burst AS integer), :now)
""")

_INSERT = text("""
INSERT INTO webhook_tokens (schedule_id, prefix, hash, created_at) VALUES (:schedule_id, :prefix, :hash, :now)
""")

_FIND = text("""
SELECT t.id, t.schedule_id, t.hash FROM webhook_tokens t
JOIN schedules s ON s.id = t.schedule_id
JOIN conversations c ON c.id = s.conversation_id
WHERE t.hash = :hash AND (t.expires_at IS NULL OR t.expires_at > (SELECT clock_now()))
  AND c.deleted_at IS NULL
""")

_IN_FORCE = text("""
SELECT EXISTS (
  SELECT FROM webhook_tokens
  WHERE schedule_id = :schedule_id AND (expires_at IS NULL OR expires_at > (SELECT clock_now()))
)
""")

_EXPIRE = text("""
UPDATE webhook_tokens SET expires_at = least(expires_at, :at) WHERE schedule_id = :schedule_id
""")

_USED = text("""
UPDATE webhook_tokens SET last_used_at = :now
WHERE id = :id AND (last_used_at IS NULL OR last_used_at < CAST(:now AS timestamptz) - interval '1 minute')
""")


async def open_webhook(
    conn: AsyncConnection, schedule_id: int, *, rate_per_minute: int, rate_burst: int, now: datetime
) -> None:
    """Give a new schedule its webhook, with a full bucket."""
    await conn.execute(
        _OPEN,
        {"schedule_id": schedule_id, "rate_per_minute": rate_per_minute, "rate_burst": rate_burst, "now": now},
    )


async def insert(
    conn: AsyncConnection,
    schedule_id: int,
    *,
    prefix: str,
    hash: bytes,  # noqa: A002 — the column's name
    now: datetime,
) -> None:
    """Store the hash of a new token."""
    await conn.execute(_INSERT, {"schedule_id": schedule_id, "prefix": prefix, "hash": hash, "now": now})


async def find(conn: AsyncConnection, hash: bytes) -> TokenRow | None:  # noqa: A002 — the column's name
    """The token with this hash, if it is in force: not with its conversation deleted."""
    row = (await conn.execute(_FIND, {"hash": hash})).first()
    return None if row is None else TokenRow(*row)


async def has_one_in_force(conn: AsyncConnection, schedule_id: int) -> bool:
    """Whether any token of a schedule works now."""
    return bool((await conn.execute(_IN_FORCE, {"schedule_id": schedule_id})).scalar_one())


async def expire(conn: AsyncConnection, schedule_id: int, at: datetime) -> None:
    """Let all tokens of a schedule end at this instant, but for those that end earlier."""
    await conn.execute(_EXPIRE, {"schedule_id": schedule_id, "at": at})


async def mark_used(conn: AsyncConnection, token_id: int, now: datetime) -> None:
    """Note that a token was used, to the minute."""
    await conn.execute(_USED, {"id": token_id, "now": now})
