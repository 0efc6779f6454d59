"""Operations as the specification shows them where Litestar cannot know better."""

from dataclasses import dataclass

from litestar.openapi.spec import Operation, RequestBody


@dataclass
class OptionalBody(Operation):
    """An operation whose body may be left out; Litestar requires every body."""

    def __post_init__(self) -> None:
        if isinstance(self.request_body, RequestBody):
            self.request_body.required = False
