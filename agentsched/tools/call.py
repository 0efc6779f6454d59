"""Call a tool by its name (DESIGN §10)."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import ValidationError

from agentsched.core.problems import Problem, Refused
from agentsched.service import refused_calls
from agentsched.service.caller import Caller
from agentsched.service.errors import ServiceError
from agentsched.service.field_problems import meant
from agentsched.service.waking import Waker
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.tools import changing, creating, reading
from agentsched.tools.answers import Answer, Refusal, Standing
from agentsched.tools.calling import conversation_required
from agentsched.tools.catalogue import TOOLS, offered, permit
from agentsched.tools.refusing import argument_problems, refusal, stop_words
from agentsched.tools.text import written
from agentsched.tools.work import Work

DO: dict[str, Callable[[Work, Any], Awaitable[Standing]]] = {
    "schedule_create": creating.create,
    "schedule_list": reading.list_schedules,
    "schedule_update": changing.change,
    "schedule_cancel": changing.cancel,
    "schedule_pause": changing.pause,
    "schedule_resume": changing.resume,
    "schedule_run_now": changing.run_now,
    "schedule_history": reading.history,
}


class Toolbox:
    """The tools, on a database. Whatever a model can get wrong comes back as an answer that says so."""

    def __init__(self, db: Database, settings: Settings, waker: Waker) -> None:
        self._db = db
        self._settings = settings
        self._waker = waker

    async def call(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Do what a model asks for, in the conversation of the caller.

        Raises Refused for a caller without a conversation (``calling.for_conversation`` gives it one), and the
        database's error when it is away.
        """
        if caller.conversation_id is None:
            raise conversation_required()
        work = Work(self._db, self._settings, self._waker, caller, caller.conversation_id)
        digest = _digest(name, arguments)
        try:
            if digest is None:
                raise _unreadable()
            done = await _do(work, name, arguments)
        except (Refused, ServiceError) as error:
            refused = await refusal(work, error)
            count = 1 if digest is None else await refused_calls.count(self._db, work.conversation_id, digest)
            return _answer(refused.model_copy(update={"stop": stop_words(count)}), is_error=True)
        return _answer(done, is_error=False)


async def _do(work: Work, name: str, arguments: Mapping[str, Any]) -> Standing:
    spec = next((spec for spec in TOOLS if spec.name == name), None)
    if spec is None:
        names = [spec.name for spec in offered(work.caller)]
        raise Refused(Problem("unknown_tool", "name", name, "There is no such tool.", meant(name, names)))
    permit(work.caller, spec)
    try:
        checked = spec.arguments.model_validate(arguments)
    except ValidationError as error:
        raise await argument_problems(work, spec.arguments, error, arguments) from None
    return await DO[name](work, checked)


def _digest(name: str, arguments: Mapping[str, Any]) -> bytes | None:
    """What makes two calls the same; None for one that holds what cannot be written as UTF-8, or hardly any end."""
    try:
        return hashlib.sha256(json.dumps([name, arguments], sort_keys=True, ensure_ascii=False).encode()).digest()
    except (UnicodeEncodeError, RecursionError):
        return None


def _unreadable() -> Refused:
    return Refused(
        Problem(
            "unreadable",
            "arguments",
            None,
            "They hold half a character, or objects in objects without end.",
            "Send plain text and numbers.",
        )
    )


def _answer(shown: Standing | Refusal, *, is_error: bool) -> Answer:
    return Answer(is_error, written(shown), shown.model_dump(mode="json", exclude_none=True))
