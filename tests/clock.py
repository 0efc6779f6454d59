"""Travel in time: every process sees the clock table at once."""

from datetime import datetime, timedelta

from sqlalchemy import text

from agentsched.store.database import Database


def at(iso: str) -> datetime:
    """An instant from its ISO form with Z."""
    return datetime.fromisoformat(iso)


class Clock:
    """The database's clock, frozen at an instant and stepped by hand."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def freeze(self, instant: datetime | str) -> None:
        frozen_at = at(instant) if isinstance(instant, str) else instant
        async with self._db.begin() as conn:
            await conn.execute(text("UPDATE clock SET frozen_at = :at"), {"at": frozen_at})

    async def step(self, **delta: float) -> datetime:
        async with self._db.begin() as conn:
            moved: datetime = (
                await conn.execute(
                    text("UPDATE clock SET frozen_at = frozen_at + :by RETURNING frozen_at"), {"by": timedelta(**delta)}
                )
            ).scalar_one()
        return moved

    async def shift(self, by: timedelta | None) -> None:
        async with self._db.begin() as conn:
            await conn.execute(text("UPDATE clock SET shift = :by, frozen_at = NULL"), {"by": by})
