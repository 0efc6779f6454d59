"""``schedule_create``."""

from agentsched.core.timing import Kind
from agentsched.core.words import ScheduleStatus
from agentsched.service import schedules
from agentsched.service.requests import NewSchedule
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.answers import ScheduleAnswer
from agentsched.tools.arguments import Create
from agentsched.tools.requested import fields_of
from agentsched.tools.work import Work, facts, in_sentence, next_run_words, stands, title

MASKED = "/hooks/asw_…"


async def create(work: Work, arguments: Create) -> ScheduleAnswer:
    """Make a schedule, or return the one that exists already."""
    here = await work.standing()
    request = NewSchedule.model_validate(fields_of(arguments, here, work.settings, arguments.timezone or here.timezone))
    made = await schedules.create(work.db, work.settings, work.caller, work.conversation_id, request, as_tool=True)
    row = made.row
    here = await work.standing()
    coming = next_run_words(row, here)
    following = "" if coming is None else f"; the next run is {coming}"
    webhook = row.kind == Kind.WEBHOOK
    page = f"/schedules/{row.id}/webhook"
    if not made.new:
        say = f"This is scheduled already as {title(row)}: {in_sentence(row)}{following}."
    elif webhook:
        say = f"I have made {title(row)}, which runs when its address is called; you get that secret address at {page}."
    else:
        what = f"this as number {row.number}" if row.name is None else title(row)
        say = f"I have scheduled {what}: {in_sentence(row)}{following}."
    return ScheduleAnswer(
        **facts(row, here),
        **stands(here, say),
        status="created" if made.new else "already_exists",
        hint=_about_webhook(page) if made.new and webhook else None if made.new else _about_existing(row),
        webhook_address=MASKED if webhook else None,
        webhook_page=page if webhook else None,
    )


def _about_webhook(page: str) -> str:
    return (
        "The whole address is a secret and is not shown to you. A person opens "
        f"GET {page} of this service with their own API key and gets it there."
    )


def _about_existing(row: ScheduleRow) -> str:
    words = f"Nothing was made or changed. To change it call schedule_update with schedule {row.id}."
    if row.status == ScheduleStatus.PAUSED:
        words += f" It is paused; schedule_resume with schedule {row.id} lets it run again."
    return words
