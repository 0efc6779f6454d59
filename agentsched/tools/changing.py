"""``schedule_update``, ``_cancel``, ``_pause``, ``_resume`` and ``_run_now``."""

from agentsched.core.problems import Problem, Refused
from agentsched.core.words import Misfire, Mode, ScheduleStatus
from agentsched.service import lifecycle, named_schedules, schedules, update
from agentsched.service.errors import StaleVersion
from agentsched.service.requests import SchedulePatch
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.answers import Done, RunAnswer, ScheduleAnswer
from agentsched.tools.arguments import Cancel, Pause, Resume, RunNow, Update
from agentsched.tools.requested import fields_of
from agentsched.tools.work import Work, facts, in_sentence, next_run_words, stands, title


async def change(work: Work, arguments: Update) -> ScheduleAnswer:
    """Change what was sent. An edit that comes between reading and writing does not matter to a model: once more."""
    row = await named_schedules.find(work.db, work.caller, arguments.schedule)
    here = await work.standing(row)
    fields = fields_of(arguments, here, work.settings, arguments.timezone or row.timezone)
    if not fields:
        raise Refused(
            Problem(
                "nothing_to_change",
                "schedule",
                arguments.schedule,
                "Nothing is to be changed.",
                "Send what is to be different as well, under the names that schedule_create has.",
            )
        )
    patch = SchedulePatch.model_validate(fields)
    try:
        changed = await update.update(work.db, work.settings, work.caller, row.id, patch, version=row.version)
    except StaleVersion:
        row = await schedules.get(work.db, work.caller, row.id)
        changed = await update.update(work.db, work.settings, work.caller, row.id, patch, version=row.version)
    work.waker.wake()
    if changed.status == ScheduleStatus.COMPLETED:
        return await _done(work, changed, "completed", f"{title(changed)} has nothing left to run and is completed.")
    return await _done(work, changed, "updated", f"I have changed {title(changed)}: {in_sentence(changed)}", True)


async def cancel(work: Work, arguments: Cancel) -> ScheduleAnswer:
    """End a schedule."""
    before = await named_schedules.find(work.db, work.caller, arguments.schedule)
    row = await lifecycle.cancel(work.db, work.caller, before.id, stop_running=arguments.stop_running)
    work.waker.wake()
    if before.status == ScheduleStatus.CANCELLED:
        return await _done(work, row, "already_cancelled", f"{title(row)} was cancelled already.")
    return await _done(work, row, "cancelled", f"I have cancelled {title(row)}: {in_sentence(row)}.")


async def pause(work: Work, arguments: Pause) -> ScheduleAnswer:
    """Stop a schedule for a while."""
    before = await named_schedules.find(work.db, work.caller, arguments.schedule)
    row = await lifecycle.pause(work.db, work.caller, before.id, note=arguments.note)
    if before.status == ScheduleStatus.PAUSED:
        return await _done(work, row, "already_paused", f"{title(row)} was paused already.")
    return await _done(work, row, "paused", f"I have paused {title(row)}; it runs again once it is resumed.")


async def resume(work: Work, arguments: Resume) -> ScheduleAnswer:
    """Let a paused schedule run again."""
    before = await named_schedules.find(work.db, work.caller, arguments.schedule)
    catch_up = None if arguments.catch_up is None else Misfire(arguments.catch_up)
    row = await lifecycle.resume(work.db, work.settings, work.caller, before.id, catch_up=catch_up)
    work.waker.wake()
    if row.status == ScheduleStatus.COMPLETED:
        return await _done(work, row, "completed", f"{title(row)} has nothing left to run and is completed.")
    if before.status == ScheduleStatus.ACTIVE:
        return await _done(work, row, "already_active", f"{title(row)} is active already", True)
    return await _done(work, row, "resumed", f"I have resumed {title(row)}", True)


async def run_now(work: Work, arguments: RunNow) -> RunAnswer:
    """Start one run."""
    row = await named_schedules.find(work.db, work.caller, arguments.schedule)
    run, _ = await lifecycle.run_now(work.db, work.settings, work.caller, row.id)
    work.waker.wake()
    here = await work.standing(row)
    where = "here" if row.mode == Mode.APPEND else f"in conversation {run.conversation_id}"
    say = f"A run of {title(row)} has been started; its result will appear {where}."
    return RunAnswer(
        **facts(row, here),
        **stands(here, say),
        status="started",
        run_id=run.id,
        conversation_id=run.conversation_id,
    )


async def _done(work: Work, row: ScheduleRow, status: Done, say: str, tell_next: bool = False) -> ScheduleAnswer:
    here = await work.standing(row)
    if tell_next:
        coming = next_run_words(row, here)
        say += "." if coming is None else f"; the next run is {coming}."
    return ScheduleAnswer(**facts(row, here), **stands(here, say[0].upper() + say[1:]), status=status)
