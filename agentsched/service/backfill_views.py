"""Backfills as the API, the command line and the tools show them (DESIGN §8)."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from agentsched.core.words import BackfillStatus, Reprocess, RunStatus
from agentsched.service.views import View
from agentsched.store.backfills import BackfillRow


class BackfillView(View):
    id: int
    schedule_id: int
    from_: datetime = Field(alias="from", description="Its slots are after this instant,")
    to: datetime = Field(description="and up to this one")
    reprocess: Reprocess
    status: BackfillStatus
    count: int = Field(description="How many slots it runs")
    progress: dict[RunStatus, int] = Field(description="How many of its runs have each status")
    created_at: datetime
    finished_at: datetime | None
    actor: str = Field(description="Who asked for it")


class BackfillPreview(View):
    """What a backfill would do; nothing is written."""

    id: None = None
    dry_run: Literal[True] = True
    schedule_id: int
    from_: datetime = Field(alias="from")
    to: datetime
    reprocess: Reprocess
    count: int = Field(description="How many slots it would run")
    count_is_exact: bool = Field(description="`false`: the range has more slots than `count`, too many to be counted")
    first: datetime | None = Field(description="The first slot that it would run, if they were counted")
    last: datetime | None
    needs_confirm: bool = Field(description="It has to be sent with `confirm`")
    over_limit: bool = Field(description="It has more slots than `limit` allows")


def backfill_view(row: BackfillRow, progress: dict[str, int]) -> BackfillView:
    """A backfill with the counts of its runs, in the order of a run's life."""
    return BackfillView(
        id=row.id,
        schedule_id=row.schedule_id,
        **{"from": row.from_at},
        to=row.to_at,
        reprocess=Reprocess(row.reprocess),
        status=BackfillStatus(row.status),
        count=row.slot_count,
        progress={status: progress[status] for status in RunStatus if status in progress},
        created_at=row.created_at,
        finished_at=row.finished_at,
        actor=row.actor,
    )
