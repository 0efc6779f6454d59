"""A simulation in a sentence or three, for people and models."""

from collections import Counter
from collections.abc import Iterator
from typing import assert_never

from agentsched.core.durations import format_seconds
from agentsched.core.simulation import Plan, Simulation
from agentsched.core.summary import run_view
from agentsched.core.words import Reason, RunStatus, ScheduleStatus

_WORDS = {
    RunStatus.CANCELLED: "cancelled to make way for a newer one",
    RunStatus.ABANDONED: "abandoned because it was too late to go on once the service was back",
    RunStatus.RUNNING: "still running at the end",
    RunStatus.RETRY_WAIT: "waiting for the next attempt at the end",
    RunStatus.QUEUED: "still in line at the end",
}


def outcome(plan: Plan, simulation: Simulation) -> str:
    """Such as "24 slots: 12 completed, 12 skipped because the run before still held the slot. The longest wait …"."""
    timezone = plan.timing.timezone
    parts = ", ".join(_parts(plan, simulation))
    sentences = [f"{_slots(simulation.slots)}: {parts}." if parts else "No slot is in this span."]
    if (line := simulation.longest_line) > 0:
        most = f"at most {line} {'was' if line == 1 else 'were'} in line at once"
        wait = f"the longest wait was {format_seconds(simulation.longest_wait_seconds)}"
        both = f"{wait}, and {most}" if simulation.longest_wait_seconds else most
        sentences.append(f"{both[0].upper()}{both[1:]}.")
    if simulation.paused_at is not None:
        when = run_view(simulation.paused_at, timezone)["local"]
        sentences.append(f"{plan.pause_after_failures} failures in a row paused the schedule on {when}.")
    elif simulation.status is ScheduleStatus.COMPLETED and simulation.slots:
        sentences.append("Then the schedule was completed.")
    return " ".join(sentences)


def _parts(plan: Plan, simulation: Simulation) -> Iterator[str]:
    """What ran, then what did not, then what goes on."""
    totals = simulation.totals
    if RunStatus.COMPLETED in totals:
        yield f"{totals[RunStatus.COMPLETED]} completed"
    yield from _failures(plan, simulation)
    for status in (RunStatus.CANCELLED, RunStatus.ABANDONED):
        if status in totals:
            yield f"{totals[status]} {_WORDS[status]}"
    for reason, count in simulation.reasons.items():
        yield f"{count} {_reason(reason, plan.limits.cap)}"
    for status in (RunStatus.RUNNING, RunStatus.RETRY_WAIT, RunStatus.QUEUED):
        if status in totals:
            yield f"{totals[status]} {_WORDS[status]}"


def _failures(plan: Plan, simulation: Simulation) -> Iterator[str]:
    codes = Counter(run.error_code for run in simulation.runs if run.status is RunStatus.FAILED)
    for code, count in codes.items():
        match code:
            case "timeout":
                allowed = f" ({format_seconds(plan.timeout_seconds)})" if plan.timeout_seconds else ""
                yield f"{count} failed because an attempt took longer than timeout_seconds allows{allowed}"
            case "lost":
                yield f"{count} failed because their workers died again and again"
            case _:
                yield f"{count} failed"


def _reason(reason: Reason, cap: int | None) -> str:
    match reason:
        case Reason.OVERLAP:
            held = "the run before still held the slot" if cap == 1 else "the runs before still held the slots"
            return f"skipped because {held}"
        case Reason.SUPERSEDED:
            return "skipped because a newer one took its place in line"
        case Reason.QUEUE_FULL:
            return "skipped because the line was full"
        case Reason.PAUSED:
            return "skipped because failures had paused the schedule"
        case Reason.BUDGET:
            return "skipped because the day's runs were used up"
        case Reason.MISFIRE:
            return "missed while the service was down"
        case Reason.STRANDED:
            return "missed after a long outage that found them in line"
        case Reason.NOT_STARTED | Reason.SCHEDULE_CANCELLED | Reason.BACKFILL_CANCELLED | Reason.FILTERED:
            return reason.value
        case _:
            assert_never(reason)


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count:,} slots"
