"""Account for slots that were due but not yet fired when a schedule is paused, cancelled or retimed (DESIGN §8)."""

from collections import deque
from datetime import datetime
from itertools import chain

from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.occurrence_keys import slot_key
from agentsched.core.reasons import reason_text
from agentsched.core.timing import occurrences
from agentsched.core.words import Reason, RunStatus
from agentsched.store import fires, targets
from agentsched.store.fires import Recorded
from agentsched.store.schedules import ScheduleRow

ROWS_AT_MOST = 1000
"""Of a longer stretch the newest slots get a row each; the older ones are one missed row, as after an outage."""


async def account_due_slots(
    conn: AsyncConnection, schedule: ScheduleRow, reason: Reason, now: datetime
) -> datetime | None:
    """Record each due slot of a locked schedule as skipped for this reason; the last slot accounted for, or None."""
    if schedule.next_fire_at is None or schedule.next_fire_at > now:
        return None
    end = now if schedule.ends_at is None else min(now, schedule.ends_at)
    newest: deque[datetime] = deque(maxlen=ROWS_AT_MOST)
    count = 0
    first = last_missed = schedule.next_fire_at
    for slot in chain((first,), occurrences(schedule.timing, first, end)):
        if len(newest) == ROWS_AT_MOST:
            last_missed = newest[0]
        newest.append(slot)
        count += 1
    missed = count - len(newest)
    ids = (await targets.allocate_ids(conn, runs=len(newest) + (missed > 0))).runs
    rows = []
    if missed:
        rows.append(_row(schedule, next(ids), first, RunStatus.MISSED, Reason.MISFIRE, missed, last_missed))
    rows += [_row(schedule, next(ids), slot, RunStatus.SKIPPED, reason, None, None) for slot in newest]
    await fires.insert_recorded(conn, rows, now)
    return newest[-1]


def _row(
    schedule: ScheduleRow,
    run_id: int,
    fire_at: datetime,
    status: RunStatus,
    reason: Reason,
    missed_count: int | None,
    missed_until: datetime | None,
) -> Recorded:
    return Recorded(
        id=run_id,
        schedule_id=schedule.id,
        fire_at=fire_at,
        occurrence_key=slot_key(fire_at),
        status=status,
        reason=reason,
        reason_text=reason_text(reason),
        missed_count=missed_count,
        missed_until=missed_until,
        overdue=False,
    )
