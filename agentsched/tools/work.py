"""What every tool works with, and how it shows a schedule."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from agentsched.core.relative_time import relative
from agentsched.core.summary import run_view, summary
from agentsched.core.words import LIVE_SCHEDULE, Mode
from agentsched.service import schedules, standing
from agentsched.service.caller import Caller
from agentsched.service.standing import Standing
from agentsched.service.views import NEXT_RUNS, next_instants
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.answers import Candidate, Coming
from agentsched.tools.text import shortened


@dataclass(frozen=True)
class Work:
    """One call: the service, and who calls it in which conversation."""

    db: Database
    settings: Settings
    waker: Waker
    caller: Caller
    conversation_id: int

    async def standing(self, row: ScheduleRow | None = None) -> Standing:
        """Where the caller stands, in its own conversation or in that of a schedule."""
        conversation_id = self.conversation_id if row is None else row.conversation_id
        return await standing.read(self.db, self.settings, self.caller, conversation_id)

    async def live(self) -> list[ScheduleRow]:
        """The live schedules that the caller can name."""
        return await schedules.list_page(
            self.db,
            self.caller,
            conversation_id=None,
            statuses=None,
            after=0,
            limit=self.settings.schedules_per_principal,
        )


def title(row: ScheduleRow) -> str:
    """What to call a schedule in a sentence."""
    return f"schedule {row.number}" if row.name is None else f"“{row.name}”"


def in_sentence(row: ScheduleRow) -> str:
    """When a schedule runs, as part of a sentence."""
    words = summary(row.timing)
    return words[0].lower() + words[1:]


def now_text(here: Standing) -> str:
    """The current local time, with its zone."""
    timezone = here.timezone or "UTC"
    return f"{run_view(here.now, timezone)['local']} ({timezone})"


def candidate(row: ScheduleRow) -> Candidate:
    """A schedule in a line."""
    return Candidate(
        id=row.id, number=row.number, name=row.name, summary=summary(row.timing), schedule_status=row.status
    )


def facts(row: ScheduleRow, here: Standing) -> dict[str, Any]:
    """The members of ``ScheduleFacts``."""
    return {
        "id": row.id,
        "number": row.number,
        "name": row.name,
        "summary": summary(row.timing),
        "timezone": row.timezone,
        "schedule_status": row.status,
        "pause": _pause(row),
        "next_runs": [_coming(instant, row.timezone, here) for instant in next_instants(row, NEXT_RUNS)],
        "mode": row.mode,
        "mode_means": _meaning(Mode(row.mode)),
        "max_runs": row.max_runs,
        "ends_at": None if row.ends_at is None else run_view(row.ends_at, row.timezone)["local"],
        "policies": _policies(row),
        "prompt": shortened(row.prompt),
    }


def stands(here: Standing, say: str) -> dict[str, Any]:
    """The members of ``answers.Standing``."""
    return {"now": now_text(here), "live": here.live, "live_limit": here.live_limit, "say": say}


def next_run_words(row: ScheduleRow, here: Standing) -> str | None:
    """When a schedule runs next, as part of a sentence; None if nothing is to come."""
    following = next(iter(next_instants(row, 1)), None)
    if following is None or row.status not in LIVE_SCHEDULE:
        return None
    return f"{run_view(following, row.timezone)['local']} ({relative(following, here.now, row.timezone)})"


def _coming(instant: datetime, timezone: str, here: Standing) -> Coming:
    local = run_view(instant, timezone)["local"]
    for_person = local if here.timezone is None else run_view(instant, here.timezone)["local"]
    return Coming(
        local=local,
        from_now=relative(instant, here.now, timezone),
        for_person=None if for_person == local else for_person,
    )


def _pause(row: ScheduleRow) -> str | None:
    if row.pause_reason is None:
        return None
    return row.pause_reason if row.pause_note is None else f"{row.pause_reason}: {shortened(row.pause_note)}"


def _policies(row: ScheduleRow) -> str:
    return "; ".join(
        [
            f"overlap {row.overlap}",
            f"misfire {row.misfire}",
            f"max_attempts {row.retry_max_attempts}",
            f"notify {row.notify}",
            f"daily_run_limit {row.daily_run_limit or 'none'}",
            f"daily_token_limit {row.daily_token_limit or 'none'}",
        ]
    )


def _meaning(mode: Mode) -> str:
    match mode:
        case Mode.FORK:
            return "Each run copies this conversation; its result appears in a new one."
        case Mode.APPEND:
            return "Each run goes on in this conversation; its result appears here."
        case Mode.FRESH:
            return "Each run begins a new, empty conversation; its result appears there."
        case _:
            assert_never(mode)
