"""What a pause does to a schedule, whoever asks for it (DESIGN §8)."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.words import PauseReason, Reason
from agentsched.service.account import account_due_slots
from agentsched.store import runs, schedules
from agentsched.store.schedules import ScheduleRow


async def pause_locked(
    conn: AsyncConnection, schedule: ScheduleRow, reason: PauseReason, note: str | None, now: datetime
) -> None:
    """Pause a locked active schedule: due slots and the timed part of its line are recorded as skipped(paused)."""
    accounted_until = await account_due_slots(conn, schedule, Reason.PAUSED, now)
    await runs.skip_line(conn, schedule.id, Reason.PAUSED, now, timed_only=True)
    await schedules.pause(conn, schedule.id, reason=reason, note=note, accounted_until=accounted_until, now=now)
