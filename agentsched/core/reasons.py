"""Why a run did not run, in a sentence that a person understands (DESIGN §7: a skip is never silent).

Times are on the clocks of the schedule's zone, with the day unless it is today's.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from agentsched.core.misfire import Stretch
from agentsched.core.stranding import Outage
from agentsched.core.words import Misfire, Reason, RunStatus
from agentsched.core.zones import zone


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a slot, as the one that is skipped sees it."""

    run_id: int
    status: RunStatus
    since: datetime
    worker: str | None
    heard_at: datetime | None


def overlap_text(holder: Holder, *, slots: int, timezone: str, now: datetime) -> str:
    """Who holds the slot, since when, and when it was heard of."""
    which = "the only slot" if slots == 1 else f"one of the {slots} slots"
    if holder.worker is not None and holder.heard_at is not None:
        heard = max(0, round((now - holder.heard_at).total_seconds()))
        who = f"worker {holder.worker}, last heard {heard} s ago"
    elif holder.status is RunStatus.RETRY_WAIT:
        who = "waiting for its next attempt"
    else:
        who = "no worker has taken it yet"
    since = _clock(holder.since, timezone, now)
    return f"skipped: run {holder.run_id} has held {which} since {since} ({who})"


def superseded_text(by: datetime, *, timezone: str, now: datetime) -> str:
    """Whose fire took its place."""
    return f"skipped: the newer fire of {_clock(by, timezone, now)} took its place in the line"


def queue_full_text(queue_limit: int) -> str:
    """How long the line is."""
    return f"skipped: the schedule's line is full ({queue_limit} runs wait, and that is its queue_limit)"


def misfire_text(stretch: Stretch, *, misfire: Misfire, grace_seconds: int, timezone: str, now: datetime) -> str:
    """How late the slots were found, and what the policy does with such."""
    match misfire:
        case Misfire.SKIP:
            policy = "`misfire: skip` runs none that late"
        case Misfire.LATEST:
            policy = "`misfire: latest` runs the newest only"
        case Misfire.ALL:
            policy = "there were more than `misfire: all` makes up for"
        case _:
            assert_never(misfire)
    found = f"found at {_clock(now, timezone, now)}, later than the grace of {grace_seconds} s"
    were = "was" if stretch.count == 1 else "were"
    return f"missed: {_slots(stretch, timezone, now)} {were} {found}, and {policy}"


def passed_in_pause_text(stretch: Stretch, *, timezone: str, now: datetime) -> str:
    """For what a resume that catches up leaves out."""
    slots = _slots(stretch, timezone, now)
    return f"missed: {slots} passed while the schedule was paused, and the resume caught up with newer ones only"


def stranded_text(outage: Outage, *, window_seconds: int | None, timezone: str, now: datetime) -> str:
    """Which outage it did not survive in line."""
    bound = "twice its period" if window_seconds is None else f"the adoption window of {window_seconds} s"
    down = f"from {_clock(outage.last_minute, timezone, now)} to {_clock(outage.until_minute, timezone, now)}"
    return f"missed: it was still in line when the service was down {down}, longer than {bound}"


def not_started_text(deadline_seconds: int, *, harness: str, served: bool) -> str:
    """That nobody took it, and whether anybody could have."""
    why = "all workers were busy" if served else f"no worker serves the harness {harness}"
    return f"missed: nobody started it within its start deadline of {deadline_seconds} s ({why})"


def reason_text(reason: Reason, *, detail: str | None = None) -> str:
    """The sentence for a reason; ``detail`` replaces its general second half."""
    outcome = "missed" if reason in (Reason.MISFIRE, Reason.STRANDED, Reason.NOT_STARTED) else "skipped"
    return f"{outcome}: {detail or _GENERAL[reason]}"


def _slots(stretch: Stretch, timezone: str, now: datetime) -> str:
    first = _clock(stretch.first, timezone, now)
    if stretch.count == 1:
        return f"the slot of {first}"
    return f"{stretch.count} slots from {first} to {_clock(stretch.last, timezone, now)}"


def _clock(instant: datetime, timezone: str, now: datetime) -> str:
    local = instant.astimezone(zone(timezone))
    today = now.astimezone(zone(timezone)).date()
    return f"{local:%H:%M}" if local.date() == today else f"{local:%Y-%m-%d %H:%M}"


_GENERAL: dict[Reason, str] = {
    Reason.OVERLAP: "the runs before it still hold the schedule's slots",
    Reason.SUPERSEDED: "a newer fire or an edit of the schedule took its place",
    Reason.QUEUE_FULL: "the schedule's line is full",
    Reason.PAUSED: "the schedule was paused",
    Reason.SCHEDULE_CANCELLED: "the schedule was cancelled",
    Reason.BACKFILL_CANCELLED: "the backfill was cancelled",
    Reason.BUDGET: "the budget for the day is spent",
    Reason.FILTERED: "the delivery did not match the schedule's filter",
    Reason.MISFIRE: "the service was down or late, and the schedule's misfire policy does not make up for it",
    Reason.STRANDED: "it was still in line when the service had been down for too long",
    Reason.NOT_STARTED: "no worker started it before its start deadline",
}
