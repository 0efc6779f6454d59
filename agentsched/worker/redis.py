"""The connection to Redis: a server's, or the one inside. Jobs are JSON, for pickle would be code execution."""

import json
from typing import Any

from arq.connections import ArqRedis
from redis.asyncio import ConnectionPool

from agentsched.embedded.redis import embedded_redis_pool
from agentsched.settings import Settings

SOCKET_SECONDS = 5
"""How long Redis may take to answer before it counts as away; arq polls, so that no call waits longer on purpose."""


def dump_job(job: dict[str, Any]) -> bytes:
    """A job as JSON; what JSON does not know (arq's exceptions) is written as text."""
    return json.dumps(job, default=repr).encode()


def load_job(data: bytes) -> dict[str, Any]:
    job: dict[str, Any] = json.loads(data)
    return job


def connect_redis(settings: Settings) -> ArqRedis:
    """A pool on ``AGENTSCHED_REDIS_URL`` (``redis://``, ``rediss://`` or ``unix://``), else on a Redis in this process.

    Connects when it is first used, so that a Redis that is away delays nothing. Close it with
    ``aclose(close_connection_pool=True)``. Raises ValueError for a URL of another scheme.
    """
    if settings.redis_url is None:
        return embedded_redis_pool(job_serializer=dump_job, job_deserializer=load_job)
    pool = ConnectionPool.from_url(
        settings.redis_url, socket_connect_timeout=SOCKET_SECONDS, socket_timeout=SOCKET_SECONDS
    )
    return ArqRedis(pool, job_serializer=dump_job, job_deserializer=load_job)
