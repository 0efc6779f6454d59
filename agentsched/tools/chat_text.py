"""Answers to chat commands: Markdown that also reads well as plain text (DESIGN §10)."""

import re
from collections.abc import Sequence

from agentsched.service.errors import NotFound, ServiceError, StaleVersion
from agentsched.tools.answers import (
    Candidate,
    Coming,
    Fault,
    HistoryAnswer,
    Refusal,
    RunLine,
    ScheduleAnswer,
    ScheduleFacts,
)
from agentsched.tools.chat_parser import OPTIONS
from agentsched.tools.chat_timing import TIMES
from agentsched.tools.requested import TIMING
from agentsched.tools.text import shortened

_OPTIONS = ", ".join(f"`{each}`" for each in OPTIONS)

HELP = f"""\
Commands for the schedules of this conversation. N is a schedule's number, or its name.

- `/schedules` lists what is active or paused; `/schedules all`, or `paused`, `active`, `completed`, `cancelled`
- `/schedule add 0 9 * * 1-5 Check my open pull requests` makes one: minute, hour, day, month, weekday
- `/schedule add every 2h …`, `/schedule add at 2026-12-03T09:00 …`, `/schedule add in 20m …`, `/schedule add webhook …`
- `/schedule show N` shows all about one, `/schedule runs N` what its runs came to
- `/schedule edit N every 1d`, `/schedule edit N prompt …`, `/schedule edit N --name …`
- `/schedule pause N`, `/schedule resume N`, `/schedule run N` (once, now)
- `/schedule cancel N` ends one, `/schedule cancel all confirm` all of them

Options of `add` and `edit` stand at the end, such as `--name Briefing --mode append`; there are
{_OPTIONS}. Times are local ones.

No agent reads these lines. To send the agent a message that begins with `/`, put a blank before it, or write `//`."""

SHOWN_IN_LIST = 80

_FIELDS = {
    **dict.fromkeys(TIMING, "The time"),
    "prompt": "The prompt",
    "note": "The note",
    "limit": "`--count`",
    "schedule": "The name",
}
_EXPECTED = {
    ("missing_field", "prompt"): "It does not say what to ask the agent. Write that after the time, before options.",
    ("timezone_required", "timezone"): "No time zone is known here. Add one, such as `--timezone Europe/Berlin`.",
    ("name_taken", "name"): "Another live schedule here has this name. Choose another one; `/schedules` lists them.",
    ("too_many_schedules", "conversation"): "This conversation has as many live schedules as it may have. Cancel one "
    "with `/schedule cancel N`.",
}
"""For people, what is said to programs and models in terms of fields and ids."""

_AS_ARGUMENT = re.compile(r'`(cron|every|at|in): "([^"`]*)"`')
_AS_POLICY = re.compile(r"`([a-z_]+): (\w+)`")
_AS_FIELD = re.compile(r"`([a-z]+(?:_[a-z]+)+)`")


def listed(found: Sequence[ScheduleFacts], status: str, *, more: bool) -> str:
    """Schedules, one a line."""
    if not found:
        none = "Nothing is scheduled here." if status in ("live", "all") else f"No schedule here is {status}."
        return f"{none} `/schedule add` makes one, and `/help` says how."
    count = "1 schedule" if len(found) == 1 else f"{len(found)} schedules"
    head = f"The newest {count}:" if more else f"{count}:"
    return "\n".join([head, "", *(_line(each) for each in found)])


def one(facts: ScheduleFacts) -> str:
    """All about a schedule."""
    lines = [
        f"{_title(facts)} is {_status(facts)}.",
        "",
        f"- When: {facts.summary}",
        *(f"- {'Next' if index == 0 else 'Then'}: {_coming(each)}" for index, each in enumerate(facts.next_runs)),
        f"- Where: {facts.mode_means}",
        f"- Rules: {facts.policies}",
    ]
    if facts.max_runs is not None:
        lines.append(f"- Ends after {facts.max_runs} runs")
    if facts.ends_at is not None:
        lines.append(f"- Ends at {facts.ends_at}")
    if "webhook call" in facts.summary:
        lines.append(f"- Address: {_address(facts.id)}")
    lines += [f"- Id, for other programs: {facts.id}", "", f"> {facts.prompt}"]
    return "\n".join(lines)


def done(answer: ScheduleAnswer) -> str:
    """What became of a schedule."""
    if answer.webhook_page is None:
        lines = [answer.say]
    elif answer.status == "created":
        lines = [f"I have made {_name(answer)}, which runs whenever its address is called. {_address(answer.id)}"]
    else:
        lines = [f"This exists already as {_name(answer)}. {_address(answer.id)}"]
    if answer.status == "already_exists":
        lines.append(f"Nothing was made. `/schedule edit {answer.number} …` changes it.")
    elif answer.status in ("created", "updated"):
        lines.append(f"{_title(answer)}. {answer.mode_means} `/schedule show {answer.number}` shows all about it.")
    return "\n\n".join(lines)


def started(facts: ScheduleFacts, run_id: int, conversation_id: int | None) -> str:
    """A run that was asked for."""
    where = "here" if facts.mode == "append" else f"in conversation {conversation_id}"
    return f"Run {run_id} of {_name(facts)} has been started; its result will appear {where}."


def history(answer: HistoryAnswer) -> str:
    """The newest runs, newest first."""
    if not answer.runs:
        return f"{_title(answer)} has not run yet."
    head = f"The newest runs of {_name(answer)}:" if answer.more else f"The runs of {_name(answer)}:"
    return "\n".join([head, "", *(_run(line) for line in answer.runs)])


def cancel_all(found: Sequence[ScheduleFacts]) -> str:
    """What would be cancelled."""
    count = "this one" if len(found) == 1 else f"these {len(found)}"
    lines = [_line(each) for each in found]
    return "\n".join([f"This would cancel {count}:", "", *lines, "", "To do it: `/schedule cancel all confirm`"])


def cancelled(found: Sequence[ScheduleFacts]) -> str:
    """What was cancelled."""
    if not found:
        return "Nothing is scheduled here, so nothing was cancelled."
    count = "1 schedule" if len(found) == 1 else f"{len(found)} schedules"
    return "\n".join([f"I have cancelled {count}:", "", *(_line(each) for each in found)])


def has_ended(facts: ScheduleFacts) -> str:
    """For what cannot be done any more."""
    return f"{_title(facts)} is {facts.schedule_status}, and stays so. `/schedule add` makes a new one."


def refused(error: Exception, refusal: Refusal) -> str:
    """Nothing was done, and why."""
    lines = [_opening(error)]
    if not isinstance(error, ServiceError):
        lines += ["", *(f"- {_fault(each)}" for each in refusal.errors)]
    if any(each.code == "duration_syntax" and each.field == "every" for each in refusal.errors):
        lines += ["", TIMES]
    if refusal.schedules:
        lines += ["", "There are:", "", *(f"- {_candidate(each)}" for each in refusal.schedules)]
    if any(each.field in TIMING for each in refusal.errors):
        lines += ["", f"It is now {refusal.now}."]
    return "\n".join(lines)


def _opening(error: Exception) -> str:
    match error:
        case NotFound():
            return f"There is no schedule {shortened(str(error.identifier), 60)} in this conversation."
        case StaleVersion():
            return "Nothing was changed, because somebody else changed it at the same time. Look at it, and try again."
        case ServiceError():
            return f"Nothing was done. {error.message}"
        case _:
            return "Nothing was done."


def _fault(fault: Fault) -> str:
    expected = _EXPECTED.get((fault.code, fault.field))
    if expected is not None:
        return expected
    label = _FIELDS.get(fault.field) or f"`--{fault.field.replace('_', '-')}`"
    got = "" if fault.got is None else f" (`{shortened(str(fault.got), 60)}`)"
    return f"{label}{got}: {_for_people(f'{fault.problem} {fault.fix}')}"


def _for_people(text: str) -> str:
    """As it is typed here: `every 2h` and `--max-runs 5`."""
    text = _AS_POLICY.sub(lambda at: f"`--{at[1].replace('_', '-')} {at[2]}`", _AS_ARGUMENT.sub(r"`\1 \2`", text))
    return _AS_FIELD.sub(lambda at: f"`--{at[1].replace('_', '-')}`", text)


def _line(facts: ScheduleFacts) -> str:
    called = f"“{facts.name}”" if facts.name is not None else shortened(facts.prompt, SHOWN_IN_LIST)
    following = f"; next {_coming(facts.next_runs[0])}" if facts.next_runs else ""
    status = "" if facts.schedule_status == "active" else f"; {_status(facts)}"
    return f"- **{facts.number}** {called}: {facts.summary}{status}{following}"


def _run(line: RunLine) -> str:
    words = f"- {line.local} ({line.when}): {line.status}"
    if line.trigger in ("manual", "backfill", "requeue"):
        words += f", {line.trigger}"
    if line.why is not None:
        words += f". {line.why}"
    if line.result is not None:
        words += f". {line.result}"
    return words if line.conversation_id is None else f"{words} (conversation {line.conversation_id})"


def _candidate(each: Candidate) -> str:
    called = "" if each.name is None else f" “{each.name}”"
    return f"**{each.number}**{called}: {each.summary}, {each.schedule_status}"


def _coming(each: Coming) -> str:
    yours = "" if each.for_person is None else f", for you {each.for_person}"
    return f"{each.local} ({each.from_now}{yours})"


def _status(facts: ScheduleFacts) -> str:
    return facts.schedule_status if facts.pause is None else f"{facts.schedule_status} ({facts.pause})"


def _title(facts: ScheduleFacts) -> str:
    name = _name(facts)
    return name[0].upper() + name[1:]


def _name(facts: ScheduleFacts) -> str:
    return f"schedule {facts.number}" if facts.name is None else f"schedule {facts.number} “{facts.name}”"


def _address(schedule_id: int) -> str:
    return (
        "The address is a secret, so it is not written into a chat: open "
        f"`/schedules/{schedule_id}/webhook` of this service with your own API key, and get it there."
    )
