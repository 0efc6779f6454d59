"""Request bodies: strict JSON, then the request's model; a body that is not quite right changes nothing.

Litestar's own reading takes JSON for whatever the content type says and fails on very deep JSON, so it is replaced:
`JsonRequest.json` checks the text, and `read_model` makes the model of it.
"""

from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from litestar import Request
from pydantic import ValidationError

from agentsched.api.rejected import Rejected
from agentsched.core.problems import Problem, Refused
from agentsched.service import requests
from agentsched.service.caller import Caller
from agentsched.service.field_problems import path_text, problems_of

MAX_BODY_BYTES = 1_000_000
MAX_DEPTH = 64

AnyModel = TypeVar("AnyModel", bound=requests.Request)


class JsonRequest(Request[Any, Caller, Any]):
    """A request whose body, if there is one, is JSON and says so."""

    async def json(self) -> bytes:
        """The checked text. Raises Rejected for anything that is not JSON, and Refused for what nobody can store."""
        content_type, options = self.content_type
        charset = options.get("charset", "utf-8").lower()
        if not _is_json(content_type) or charset != "utf-8" or "content-encoding" in self.headers:
            raise Rejected(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "The body has to be plain JSON in UTF-8. Send it with `Content-Type: application/json`.",
            )
        text = await self.body()
        try:
            value = msgspec.json.decode(text)
        except RecursionError:
            raise _too_deep() from None
        except ValueError as error:
            raise _no_json(str(error)) from None
        _check(value, (), 0)
        return text


def read_model(model: type[AnyModel], text: bytes) -> AnyModel:
    """The request in this text of JSON. Raises Refused with all that is wrong."""
    try:
        return model.model_validate_json(text, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Refused(*problems_of(error, model)) from None


def is_model(annotation: Any) -> bool:
    """Whether this is what ``read_model`` makes."""
    return isinstance(annotation, type) and issubclass(annotation, requests.Request)


def _is_json(content_type: str) -> bool:
    return content_type == "application/json" or (
        content_type.startswith("application/") and content_type.endswith("+json")
    )


def _check(value: object, path: tuple[str | int, ...], depth: int) -> None:
    """No NUL, which PostgreSQL cannot store, and no structure that is deeper than any reader wants."""
    match value:
        case str() if "\x00" in value:
            raise Refused(_nul(path, value))
        case dict() | list() if depth >= MAX_DEPTH:
            raise _too_deep()
        case dict():
            for key, each in value.items():
                _check(key, (*path, key), depth)
                _check(each, (*path, key), depth + 1)
        case list():
            for position, each in enumerate(value):
                _check(each, (*path, position), depth + 1)
        case _:
            pass


def _nul(path: tuple[str | int, ...], text: str) -> Problem:
    return Problem(
        "nul_character", path_text(path), text, "It contains the character U+0000.", "Leave that character out."
    )


def _too_deep() -> Rejected:
    return Rejected(
        HTTPStatus.BAD_REQUEST, "json_too_deep", f"The JSON is nested more than {MAX_DEPTH} deep. Send it flatter."
    )


def _no_json(reason: str) -> Rejected:
    return Rejected(HTTPStatus.BAD_REQUEST, "json_malformed", f"The body is not JSON: {reason}.")
