"""An answer as text, from which nothing is missing that its data has."""

from collections.abc import Iterator

from agentsched.tools.answers import Candidate, Coming, Fault, Refusal, Shown, Standing

LONGEST = 300


def written(shown: Standing | Refusal) -> str:
    """What matters first, then every member on a line of its own."""
    status = getattr(shown, "status", None)
    lines = _lines(shown, skip=("say", "message", "stop", "status"))
    return "\n".join([*_opening(shown), "", *([] if status is None else [f"status: {status}"]), *lines])


def shortened(text: str, longest: int = LONGEST) -> str:
    """On one line, so that nothing in it looks like a line of the answer, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[:longest] + "…"


def _opening(shown: Standing | Refusal) -> list[str]:
    if isinstance(shown, Standing):
        return [f"Say to the person: {shown.say}"]
    return [part for part in (shown.stop, shown.message) if part is not None]


def _lines(shown: Shown, skip: tuple[str, ...] = ()) -> Iterator[str]:
    for name in type(shown).model_fields:
        value = getattr(shown, name)
        if name in skip or value is None:
            continue
        if not isinstance(value, list):
            yield f"{name}: {_word(value)}"
        elif not value:
            yield f"{name}: none"
        else:
            yield f"{name}:"
            for each in value:
                yield from _item(each)


def _item(shown: Shown) -> Iterator[str]:
    if isinstance(shown, Coming | Fault | Candidate):
        yield f"- {shown}"
        return
    for index, line in enumerate(_lines(shown)):
        yield f"{'  ' if index else '- '}{line}"


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
