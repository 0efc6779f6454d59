"""Bring what a runner answers into a form that PostgreSQL stores, whatever a plug-in may come up with."""

import math
from typing import Any

from agentsched.runners.protocol import Entry, Outcome

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ERROR_LENGTH = 2000


def storable_text(text: str) -> str:
    """The text without NUL and lone surrogates, of which PostgreSQL stores neither."""
    return "".join(REPLACEMENT if char == "\x00" or "\ud800" <= char <= "\udfff" else char for char in text)


def storable_error(text: str) -> str:
    """An error message for a ledger row: storable, and no longer than people read."""
    clean = storable_text(text)
    return clean if len(clean) <= ERROR_LENGTH else clean[: ERROR_LENGTH - 1] + "…"


def storable_outcome(outcome: object) -> Outcome:
    """The outcome with storable texts. Raises ValueError, with a message for people, for what is not an outcome."""
    if not isinstance(outcome, Outcome):
        raise ValueError(f"A runner answers with an Outcome; this one answered with a {type(outcome).__name__}.")
    if outcome.result is not None and not isinstance(outcome.result, str):
        raise ValueError(f"An outcome's result is a string or None, got {type(outcome.result).__name__}.")
    return Outcome(
        entries=tuple(_entry(entry) for entry in outcome.entries),
        result=None if outcome.result is None else storable_text(outcome.result),
        usage={storable_text(str(name)): _count(name, count) for name, count in outcome.usage.items()},
    )


def _entry(entry: object) -> Entry:
    if not isinstance(entry, Entry):
        raise ValueError(f"An outcome's entries are Entry objects, got {type(entry).__name__}.")
    return Entry.from_json(_value(entry.to_json()))


def _count(name: object, count: object) -> int:
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"An outcome's usage holds counts; {name} is {count!r}.")
    return int(count)


def _value(value: Any) -> Any:
    match value:
        case str():
            return storable_text(value)
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case list() | tuple():
            return [_value(item) for item in value]
        case dict():
            return {storable_text(str(key)): _value(item) for key, item in value.items()}
        case _:
            raise ValueError(f"A tool call's arguments are JSON; they hold a {type(value).__name__}.")
