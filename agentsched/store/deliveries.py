"""Webhook deliveries that were accepted: what came, and the answer that it got."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection


class NewDelivery(NamedTuple):
    """A delivery to be kept. ``answer`` is the JSON of the answer that every replay of its key gets."""

    id: int
    schedule_id: int
    key: str
    body_hash: bytes
    body: bytes
    content_type: str
    source: str | None
    run_id: int
    answer_status: int
    answer: str
    received_at: datetime
    expires_at: datetime


class Answered(NamedTuple):
    """The first delivery of a key: the hash of its body, and its answer."""

    body_hash: bytes
    answer: dict[str, Any]


class Delivered(NamedTuple):
    """What came with a delivery."""

    body: bytes
    content_type: str
    source: str | None
    received_at: datetime


_ALLOCATE = text("SELECT nextval('deliveries_id_seq')")

_FIND = text("SELECT body_hash, answer FROM deliveries WHERE schedule_id = :schedule_id AND key = :key").columns(
    answer=JSONB
)

_INSERT = text("""
INSERT INTO deliveries (id, schedule_id, key, body_hash, body, content_type, source, run_id, answer_status, answer,
                        received_at, expires_at)
VALUES (:id, :schedule_id, :key, :body_hash, :body, :content_type, :source, :run_id, :answer_status,
        CAST(:answer AS jsonb), :received_at, :expires_at)
""")

_OF_RUN = text("""
SELECT d.body, d.content_type, d.source, d.received_at
FROM runs r JOIN deliveries d ON d.id = r.delivery_id WHERE r.id = :run_id
""")


async def allocate_id(conn: AsyncConnection) -> int:
    """Take a new id, which the key of the delivery's run is made of."""
    new: int = (await conn.execute(_ALLOCATE)).scalar_one()
    return new


async def find(conn: AsyncConnection, schedule_id: int, key: str) -> Answered | None:
    """What the first delivery of this key got; None if there was none."""
    row = (await conn.execute(_FIND, {"schedule_id": schedule_id, "key": key})).first()
    return None if row is None else Answered(*row)


async def insert(conn: AsyncConnection, delivery: NewDelivery) -> None:
    """Keep a delivery to a locked schedule."""
    await conn.execute(_INSERT, delivery._asdict())


async def of_run(conn: AsyncConnection, run_id: int) -> Delivered | None:
    """What came with the delivery that a run, or the run that it repeats, was made for; None where there was none."""
    row = (await conn.execute(_OF_RUN, {"run_id": run_id})).first()
    return None if row is None else Delivered(*row)
