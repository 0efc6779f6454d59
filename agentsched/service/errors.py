"""What the service refuses, each with a stable code (DESIGN §13). Bad fields are ``core.problems.Refused``."""

from collections.abc import Mapping


class ServiceError(Exception):
    """A request that is well-formed and still cannot be done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotFound(ServiceError):  # noqa: N818 — named after what happened
    """There is no such thing for this principal; somebody else's answers exactly as an absent one."""

    def __init__(self, what: str, identifier: object) -> None:
        super().__init__(
            f"{what}_not_found", f"There is no {what} {identifier}. List them to see which ones there are."
        )
        self.what = what
        self.identifier = identifier


class Conflict(ServiceError):  # noqa: N818 — named after what happened
    """The thing is in a state that does not allow this. ``extra`` are further members of the problem details."""

    def __init__(self, code: str, message: str, *, extra: Mapping[str, object] | None = None) -> None:
        super().__init__(code, message)
        self.extra = extra or {}


class Busy(ServiceError):  # noqa: N818 — named after what happened
    """Others hold it for too long; nothing was done. ``retry_after_seconds``: when to try again."""

    def __init__(self, code: str, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(code, message)
        self.retry_after_seconds = retry_after_seconds


class TooMany(ServiceError):  # noqa: N818 — named after what happened
    """A bound is reached; nothing was done. ``retry_after_seconds``: when it may be possible."""

    def __init__(self, code: str, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(code, message)
        self.retry_after_seconds = retry_after_seconds


class UnknownToken(ServiceError):  # noqa: N818 — named after what happened
    """No webhook has this token now. It is not repeated: senders keep the answers that they get."""

    def __init__(self) -> None:
        super().__init__(
            "webhook_not_found",
            "No webhook has this token. Take the URL that was shown when the schedule was created, or when its token "
            "was last rotated.",
        )


class StaleVersion(ServiceError):  # noqa: N818 — named after what happened
    """Somebody else has changed the schedule since the caller read it."""

    def __init__(self, got: int, current: int) -> None:
        super().__init__(
            "version_mismatch",
            f"The schedule is at version {current}, the request was made for version {got}. Nothing was changed. "
            f"Read it again, and send the patch with If-Match: {current}.",
        )


class Forbidden(ServiceError):  # noqa: N818 — named after what happened
    """The credential does not allow this."""
