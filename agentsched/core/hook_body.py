"""Read the body of a webhook delivery: JSON, form or text, strictly: what is stored can be read (DESIGN §11)."""

import json
import re
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl

MAX_BODY_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_FIELDS = 1000

FORM = "application/x-www-form-urlencoded"

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.I)
_READABLE_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")


class UnsupportedType(Exception):  # noqa: N818 — named after what happened
    """The body is of no type that is read here."""


class MalformedBody(Exception):  # noqa: N818 — named after what happened
    """The body is not what its type says, or holds what cannot be kept. ``code`` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Body(NamedTuple):
    """A body that has been read. ``media_type`` is without parameters; ``text`` is for reading: forms are decoded."""

    media_type: str
    text: str


def read_body(content_type: str, raw: bytes) -> Body:
    """Read a body by its `Content-Type`, which an empty body may leave out.

    Raises UnsupportedType for all but JSON, forms and text in UTF-8, and MalformedBody for what is not well-formed.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if not media_type and not raw:
        media_type = "text/plain"
    charset = _CHARSET.search(content_type)
    if not _is_read(media_type) or (charset is not None and charset[1].lower() not in _READABLE_CHARSETS):
        raise UnsupportedType(
            "The body has to be JSON, a form or text, in UTF-8. Send it with `Content-Type: application/json`, "
            f"`{FORM}` or `text/plain`."
        )
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedBody("body_not_utf8", f"The body is not UTF-8, from byte {error.start} on.") from None
    if media_type == FORM:
        text = json.dumps(_form(text), ensure_ascii=False, indent=2)
    elif _is_json(media_type):
        _check_json(text)
    else:
        _refuse_nul(text)
    return Body(media_type, text)


def _is_read(media_type: str) -> bool:
    return media_type == FORM or media_type.startswith("text/") or _is_json(media_type)


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json"))


def _form(text: str) -> dict[str, str | list[str]]:
    """The fields by name; a name that occurs several times has a list."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError:
        raise MalformedBody("body_not_utf8", "A value of the form is not UTF-8 once it is decoded.") from None
    except ValueError:
        raise MalformedBody("form_too_long", f"The form has more than {MAX_FIELDS} fields. Send fewer.") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        _refuse_nul(name)
        _refuse_nul(value)
        fields.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _check_json(text: str) -> None:
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise MalformedBody("json_malformed", f"The body is not JSON: {error}.") from None
    _check_value(value, 0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise MalformedBody("json_duplicate_key", "An object has the same key twice, so it is not clear which counts.")
    return made


def _no_constant(word: str) -> NoReturn:
    raise MalformedBody("json_malformed", f"The body is not JSON, which has no {word}.")


def _check_value(value: object, depth: int) -> None:
    if isinstance(value, str):
        _refuse_nul(value)
    elif isinstance(value, dict | list):
        if depth >= MAX_DEPTH:
            raise _too_deep()
        if isinstance(value, dict):
            for name in value:
                _refuse_nul(name)
            value = list(value.values())
        for each in value:
            if isinstance(each, str | dict | list):
                _check_value(each, depth + 1)


def _refuse_nul(text: str) -> None:
    if "\x00" in text:
        raise MalformedBody("nul_character", "The body contains the character U+0000. Leave that character out.")


def _too_deep() -> MalformedBody:
    return MalformedBody("json_too_deep", f"The JSON is nested more than {MAX_DEPTH} deep. Send it flatter.")
