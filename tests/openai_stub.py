"""A provider on a real socket that speaks OpenAI's chat completions, and misbehaves when told to."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, assert_never


@dataclass(frozen=True)
class Reply:
    """A proper answer; `tool_calls` are (name, arguments) pairs."""

    text: str | None = None
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    input_tokens: int = 11
    output_tokens: int = 7


@dataclass(frozen=True)
class Status:
    """An error answer with this HTTP status."""

    status: int
    message: str = "as told by the test"
    code: str | None = None


@dataclass(frozen=True)
class Body:
    """Status 200 with whatever body."""

    text: str
    content_type: str = "application/json"


@dataclass(frozen=True)
class Hang:
    """No answer, for as long as the client keeps its connection."""


Behaviour = Reply | Status | Body | Hang


@dataclass
class OpenAIStub:
    """Each request gets the next of `behaviours`, and `default` when they are used up.

    `requests` are the bodies that came in.
    """

    url: str = ""
    behaviours: list[Behaviour] = field(default_factory=list)
    default: Behaviour = field(default_factory=lambda: Reply("ok"))
    requests: list[dict[str, Any]] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client of `Hang` has gone."""
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def received(self, count: int) -> None:
        """Wait until so many requests have come in."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            request = json.loads(await reader.readexactly(int(headers["content-length"])))
            path = lines[0].split(" ")[1]
            if path != "/v1/chat/completions":
                self._write(writer, 404, _error(f"The stub does not serve {path}.", None))
                return
            async with self._changed:
                self.requests.append(request)
                self._changed.notify_all()
            behaviour = self.behaviours.pop(0) if self.behaviours else self.default
            match behaviour:
                case Reply():
                    self._write(writer, 200, _completion(request, behaviour, len(self.requests)))
                case Status():
                    self._write(writer, behaviour.status, _error(behaviour.message, behaviour.code))
                case Body():
                    self._write(writer, 200, behaviour.text, behaviour.content_type)
                case Hang():
                    await reader.read()
                    self.hung_up.set()
                case _:
                    assert_never(behaviour)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up.set()
        finally:
            writer.close()

    def _write(
        self, writer: asyncio.StreamWriter, status: int, body: str, content_type: str = "application/json"
    ) -> None:
        data = body.encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"content-type: {content_type}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + data)


@asynccontextmanager
async def openai_stub() -> AsyncIterator[OpenAIStub]:
    """A stub on a free port of 127.0.0.1; `url` is what belongs into OPENAI_BASE_URL."""
    stub = OpenAIStub()
    handlers: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(stub.handle(reader, writer))
        handlers.add(task)
        task.add_done_callback(handlers.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield stub
    finally:
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


def _completion(request: dict[str, Any], reply: Reply, number: int) -> str:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{position}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for position, (name, arguments) in enumerate(reply.tool_calls)
        ]
    return json.dumps(
        {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": request.get("model", "stub"),
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if reply.tool_calls else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": reply.input_tokens,
                "completion_tokens": reply.output_tokens,
                "total_tokens": reply.input_tokens + reply.output_tokens,
            },
        }
    )


def _error(message: str, code: str | None) -> str:
    return json.dumps({"error": {"message": message, "type": "stub", "param": None, "code": code}})
