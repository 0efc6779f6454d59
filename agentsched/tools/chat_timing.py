"""When a schedule runs, as people type it at the beginning of a line (DESIGN §10)."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from agentsched.core.durations import parse_duration
from agentsched.core.problems import Refused

TIMES = (
    "Write for example `0 9 * * 1-5` (minute, hour, day, month, weekday), `every 2h`, `at 2026-12-03T09:00`, `in 20m` "
    "or `webhook`, and after it what to ask the agent."
)
MOST_WORDS_OF_DURATION = 4
MOST_WORDS = 8
CRON_FIELDS = 5

_NAMES = (
    "sunday|monday|tuesday|wednesday|thursday|friday|saturday|sun|mon|tue|wed|thu|fri|sat|"
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
)
_FIELD = re.compile(rf"(?=.*[0-9*?LWRH]|.*(?:{_NAMES}))(?:[0-9*?,/#~-]|[LWRH]|{_NAMES})+", re.IGNORECASE)
_MORE_FIELDS = re.compile(rf"(?=.*[0-9*?])[0-9*?,/#-]+|(?:{_NAMES})(?:[-,](?:{_NAMES}))*", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}\S*")
_BACKTICKS = re.compile(r"`([^`]*)`|\"([0-9*@][^\"]*)\"")


def read_timing(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """The timing under the name that the tools have for it, and what comes after it; None if there is none.

    What looks like a timing and is none is passed on as it is, for the core to say what is wrong with it.
    """
    words = _words(text)
    first = words[0][0].lower() if words else ""
    if first in ("cron", "every", "at", "in", "webhook"):
        after = text[words[0].end() :].lstrip()
        match first:
            case "webhook":
                return {"webhook": True}, after
            case "every" | "in":
                return _taken(first, after, _duration(after.split(maxsplit=MOST_WORDS_OF_DURATION)))
            case "at":
                return _moment(after)
            case _:
                text, words = after, _words(after)
    written = _BACKTICKS.match(text)
    if written is not None:
        return {"cron": written[1] or written[2] or ""}, text[written.end() :].strip()
    count = _cron([word[0] for word in words])
    if first == "cron" or count:
        return _taken("cron", text, count)
    return None, text


def _words(text: str) -> list[re.Match[str]]:
    """The first words, of which some may say when."""
    return list(islice(re.finditer(r"\S+", text), MOST_WORDS))


def _taken(field: str, text: str, count: int) -> tuple[Mapping[str, Any], str]:
    """The first words as the value of a field, and the rest as it was written."""
    words = _words(text)[:count]
    return {field: " ".join(word[0] for word in words)}, text[words[-1].end() :].strip() if words else text


def _duration(words: Sequence[str]) -> int:
    """How many words belong to a duration such as "1 hour 30 minutes"; with what is none, what stands in its place."""
    for count in range(min(MOST_WORDS_OF_DURATION, len(words)), 0, -1):
        try:
            parse_duration(" ".join(words[:count]), field="every")
        except Refused as refused:
            if refused.problems[0].code == "duration_syntax":
                continue
        return count
    return 2 if len(words) > 1 and words[0].isdecimal() else 1


def _moment(text: str) -> tuple[Mapping[str, Any], str]:
    words = text.split(maxsplit=2)
    if len(words) > 1 and _DATE.fullmatch(words[0]) and _TIME.fullmatch(words[1]):
        time = words[1] if words[1][2] == ":" else f"0{words[1]}"
        return {"at": f"{words[0]}T{time}"}, words[2] if len(words) > 2 else ""
    return _taken("at", text, 1)


def _cron(words: Sequence[str]) -> int:
    """How many words look like fields of a cron expression; 0 if it cannot be meant as one."""
    if words and words[0].startswith("@"):
        return 2 if words[0].lower() == "@every" else 1
    count = 0
    for word in words[:CRON_FIELDS]:
        if not _FIELD.fullmatch(word) and (count < 3 or not re.search(r"[0-9*]", word)):
            break
        count += 1
    while CRON_FIELDS <= count < len(words) and _MORE_FIELDS.fullmatch(words[count]):
        count += 1
    return count if count >= 3 else 0
