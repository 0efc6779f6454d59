"""Run the API, a worker or both in one event loop, until a signal ends them (DESIGN §14)."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import uvicorn

from agentsched.cli.refusal import CommandRefused

BACKLOG = 2048

Part = Callable[[asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]
"""What runs until its first event, ``stop``, is set; it sets the second, ``ready``."""


async def host(parts: Sequence[Part], on_ready: Callable[[], None]) -> None:
    """Run the parts until SIGINT, SIGTERM or SIGHUP asks them to stop; a second signal cancels what has not stopped.

    ``on_ready`` is called once all are ready. When one ends by itself the others are asked to stop as well, and its
    exception, if it has one, is raised.
    """
    stop = asyncio.Event()
    ready = [asyncio.Event() for _ in parts]
    running = [asyncio.create_task(part(stop, each)) for part, each in zip(parts, ready, strict=True)]

    def asked() -> None:
        if stop.is_set():
            for task in running:
                task.cancel()
        stop.set()

    with _on_signals(asked):
        all_ready = asyncio.create_task(_all_of(ready))
        try:
            await asyncio.wait([*running, all_ready], return_when=asyncio.FIRST_COMPLETED)
            if all_ready.done():
                on_ready()
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            all_ready.cancel()
            stop.set()
            await asyncio.wait(running)
    for task in running:
        if not task.cancelled():
            task.result()


async def serve_api(
    app: Any, listener: socket.socket, stop: asyncio.Event, ready: asyncio.Event, *, graceful_seconds: int
) -> None:
    """Serve an ASGI application on a socket that listens already. Raises CommandRefused if it does not start."""
    server = _Server(app, ready, graceful_seconds)
    stopping = asyncio.create_task(server.stop_when(stop))
    try:
        await server.serve(sockets=[listener])
    finally:
        stopping.cancel()


class _Server(uvicorn.Server):
    def __init__(self, app: Any, ready: asyncio.Event, graceful_seconds: int) -> None:
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            # Paths may hold webhook tokens.
            access_log=False,
            server_header=False,
            # An open event stream or long poll would otherwise keep it from ever stopping.
            timeout_graceful_shutdown=graceful_seconds,
        )
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            raise CommandRefused("api_not_started", "The API did not start. The log says why.") from None
        self._ready.set()

    async def stop_when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The process has more to end than this server.
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Raises CommandRefused if the address cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise CommandRefused(
            "address_unavailable",
            f"Cannot listen on {host}, port {port}: {error.strerror or error}. Give another port with --port "
            "(0 takes a free one) or AGENTSCHED_PORT, or stop what uses it.",
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """How a client on this machine reaches it."""
    address, port = listener.getsockname()[:2]
    match address:
        case "0.0.0.0":  # noqa: S104 — compared, not bound
            return f"http://127.0.0.1:{port}"
        case "::":
            return f"http://[::1]:{port}"
        case _:
            return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


async def _all_of(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


@contextlib.contextmanager
def _on_signals(handler: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        # nohup: it is to outlive its terminal.
        del before[signal.SIGHUP]
    for number in before:
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, previous)
