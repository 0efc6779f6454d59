"""A real redis-server of the test's own, on a socket, to be stopped and started."""

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path

from agentsched.settings import Settings


class RedisServer:
    """Keeps nothing between starts, as a Redis that was never told to."""

    def __init__(self) -> None:
        # Not below pytest's directory, whose paths are longer than a socket's may be.
        self._dir = Path(tempfile.mkdtemp(prefix="agentsched-redis-"))
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._dir}/redis.sock"

    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"redis_url": self.url})

    async def start(self) -> None:
        options = ["--port", "0", "--unixsocket", f"{self._dir}/redis.sock", "--save", "", "--dir", str(self._dir)]
        self._process = await asyncio.create_subprocess_exec(
            "redis-server", *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            while b"eady to accept connections" not in (line := await self._process.stdout.readline()):
                assert line, "redis-server ended instead of starting"

    async def stop(self) -> None:
        """As by a kill -9."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()
        self._process = None

    async def close(self) -> None:
        await self.stop()
        shutil.rmtree(self._dir)
