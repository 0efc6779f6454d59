"""Why a run did not run, in a sentence that a person understands (DESIGN §7: a skip is never silent)."""

from dataclasses import dataclass
from datetime import datetime

from agentsched.core.words import Reason, RunStatus
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
    """Who holds the slot, since when (in the schedule's zone, with the day unless it is today's), and when heard of."""
    which = "the only slot" if slots == 1 else f"one of the {slots} slots"
    since = holder.since.astimezone(zone(timezone))
    today = now.astimezone(zone(timezone)).date()
    when = f"{since:%H:%M}" if since.date() == today else f"{since:%Y-%m-%d %H:%M}"
    if holder.worker is not None and holder.heard_at is not None:
        heard = max(0, round((now - holder.heard_at).total_seconds()))
        who = f"worker {holder.worker}, last heard {heard} s ago"
    elif holder.status is RunStatus.RETRY_WAIT:
        who = "waiting for its next attempt"
    else:
        who = "no worker has taken it yet"
    return f"skipped: run {holder.run_id} has held {which} since {when} ({who})"


def reason_text(reason: Reason, *, detail: str | None = None) -> str:
    """The sentence for a reason; ``detail`` replaces its general second half."""
    outcome = "missed" if reason in (Reason.MISFIRE, Reason.STRANDED, Reason.NOT_STARTED) else "skipped"
    return f"{outcome}: {detail or _GENERAL[reason]}"


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
