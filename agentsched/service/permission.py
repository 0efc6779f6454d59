"""What a credential may do. A scheduled run cannot schedule: its lineage decides, wherever it asks (DESIGN §10)."""

from enum import StrEnum
from typing import assert_never

from agentsched.core.words import Scope
from agentsched.service.caller import Caller
from agentsched.service.errors import Forbidden


class Act(StrEnum):
    """What somebody is about to do. Reading needs no permission beyond ownership."""

    SCHEDULE = "schedule"
    """Anything that makes a run, now or later, or changes when one is made."""
    CANCEL_SCHEDULE = "cancel_schedule"
    CONVERSE = "converse"
    """Make, delete or speak in conversations."""
    SUBTASK = "subtask"
    """Ask for a sub-task of one's own task."""
    SEE_SECRET = "see_secret"  # noqa: S105 — an act, not a secret
    """Be shown the token of a webhook."""


def require(caller: Caller, act: Act, *, schedule_id: int | None = None) -> None:
    """Raises Forbidden if the caller's credential does not allow this. ``schedule_id``: what is to be cancelled."""
    task = caller.task
    if act is Act.SUBTASK:
        if task is None:
            raise Forbidden(
                "task_token_needed", "A sub-task belongs to a task. Send the task's token, which came with its claim."
            )
        return
    if act is Act.SEE_SECRET and caller.by_model:
        raise Forbidden(
            "secret_is_for_people",
            "A webhook's token is shown to people only, because what a model reads stays in transcripts. "
            "Ask a person to take it from the schedule's webhook page.",
        )
    if task is not None and task.scheduled_run_id is not None:
        _require_of_scheduled(act, schedule_id == task.scheduled_by)
    elif task is None and caller.scope is Scope.WORKER:
        raise Forbidden("scope_insufficient", "A key of scope worker runs tasks, and does nothing else.")


def _require_of_scheduled(act: Act, own: bool) -> None:
    match act:
        case Act.SCHEDULE:
            raise Forbidden(
                "scheduled_run_cannot_schedule",
                "This is a scheduled run, or work that one has asked for, and such work cannot make, change or start "
                "schedules. Finish the task, and say in its result what should be scheduled; a person can do it.",
            )
        case Act.CANCEL_SCHEDULE:
            if not own:
                raise Forbidden(
                    "scheduled_run_cancels_its_own",
                    "A scheduled run may cancel the schedule that started it, and no other.",
                )
        case Act.CONVERSE:
            raise Forbidden(
                "scheduled_run_cannot_converse",
                "This is a scheduled run, or work that one has asked for, and it cannot make or speak in other "
                "conversations. Ask for a sub-task instead.",
            )
        case Act.SUBTASK | Act.SEE_SECRET:
            return
        case _:
            assert_never(act)
