"""``schedule_list`` and ``schedule_history``."""

from agentsched.core.relative_time import relative
from agentsched.core.summary import run_view
from agentsched.core.words import ScheduleStatus
from agentsched.service import named_schedules, runs, schedules
from agentsched.service.standing import Standing
from agentsched.service.views import RunView
from agentsched.tools.answers import HistoryAnswer, ListAnswer, RunLine, ScheduleFacts
from agentsched.tools.arguments import History, List
from agentsched.tools.text import shortened
from agentsched.tools.work import Work, facts, stands, title

PAGE = 20
LONGEST_RESULT = 500


async def list_schedules(work: Work, arguments: List) -> ListAnswer:
    """The schedules of the conversation, oldest first."""
    found = await schedules.list_page(
        work.db,
        work.caller,
        conversation_id=None,
        statuses=_statuses(arguments.status),
        after=arguments.after,
        limit=PAGE + 1,
    )
    shown = found[:PAGE]
    here = await work.standing()
    if shown:
        listed = ", ".join(title(row) for row in shown)
        say = f"These are {len(shown)} of your schedules: {listed}." if len(found) > PAGE else f"You have {listed}."
    else:
        say = "There are no such schedules." if arguments.status != "live" else "Nothing is scheduled here."
    return ListAnswer(
        schedules=[ScheduleFacts(**facts(row, here)) for row in shown],
        next_after=shown[-1].id if len(found) > PAGE else None,
        **stands(here, say),
    )


async def history(work: Work, arguments: History) -> HistoryAnswer:
    """The newest runs of a schedule."""
    row = await named_schedules.find(work.db, work.caller, arguments.schedule)
    found = await runs.list_page(
        work.db,
        work.caller,
        schedule_id=row.id,
        statuses=None,
        dead_letter=None,
        ledger_order=False,
        after=None,
        limit=arguments.limit + 1,
    )
    shown = found[: arguments.limit]
    here = await work.standing(row)
    lines = [_line(run, row.timezone, here) for run in shown]
    say = f"There are no runs of {title(row)} yet."
    if lines:
        say = f"The newest run of {title(row)}, for {lines[0].local} ({lines[0].when}), is {lines[0].status}."
    return HistoryAnswer(
        **facts(row, here),
        **stands(here, say),
        runs=lines,
        more=len(found) > len(shown),
    )


def _line(run: RunView, timezone: str, here: Standing) -> RunLine:
    why = run.reason_text or run.error
    return RunLine(
        run_id=run.id,
        local=run_view(run.fire_at, timezone)["local"],
        when=relative(run.fire_at, here.now, timezone),
        trigger=run.trigger,
        status=run.status,
        why=None if why is None else shortened(why),
        result=None if run.result is None else shortened(run.result, LONGEST_RESULT),
        conversation_id=run.conversation_id,
    )


def _statuses(wanted: str) -> list[ScheduleStatus] | None:
    match wanted:
        case "live":
            return None
        case "all":
            return list(ScheduleStatus)
        case _:
            return [ScheduleStatus(wanted)]
