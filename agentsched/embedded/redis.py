"""The Redis inside: fakeredis in this process, under a real arq (DESIGN §15, "Embedded Redis")."""

from collections.abc import Callable
from typing import Any

from arq.connections import ArqRedis
from fakeredis import FakeAsyncRedisConnection, FakeServer
from redis.asyncio import ConnectionPool
from redis.asyncio.client import Pipeline


def embedded_redis_pool(
    *,
    server: FakeServer | None = None,
    job_serializer: Callable[[dict[str, Any]], bytes] | None = None,
    job_deserializer: Callable[[bytes], dict[str, Any]] | None = None,
) -> ArqRedis:
    """A pool for arq's workers and for enqueuing, on a server that lives and dies with this process.

    Pools that are to see each other's jobs share a `server`; a pool without one gets its own. A pool belongs
    to one event loop. Without serializers arq uses pickle.
    """
    connections = ConnectionPool(
        connection_class=FakeAsyncRedisConnection,
        server=server if server is not None else FakeServer(),
    )
    return _EmbeddedRedis(connections, job_serializer=job_serializer, job_deserializer=job_deserializer)


class _EmbeddedRedis(ArqRedis):
    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _EmbeddedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _EmbeddedPipeline(Pipeline):
    # fakeredis does not know INFO, for which arq asks when a worker starts, in order to log it.
    def info(self, section: str | None = None, *args: list[str], **kwargs: Any) -> Any:
        return self.hgetall("agentsched:info")
