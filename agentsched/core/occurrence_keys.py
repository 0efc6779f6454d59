"""The key of an occurrence within its schedule: a run is unique on it, so that retries collapse (DESIGN §5)."""

from datetime import UTC, datetime
from functools import lru_cache

_STAMP = "%Y-%m-%dT%H:%M:%SZ"


def slot_key(fire_at: datetime) -> str:
    """The key of a timed run."""
    return _slot_key(fire_at.astimezone(UTC))


def manual_key(request_id: str) -> str:
    """The key of a run-now; the request id is the caller's Idempotency-Key, or made for the request."""
    return f"manual:{request_id}"


def hook_key(delivery_id: int) -> str:
    """The key of a webhook delivery's run; the sender's own key is kept with the delivery."""
    return f"hook:{delivery_id}"


def backfill_key(backfill_id: int, fire_at: datetime) -> str:
    """The key of a backfill's run: another backfill may run the same slot again."""
    return f"backfill:{backfill_id}:{fire_at.astimezone(UTC):{_STAMP}}"


def requeue_key(run_id: int, number: int) -> str:
    """The key of the ``number``-th requeue of a failed run, from 1."""
    return f"requeue:{run_id}:{number}"


# Only for UTC: in other zones both passes of a repeated hour are one key to a cache, as they compare equal.
@lru_cache(maxsize=1024)
def _slot_key(fire_at: datetime) -> str:
    return f"slot:{fire_at:{_STAMP}}"
