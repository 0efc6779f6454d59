"""Requeue or discard many dead letters, each in a transaction of its own, so that one refusal stops no other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agentsched.core.problems import Problem, Refused
from agentsched.core.words import RunStatus
from agentsched.service import requeue
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, ServiceError
from agentsched.service.one_by_one import LOCK_TIMEOUT_MS
from agentsched.service.permission import Act, require
from agentsched.service.requests import DeadLetterChoice
from agentsched.service.schedules import owned
from agentsched.service.views import DeadLetterDone, DeadLetterRefused, DeadLettersDone
from agentsched.settings import Settings
from agentsched.store import clock, dead_letters
from agentsched.store.availability import is_away
from agentsched.store.database import Database
from agentsched.store.dead_letters import Chosen, Criteria
from agentsched.store.ledger import RunRow
from agentsched.store.schedules import ScheduleRow

log = structlog.get_logger()

WITHIN_SECONDS = 20.0
"""Whoever asks should hear of it before their client gives up; what is left then remains for the next request."""

CRITERIA = ("schedule_id", "error_code", "failed_after", "failed_before")


class _Locked(NamedTuple):
    """A dead letter with its locks held."""

    conn: AsyncConnection
    run: RunRow
    schedule: ScheduleRow


async def requeue_chosen(
    db: Database,
    settings: Settings,
    caller: Caller,
    choice: DeadLetterChoice,
    *,
    within_seconds: float = WITHIN_SECONDS,
) -> DeadLettersDone:
    """Requeue dead letters, the oldest first; those of cancelled schedules, which are refused, come last.

    Raises Refused without a criterion, and NotFound for a schedule that is not the caller's.
    """
    require(caller, Act.SCHEDULE)

    async def do(found: _Locked) -> int:
        now = await clock.now(found.conn)
        return await requeue.requeue_locked(found.conn, settings, caller, found.run, found.schedule, now)

    chosen = await _choose(db, caller, choice, cancelled_last=True)
    return await _each(db, caller, chosen, do, within_seconds)


async def discard_chosen(
    db: Database, caller: Caller, choice: DeadLetterChoice, *, within_seconds: float = WITHIN_SECONDS
) -> DeadLettersDone:
    """Discard dead letters, the oldest first. Raises as ``requeue_chosen``."""
    require(caller, Act.SCHEDULE)

    async def do(found: _Locked) -> None:
        await requeue.discard_locked(found.conn, found.run, await clock.now(found.conn))

    chosen = await _choose(db, caller, choice, cancelled_last=False)
    return await _each(db, caller, chosen, do, within_seconds)


async def _choose(db: Database, caller: Caller, choice: DeadLetterChoice, *, cancelled_last: bool) -> Chosen:
    criteria = [name for name in CRITERIA if getattr(choice, name) is not None]
    if choice.run_ids is not None:
        _refuse_more_than_names(choice, criteria)
        return Chosen(sorted(set(choice.run_ids)), 0)
    if not criteria and not choice.everything:
        raise Refused(
            Problem(
                "criterion_missing",
                "run_ids",
                None,
                "Nothing says which dead letters are meant.",
                f"Send `run_ids`, or {', '.join(f'`{name}`' for name in CRITERIA)}, or `all: true` for all of them.",
            )
        )
    async with db.begin() as conn:
        if choice.schedule_id is not None:
            await owned(conn, caller, choice.schedule_id)
        fitting = Criteria(
            schedule_id=choice.schedule_id,
            conversation_id=caller.conversation_id,
            error_code=choice.error_code,
            failed_after=choice.failed_after,
            failed_before=choice.failed_before,
        )
        return await dead_letters.choose(
            conn, caller.principal_id, fitting, limit=choice.limit, cancelled_last=cancelled_last
        )


def _refuse_more_than_names(choice: DeadLetterChoice, criteria: Sequence[str]) -> None:
    more = [
        *criteria,
        *(["all"] if choice.everything else []),
        *(["limit"] if "limit" in choice.model_fields_set else []),
    ]
    if more:
        raise Refused(
            *(
                Problem(
                    "criterion_contradicts",
                    name,
                    getattr(choice, "everything" if name == "all" else name),
                    "`run_ids` names the runs already.",
                    f"Leave `{name}` out, or send it without `run_ids`.",
                )
                for name in more
            )
        )


async def _each(
    db: Database,
    caller: Caller,
    chosen: Chosen,
    do: Callable[[_Locked], Awaitable[int | None]],
    within_seconds: float,
) -> DeadLettersDone:
    loop = asyncio.get_running_loop()
    until = loop.time() + within_seconds
    remaining = chosen.remaining
    done: list[DeadLetterDone] = []
    refused: list[DeadLetterRefused] = []
    for dealt_with, run_id in enumerate(chosen.ids):
        if dealt_with and loop.time() >= until:
            remaining += len(chosen.ids) - dealt_with
            break
        try:
            async with db.begin(lock_timeout_ms=LOCK_TIMEOUT_MS) as conn:
                run, schedule = await requeue.lock(conn, caller, run_id)
                _refuse_unless_dead(run)
                new = await do(_Locked(conn, run, schedule))
            done.append(DeadLetterDone(run_id=run_id, new_run_id=new))
        except ServiceError as error:
            refused.append(DeadLetterRefused(run_id=run_id, code=error.code, problem=error.message))
        except Exception as error:
            if is_away(error):
                raise
            log.warning("dead_letter.left", id=run_id, error=repr(error))
            text = f"The service could not deal with run {run_id}, and its log says why. Try again."
            refused.append(DeadLetterRefused(run_id=run_id, code="internal_error", problem=text))
    return DeadLettersDone(count=len(done), runs=done, refused=refused, remaining=remaining)


def _refuse_unless_dead(run: RunRow) -> None:
    """A failed run that is taken in bulk is still a dead letter; whoever means another one asks for it by its id."""
    if run.discarded_at is not None:
        raise Conflict(
            "run_discarded", f"Run {run.id} was discarded already. To run it all the same, requeue it by its own id."
        )
    if run.status == RunStatus.FAILED and not run.dead_letter:
        raise Conflict(
            "run_requeued",
            f"Run {run.id} was requeued already. To run it once more, requeue it by its own id.",
        )
