"""The conversation in which a model calls a tool, as the call names it (DESIGN §10)."""

from agentsched.core.problems import Problem, Refused
from agentsched.tools.calling import HEADER

LARGEST_ID = 2**63 - 1


def conversation_id_of(given: object, where: str = HEADER) -> int | None:
    """The id in the header, or wherever it was given; None where nothing was. Raises Refused for what is no id."""
    if given is None:
        return None
    text = str(given).strip()
    if isinstance(given, bool) or not (text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= LARGEST_ID):
        raise Refused(
            Problem("conversation_id_malformed", where, given, "It is no id.", "Send the conversation's id, a number.")
        )
    return int(text)
