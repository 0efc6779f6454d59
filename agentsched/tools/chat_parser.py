"""What somebody means who types a command into a chat (DESIGN §10)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from agentsched.tools.arguments import Create
from agentsched.tools.chat_timing import TIMES, read_timing
from agentsched.tools.requested import TIMING

COMMANDS = ("schedules", "schedule", "help")
FILTERS = ("live", "active", "paused", "completed", "cancelled", "all")
VERBS = ("add", "show", "edit", "pause", "resume", "run", "runs", "cancel")
OTHER_WORDS = {
    "create": "add",
    "new": "add",
    "update": "edit",
    "change": "edit",
    "set": "edit",
    "delete": "cancel",
    "remove": "cancel",
    "stop": "cancel",
    "start": "run",
    "trigger": "run",
    "continue": "resume",
    "history": "runs",
    "info": "show",
}
"""What other programs call the same."""

OPTIONS = {
    f"--{name.replace('_', '-')}": name for name in Create.model_fields if name not in (*TIMING, "in_", "prompt")
}
QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»"}
LONGEST_SHOWN = 60

_OPTION = re.compile(r"(?:^|(?<=\s))(--|—|–)([A-Za-z][\w-]*)")  # telephones make one dash of two
_NUMBER = re.compile(r"#?([0-9]{1,18})")


class Misunderstood(Exception):  # noqa: N818 — named after what happened
    """It is no command; the message says what to write instead."""


@dataclass(frozen=True)
class Help:
    """What commands there are."""


@dataclass(frozen=True)
class ListThem:
    status: str


@dataclass(frozen=True)
class Add:
    """``fields`` have the names that the tool's arguments have."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """``which``: a number in the conversation, or a name."""

    which: int | str


class Show(Chosen):
    """All about one."""


class Run(Chosen):
    """Run it now."""


@dataclass(frozen=True)
class Edit(Chosen):
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Pause(Chosen):
    note: str | None


@dataclass(frozen=True)
class Resume(Chosen):
    catch_up: str | None


@dataclass(frozen=True)
class Runs(Chosen):
    count: str | None


@dataclass(frozen=True)
class Cancel(Chosen):
    stop_running: bool


@dataclass(frozen=True)
class CancelAll:
    stop_running: bool
    confirmed: bool


Command = Help | ListThem | Add | Show | Run | Edit | Pause | Resume | Runs | Cancel | CancelAll


def is_command(text: str) -> bool:
    """Whether a message is meant for the service. After a blank or a second slash it is for the agent."""
    return text.startswith("/") and not text.startswith("//")


def parse(text: str) -> Command:
    """The command. Raises Misunderstood for what is none."""
    word, rest = _first_word(text.removeprefix("/"))
    match word.lower():
        case "help":
            return Help()
        case "schedules":
            return _listing(rest)
        case "schedule":
            return _with_verb(rest)
        case other:
            near = get_close_matches(other, COMMANDS, n=1)
            raise Misunderstood(
                f"There is no command `/{shown(word)}`.{_meant('/' + near[0]) if near else ''} `/help` lists the "
                "commands. To say this to the agent, put a blank before it."
            )


def shown(text: str) -> str:
    """What was typed, short and on one line, so that it can stand in an answer."""
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"


def _listing(rest: str) -> Command:
    word, more = _first_word(rest)
    wanted = word.lower()
    if wanted in ("", *FILTERS) and not more:
        return ListThem(wanted or "live")
    verb = wanted if wanted in VERBS else OTHER_WORDS.get(wanted)
    if verb is not None:
        raise Misunderstood(f"`/schedules` lists them.{_meant(f'/schedule {verb}')}")
    near = get_close_matches(wanted, FILTERS, n=1)
    raise Misunderstood(
        f"`/schedules {shown(rest)}` lists nothing.{_meant(f'/schedules {near[0]}') if near else ''} After "
        f"`/schedules` comes nothing, or one of {_listed(FILTERS)}."
    )


def _with_verb(rest: str) -> Command:
    word, arguments = _first_word(rest)
    match word.lower():
        case "help":
            return Help()
        case "add":
            return Add(_new(arguments))
        case "edit":
            which, changes = _which("edit", arguments, whole=False)
            return Edit(which, _changes(changes))
        case "show":
            return Show(_only_which("show", arguments))
        case "run":
            return Run(_only_which("run", arguments))
        case "pause":
            which, note = _which("pause", arguments, whole=True)
            return Pause(which, note or None)
        case "resume":
            rest, options = _options(arguments, {"--catch-up": "catch_up"})
            return Resume(_only_which("resume", rest), options.get("catch_up"))
        case "runs":
            rest, options = _options(arguments, {"--count": "count"})
            return Runs(_only_which("runs", rest), options.get("count"))
        case "cancel":
            return _cancel(arguments)
        case other:
            raise Misunderstood(_no_verb(other, rest))


def _no_verb(word: str, rest: str) -> str:
    usage = f"After `/schedule` comes one of {_listed(VERBS)}; `/help` says more."
    if not word:
        return usage
    if word in ("list", "ls", "all", *FILTERS):
        return f"There is no `/schedule {word}`.{_meant('/schedules')} {usage}"
    if _NUMBER.fullmatch(word):
        return f"Say what to do with it.{_meant(f'/schedule show {shown(rest)}')} {usage}"
    near = get_close_matches(word, VERBS, n=1)
    verb = OTHER_WORDS.get(word) or (near[0] if near else None)
    return f"There is no `/schedule {shown(word)}`.{_meant(f'/schedule {verb}') if verb else ''} {usage}"


def _cancel(arguments: str) -> Command:
    rest, options = _options(arguments, {"--stop-running": "stop_running"}, flags=("stop_running",))
    words = rest.lower().split()
    if words[:1] == ["all"] and len(words) <= 2:
        if words[1:] in ([], ["confirm"]):
            return CancelAll("stop_running" in options, confirmed=bool(words[1:]))
        raise Misunderstood("`/schedule cancel all confirm` cancels all of them; nothing else may stand there.")
    return Cancel(_only_which("cancel", rest), "stop_running" in options)


def _new(text: str) -> dict[str, Any]:
    if not text:
        raise Misunderstood(f"Say when, and what to ask the agent. {TIMES}")
    timing, rest = read_timing(text)
    if timing is None:
        raise Misunderstood(f"This does not say when. {TIMES}")
    return {**timing, **_prompt_and_options(rest)}


def _changes(text: str) -> dict[str, Any]:
    timing, rest = read_timing(text)
    if timing is not None and "webhook" in timing:
        raise Misunderstood(
            "A schedule does not become a webhook later. Make a new one with `/schedule add webhook …`."
        )
    word, more = _first_word(rest)
    changes = {**(timing or {}), **_prompt_and_options(more if word.lower() == "prompt" else rest)}
    if timing is None and word.lower() != "prompt" and "prompt" in changes:
        raise Misunderstood(
            "Say what to change: begin with a new time, with `prompt` and the new prompt, or with an option such as "
            f"`--name`. {TIMES}"
        )
    if not changes:
        raise Misunderstood(
            "Say what to change, such as `/schedule edit 1 every 2h`, `/schedule edit 1 prompt …` or "
            "`/schedule edit 1 --name …`."
        )
    return changes


def _prompt_and_options(text: str) -> dict[str, Any]:
    quoted = _quoted(text)
    if quoted is not None and (not quoted[1] or _OPTION.match(quoted[1])):
        prompt, (_, options) = quoted[0], _options(quoted[1], OPTIONS)
    else:
        prompt, options = _options(text, OPTIONS)
    return {"prompt": prompt, **options} if prompt else options


def _options(text: str, known: Mapping[str, str], *, flags: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """What stands before the options, and their values by field."""
    at = _next_option(text, known)
    if at is None:
        return text.strip(), {}
    body, found = text[: at.start()].strip(), dict[str, str]()
    while at is not None:
        name, rest = _known(at[2], known), text[at.end() :].lstrip().removeprefix("=").lstrip()
        quoted = _quoted(rest)
        if quoted is not None and (not quoted[1] or _OPTION.match(quoted[1])):
            value, text = quoted
            at = _next_option(text, known)
        else:
            at = _next_option(rest, known)
            value, text = (rest if at is None else rest[: at.start()]).strip(), rest
        field = known[name]
        if field in found:
            raise Misunderstood(f"`{name}` is there twice.")
        if field in flags and value:
            raise Misunderstood(f"`{name}` stands alone, without `{shown(value)}`.")
        if field not in flags and not value:
            raise Misunderstood(f"`{name}` needs a value after it.")
        found[field] = value
    return body, found


def _next_option(text: str, known: Mapping[str, str]) -> re.Match[str] | None:
    """The next word that is an option, or that should be one."""
    return next((at for at in _OPTION.finditer(text) if at[1] == "--" or f"--{at[2].lower()}" in known), None)


def _known(name: str, known: Mapping[str, str]) -> str:
    option = f"--{name.lower().replace('_', '-')}"
    if option in known:
        return option
    near = get_close_matches(option, known, n=1)
    quotes = " If it belongs to the prompt, put the prompt in quotes." if known is OPTIONS else ""
    raise Misunderstood(
        f"There is no option `--{shown(name)}`.{_meant(near[0]) if near else ''} There are "
        f"{_listed(sorted(known))}.{quotes}"
    )


def _only_which(verb: str, text: str) -> int | str:
    which, rest = _which(verb, text, whole=True)
    if rest:
        raise Misunderstood(
            f"`/schedule {verb} {shown(text)}`: after the number there is `{shown(rest)}`, which says nothing here."
        )
    return which


def _which(verb: str, text: str, *, whole: bool) -> tuple[int | str, str]:
    """The schedule, and what comes after it. A name without quotes is the ``whole`` text, or its first word."""
    if not text:
        raise Misunderstood(f"Say which one: `/schedule {verb} N`, where N is its number in `/schedules`.")
    quoted = _quoted(text)
    word, rest = quoted or _first_word(text)
    number = _NUMBER.fullmatch(word)
    if number is not None:
        return int(number[1]), rest
    return (text, "") if whole and quoted is None else (word, rest)


def _quoted(text: str) -> tuple[str, str] | None:
    """What stands in quotes at the beginning, and what comes after them."""
    end = text.find(QUOTES[text[0]], 1) if text[:1] in QUOTES and text else -1
    return None if end < 0 else (text[1:end].strip(), text[end + 1 :].strip())


def _first_word(text: str) -> tuple[str, str]:
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0].strip() if rest else ""


def _meant(instead: str) -> str:
    return f" Did you mean `{instead}`?"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
