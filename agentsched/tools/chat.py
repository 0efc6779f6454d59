"""Commands in a chat, answered without a model (DESIGN §10)."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from pydantic import ValidationError

from agentsched.core.problems import Refused
from agentsched.core.words import LIVE_SCHEDULE, ScheduleStatus
from agentsched.service import conversations, lifecycle, named_schedules, numbered_schedules
from agentsched.service.caller import Caller
from agentsched.service.errors import Conflict, ServiceError
from agentsched.service.permission import Act, require
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from agentsched.tools import arguments, changing, chat_text, creating, reading
from agentsched.tools.answers import ScheduleFacts
from agentsched.tools.arguments import Arguments
from agentsched.tools.chat_parser import (
    Add,
    Cancel,
    CancelAll,
    Command,
    Edit,
    Help,
    ListThem,
    Misunderstood,
    Pause,
    Resume,
    Run,
    Runs,
    Show,
    parse,
)
from agentsched.tools.refusing import argument_problems, refusal
from agentsched.tools.work import Work, facts

MOST_LISTED = 50

Checked = TypeVar("Checked", bound=Arguments)


class Ended(Exception):  # noqa: N818 — named after what happened
    """A schedule cannot do this any more."""


class Chat:
    """The commands, on a database. Whatever somebody mistypes is answered."""

    def __init__(self, db: Database, settings: Settings, waker: Waker) -> None:
        self._db = db
        self._settings = settings
        self._waker = waker

    async def answer(self, caller: Caller, conversation_id: int, text: str, *, key: str | None = None) -> str:
        """Do what a command asks for, as the caller, and say so in Markdown. Nothing enters the transcript.

        ``key``: the ``Idempotency-Key`` of a run. Raises NotFound for a conversation that is not the caller's, and
        Forbidden for a caller who may not speak in it.
        """
        require(caller, Act.CONVERSE)
        await conversations.get(self._db, caller, conversation_id)
        here = replace(caller, conversation_id=conversation_id)
        work = Work(self._db, self._settings, self._waker, here, conversation_id)
        try:
            return await _do(work, parse(text), key)
        except (Misunderstood, Ended) as error:
            return str(error)
        except (Refused, ServiceError) as error:
            return chat_text.refused(error, await refusal(work, error))


async def _do(work: Work, command: Command, key: str | None) -> str:
    match command:
        case Help():
            return chat_text.HELP
        case ListThem(status):
            return await _list(work, status)
        case Add(fields):
            return chat_text.done(await creating.create(work, await _checked(work, arguments.Create, fields)))
        case CancelAll(stop_running, confirmed):
            return await _cancel_all(work, stop_running, confirmed)
        case _:
            return await _do_with(work, await _find(work, command.which), command, key)


async def _do_with(
    work: Work,
    row: ScheduleRow,
    command: Show | Run | Edit | Pause | Resume | Runs | Cancel,
    key: str | None,
) -> str:
    named = {"schedule": str(row.id)}
    match command:
        case Show():
            return chat_text.one(await _facts(work, row))
        case Run():
            if row.status == ScheduleStatus.CANCELLED:
                raise Ended(chat_text.has_ended(await _facts(work, row)))
            run, _ = await lifecycle.run_now(work.db, work.settings, work.caller, row.id, key=key)
            work.waker.wake()
            return chat_text.started(await _facts(work, row), run.id, run.conversation_id)
        case Edit(_, fields):
            await _require_live(work, row)
            return chat_text.done(
                await changing.change(work, await _checked(work, arguments.Update, {**fields, **named}))
            )
        case Pause(_, note):
            await _require_live(work, row)
            noted = await _checked(work, arguments.Pause, {**named, "note": note})
            return chat_text.done(await changing.pause(work, noted))
        case Resume(_, catch_up):
            await _require_live(work, row)
            asked = await _checked(work, arguments.Resume, {**named, "catch_up": catch_up})
            return chat_text.done(await changing.resume(work, asked))
        case Runs(_, count):
            wanted = await _checked(work, arguments.History, named | ({} if count is None else {"limit": count}))
            return chat_text.history(await reading.history(work, wanted))
        case Cancel(_, stop_running):
            if row.status == ScheduleStatus.COMPLETED:
                raise Ended(chat_text.has_ended(await _facts(work, row)))
            ending = arguments.Cancel(schedule=str(row.id), stop_running=stop_running)
            return chat_text.done(await changing.cancel(work, ending))
        case _:
            assert_never(command)


async def _list(work: Work, status: str) -> str:
    match status:
        case "live":
            statuses = list(LIVE_SCHEDULE)
        case "all":
            statuses = list(ScheduleStatus)
        case _:
            statuses = [ScheduleStatus(status)]
    found = await numbered_schedules.newest(work.db, work.caller, work.conversation_id, statuses, limit=MOST_LISTED + 1)
    shown = [await _facts(work, row) for row in found[-MOST_LISTED:]]
    return chat_text.listed(shown, status, more=len(found) > MOST_LISTED)


async def _cancel_all(work: Work, stop_running: bool, confirmed: bool) -> str:
    live = await work.live()
    if live and not confirmed:
        return chat_text.cancel_all([await _facts(work, row) for row in live])
    ended = []
    for row in live:
        with suppress(Conflict):  # it has completed by itself in the meantime
            ended.append(await lifecycle.cancel(work.db, work.caller, row.id, stop_running=stop_running))
    work.waker.wake()
    return chat_text.cancelled([await _facts(work, row) for row in ended])


async def _find(work: Work, which: int | str) -> ScheduleRow:
    if isinstance(which, int):
        return await numbered_schedules.get(work.db, work.caller, work.conversation_id, which)
    return await named_schedules.find(work.db, work.caller, which)


async def _require_live(work: Work, row: ScheduleRow) -> None:
    if row.status not in LIVE_SCHEDULE:
        raise Ended(chat_text.has_ended(await _facts(work, row)))


async def _facts(work: Work, row: ScheduleRow) -> ScheduleFacts:
    return ScheduleFacts(**facts(row, await work.standing(row)))


async def _checked(work: Work, model: type[Checked], fields: Mapping[str, Any]) -> Checked:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise await argument_problems(work, model, error, fields) from None
