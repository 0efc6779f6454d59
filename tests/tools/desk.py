"""A model at its desk: it calls tools in one conversation, and every answer is held against the tool's own schemas."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

from agentsched.core.words import ScheduleStatus
from agentsched.service import schedules
from agentsched.service.caller import Caller
from agentsched.settings import Settings
from agentsched.store.database import Database
from agentsched.store.schedules import ScheduleRow
from agentsched.tools.answers import Answer, Refusal
from agentsched.tools.call import Toolbox
from agentsched.tools.catalogue import TOOLS
from agentsched.tools.schema import plain_schema

OUTPUTS = {spec.name: spec.output_schema for spec in TOOLS}
REFUSAL = plain_schema(Refusal, answer=True)


@dataclass
class Woken:
    """A waker that only counts."""

    calls: int = 0

    def wake(self) -> None:
        self.calls += 1


class Desk:
    """A caller with a toolbox."""

    def __init__(self, db: Database, settings: Settings, caller: Caller) -> None:
        self.db, self.settings, self.caller = db, settings, caller
        self.waker = Woken()
        self.box = Toolbox(db, settings, self.waker)

    async def call(self, name: str, /, **arguments: Any) -> Answer:
        answer = await self.box.call(self.caller, name, arguments)
        Draft202012Validator(REFUSAL if answer.is_error else OUTPUTS[name]).validate(answer.data)
        missing = [leaf for leaf in leaves(answer.data) if leaf not in answer.text]
        assert missing == [], "the text has to carry everything"
        return answer

    async def done(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The data of a call that has to succeed."""
        answer = await self.call(name, **arguments)
        assert not answer.is_error, answer.text
        return answer.data

    async def refused(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The data of a call that has to be refused, and that changes no schedule."""
        before = await self.rows()
        answer = await self.call(name, **arguments)
        assert answer.is_error, answer.text
        assert await self.rows() == before
        return answer.data

    async def rows(self) -> list[ScheduleRow]:
        """The conversation's schedules of every status."""
        return await schedules.list_page(
            self.db, self.caller, conversation_id=None, statuses=list(ScheduleStatus), after=0, limit=1000
        )


def leaves(data: Any) -> Iterator[str]:
    """Every value of an answer, as text shows it."""
    match data:
        case dict():
            for each in data.values():
                yield from leaves(each)
        case list():
            for each in data:
                yield from leaves(each)
        case bool():
            yield str(data).lower()
        case _:
            yield str(data)


def codes(data: dict[str, Any]) -> list[str]:
    return [error["code"] for error in data["errors"]]
