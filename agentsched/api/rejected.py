"""What HTTP alone is reason enough to turn down, before any service sees it."""

from collections.abc import Mapping
from http import HTTPStatus


class Rejected(Exception):  # noqa: N818 — named after what happened to the request
    """The request is answered with this status, code and detail."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers
