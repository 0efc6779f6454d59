import pytest

from agentsched.runners.echo import EchoRunner
from agentsched.runners.protocol import Entry, Outcome
from tests.runners.assignments import assignment

pytestmark = pytest.mark.anyio


async def test_it_says_the_prompt_back() -> None:
    outcome = await EchoRunner().run(assignment("check my PRs"))
    assert outcome == Outcome(
        entries=(Entry("assistant", "Echo: check my PRs"),),
        result="Echo: check my PRs",
        usage={"input_tokens": 0, "output_tokens": 0, "requests": 0, "tool_calls": 0},
    )


async def test_it_shows_the_payload() -> None:
    outcome = await EchoRunner().run(assignment("deploy", payload='{"ref": "main"}'))
    assert outcome.result == 'Echo: deploy\n\n{"ref": "main"}'
