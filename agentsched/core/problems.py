"""What is wrong with a request, in words for whoever made it (DESIGN §13)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its stable code, the field, what was got, and what to write instead."""

    code: str
    field: str
    got: object
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.field}: {self.problem} {self.fix}"


class Refused(Exception):  # noqa: N818  # the word of the design for what was not accepted
    """The request cannot be accepted as it stands; `problems` holds every reason found, at least one."""

    def __init__(self, *problems: Problem) -> None:
        if not problems:
            raise ValueError("a refusal needs at least one problem")
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(str(problem) for problem in self.problems)
