"""Webhook tokens: shown once, and only their hash is kept (DESIGN §10, §11)."""

import secrets
from datetime import datetime
from hmac import compare_digest

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.credentials import RANDOM_BYTES, SHOWN, Prefix, compose, digest, is_well_formed
from agentsched.store import webhook_tokens
from agentsched.store.webhook_tokens import TokenRow

RATE_PER_MINUTE = 60
RATE_BURST = 100


async def open_webhook(conn: AsyncConnection, schedule_id: int, now: datetime) -> None:
    """Give a new schedule its webhook, which nobody can call before it has a token."""
    await webhook_tokens.open_webhook(
        conn, schedule_id, rate_per_minute=RATE_PER_MINUTE, rate_burst=RATE_BURST, now=now
    )


async def issue(conn: AsyncConnection, schedule_id: int, now: datetime) -> str:
    """A new token of a webhook, which is never shown again."""
    token = compose(Prefix.WEBHOOK_TOKEN, secrets.token_bytes(RANDOM_BYTES))
    await webhook_tokens.insert(conn, schedule_id, prefix=token[:SHOWN], hash=digest(token), now=now)
    return token


async def find(conn: AsyncConnection, token: str) -> TokenRow | None:
    """The token, if it is in force; None for anything else. A malformed one is told without a query."""
    if not is_well_formed(token, Prefix.WEBHOOK_TOKEN):
        return None
    hashed = digest(token)
    found = await webhook_tokens.find(conn, hashed)
    return found if found is not None and compare_digest(found.hash, hashed) else None
