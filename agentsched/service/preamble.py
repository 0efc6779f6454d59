"""What the service tells an agent before a scheduled prompt (DESIGN §9, §10)."""

from agentsched.core.problems import Refused
from agentsched.core.summary import run_view
from agentsched.store.assignments import AssignmentRow


def preamble(row: AssignmentRow) -> str | None:
    """That this is a scheduled run, of which schedule, for which instant; None for a person's turn."""
    if row.run_id is None or row.fire_at is None or row.timezone is None:
        return None
    try:
        local = run_view(row.fire_at, row.timezone)["local"]
    except Refused:  # a zone that this process' tzdata does not have must not keep other tasks from being claimed
        local = run_view(row.fire_at, "UTC")["local"]
    name = row.schedule_name or f"number {row.schedule_number}"
    return (
        f"This is a scheduled run (run {row.run_id}, attempt {row.attempt}) of the schedule {name}, for {local} "
        f"({row.timezone}). Nobody is present to answer questions. Words about cadence in the prompt, such as "
        "“every Monday”, describe the schedule that exists already: do the work once, and do not schedule it again."
    )
