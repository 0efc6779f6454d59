"""Lists in pages: ``{items, next_cursor}``, and cursors that only this service reads (DESIGN §13)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

from litestar.params import QueryParameter
from pydantic import BaseModel, Field

from agentsched.api.parameters import LARGEST_ID
from agentsched.core.problems import Problem, Refused

Row = TypeVar("Row")
Item = TypeVar("Item")

LARGEST_PAGE = 1000
DEFAULT_PAGE = 100

Limit = Annotated[int, QueryParameter(ge=1, le=LARGEST_PAGE, description="How many items at most")]
Cursor = Annotated[
    str | None, QueryParameter(description="`next_cursor` of the page before; without it, the first page")
]


class Page(BaseModel, Generic[Item]):
    """Items, and where the next ones are."""

    items: list[Item]
    next_cursor: str | None = Field(description="Send it as `cursor` to get the next page; null on the last one")


def encode(order: str, *numbers: int) -> str:
    """The cursor behind the item with these sort keys, in a list of this order."""
    text = ":".join([order, *map(str, numbers)])
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode(cursor: str, order: str, size: int) -> tuple[int, ...]:
    """The ``size`` sort keys in a cursor of this order. Raises Refused for any other text."""
    try:
        text = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode("ascii")
        kind, *keys = text.split(":")
        numbers = tuple(int(key) for key in keys)
    except ValueError:
        raise bad_cursor(cursor) from None
    if (kind, len(numbers)) != (order, size) or cursor != encode(order, *numbers):
        raise bad_cursor(cursor)
    if not all(0 <= each <= LARGEST_ID for each in numbers):
        raise bad_cursor(cursor)
    return numbers


def after_id(cursor: str | None, order: str) -> int:
    """The id (or sequence number) behind which the page begins; 0 for the first page."""
    return 0 if cursor is None else decode(cursor, order, 1)[0]


def page_of(
    rows: Sequence[Row],
    limit: int,
    *,
    show: Callable[[Row], Item],
    keys: Callable[[Row], tuple[int, ...]],
    order: str,
) -> Page[Item]:
    """The page of ``limit`` + 1 rows: the last row only says that there is a next page."""
    shown = rows[:limit]
    following = encode(order, *keys(shown[-1])) if len(rows) > limit else None
    return Page(items=[show(row) for row in shown], next_cursor=following)


def whole(items: list[Item]) -> Page[Item]:
    """A list that is always short, as its only page."""
    return Page(items=items, next_cursor=None)


def bad_cursor(cursor: str) -> Refused:
    """The refusal of a cursor that did not come from this list."""
    return Refused(
        Problem(
            "cursor_invalid",
            "cursor",
            cursor,
            "It is no cursor of this list.",
            "Send the `next_cursor` of the page before as it is, or no cursor for the first page.",
        )
    )
