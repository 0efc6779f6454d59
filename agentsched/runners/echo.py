"""The runner for trying things: it says the prompt back, at once, for nothing."""

from agentsched.runners.protocol import Assignment, Entry, Outcome


class EchoRunner:
    """Answers `Echo: <prompt>`, with the payload below it if there is one. It cannot fail."""

    async def run(self, assignment: Assignment) -> Outcome:
        reply = f"Echo: {assignment.prompt}"
        if assignment.payload is not None:
            reply += f"\n\n{assignment.payload}"
        return Outcome(
            entries=(Entry("assistant", reply),),
            result=reply,
            usage={"input_tokens": 0, "output_tokens": 0, "requests": 0, "tool_calls": 0},
        )
