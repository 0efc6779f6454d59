"""What a model reads when its call is refused: all that is wrong with it, and what to write instead (DESIGN §10)."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from agentsched.core.problems import Problem, Refused
from agentsched.service.errors import Busy, NotFound, ServiceError, StaleVersion, TooMany
from agentsched.service.field_problems import problems_of, shown
from agentsched.service.named_schedules import Ambiguous
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.answers import Fault, Refusal
from agentsched.tools.arguments import Arguments
from agentsched.tools.requested import TIMING, time_problems
from agentsched.tools.work import Work, candidate, now_text

ASK = 3
"""So often refused, the same call will not become right by being repeated."""


async def refusal(work: Work, error: Refused | ServiceError) -> Refusal:
    """What was refused, in words, with the schedules that it is about."""
    problems = _problems(error)
    code = error.code if isinstance(error, ServiceError) else problems[0].code
    rows: Sequence[ScheduleRow] = ()
    if isinstance(error, Ambiguous):
        rows = error.candidates
    elif code == "schedule_not_found" or any(problem.code.startswith("too_many_schedules") for problem in problems):
        rows = await work.live()
    return Refusal(
        code=code,
        message=_message(error, len(problems)),
        errors=[_fault(problem) for problem in problems],
        schedules=[candidate(row) for row in rows],
        retry_after_seconds=error.retry_after_seconds if isinstance(error, Busy | TooMany) else None,
        now=now_text(await work.standing()),
    )


def stop_words(count: int) -> str | None:
    """What a model is told that repeats a call which is refused every time."""
    if count < ASK:
        return None
    return (
        f"Stop: this same call has been refused {count} times in this conversation. Do not send it again. Tell the "
        "user what is wrong, and ask the user how to go on."
    )


async def argument_problems(
    work: Work, model: type[Arguments], error: ValidationError, sent: Mapping[str, Any]
) -> Refused:
    """What pydantic found, and what is wrong with the timing besides."""
    problems = [_of_nested(problem, model) for problem in problems_of(error, model)]
    wrong = {str(details["loc"][0]) for details in error.errors() if details["loc"]}
    if "timezone" in model.model_fields and wrong and not wrong & {*TIMING, "timezone", "ends_at"}:
        here = await work.standing()
        required = {name: "x" for name, field in model.model_fields.items() if field.is_required()}
        rest = required | {name: value for name, value in sent.items() if name not in wrong}
        fields = model.model_validate(rest).model_dump(by_alias=True, exclude_unset=True)
        problems += time_problems(fields, here, work.settings, fields.get("timezone", here.timezone))
    return Refused(*problems)


def _problems(error: Refused | ServiceError) -> Sequence[Problem]:
    match error:
        case Refused():
            return error.problems
        case NotFound() if error.what == "schedule":
            got, problem = error.identifier, "There is no such schedule in this conversation."
        case Ambiguous():
            got, problem = error.name, "Several schedules have this name."
        case _:
            return ()
    return [
        Problem(error.code, "schedule", got, problem, "Write the id of one of the schedules below, if any is meant.")
    ]


def _message(error: Refused | ServiceError, count: int) -> str:
    if count:
        return f"Nothing was done, because {_things(count)} wrong with the call. Correct it, and call again."
    if isinstance(error, StaleVersion):
        return "Nothing was done, because the schedule is being changed by others. Look at it again before you call."
    return f"Nothing was done. {error.message if isinstance(error, ServiceError) else error}"


def _things(count: int) -> str:
    return "one thing is" if count == 1 else f"{count} things are"


def _fault(problem: Problem) -> Fault:
    return Fault(**vars(problem) | {"got": shown(problem.got)})


def _of_nested(problem: Problem, model: type[Arguments]) -> Problem:
    """Some models wrap what they send into an object, and never find out by themselves that nothing expects one."""
    if not isinstance(problem.got, dict):
        return problem
    names = {field.alias or name for name, field in model.model_fields.items()}
    inner = [f"`{name}`" for name in problem.got if name in names]
    if not inner:
        return problem
    fix = f"Arguments are flat: send {', '.join(inner)} beside the others, not inside of `{problem.field}`."
    return Problem(problem.code, problem.field, problem.got, problem.problem, fix)
