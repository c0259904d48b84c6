"""Pools of connections for the clients that savers make themselves: they wait for a free one.

Those that sentinels lead to ask them whenever a connection is opened. redis-py does so when it takes one out of its pool, and
not when it opens one again to repeat a call: that goes to a primary that is no more. And it drops a connection whose server
says that it has become a replica; but where a script wrote, Redis before 7.0 says so inside an error of the script, which
redis-py does not know: calls would fail there for ever.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

_CLOSES_IDLE_ONES = "inuse_connections" in signature(redis.BlockingConnectionPool.disconnect).parameters
_DEMOTED = "-READONLY You can't write against a read only replica"
# So says a server with min-replicas-to-write whose replicas follow another one by now.
_DESERTED = "NOREPLICAS Not enough good replicas to write"


def _leaves(connection: Any, error: ResponseError) -> bool:
    """Whether a connection is to be closed, so that the sentinels are asked where to go next."""
    return bool(connection.connection_pool.is_master) and (_DEMOTED in str(error) or _DESERTED in str(error))


class _Connection(redis.sentinel.SentinelManagedConnection):
    def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 as redis-py's
        redis_py: Any = super()
        redis_py.connect()  # does nothing where it is connected
        redis_py.send_packed_command(command, check_health)

    def read_response(self, *args: Any, **options: Any) -> Any:
        redis_py: Any = super()
        try:
            return redis_py.read_response(*args, **options)
        except ResponseError as error:
            if not _leaves(self, error):
                raise
            redis_py.disconnect()
            if _DEMOTED in str(error):  # the call is repeated
                raise RedisConnectionError(str(error)) from error
            raise


class _TLSConnection(_Connection, redis.sentinel.SentinelManagedSSLConnection):
    pass


class _AsyncConnection(redis.asyncio.sentinel.SentinelManagedConnection):
    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 as redis-py's
        redis_py: Any = super()
        await redis_py.connect()  # does nothing where it is connected
        await redis_py.send_packed_command(command, check_health)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        redis_py: Any = super()
        try:
            return await redis_py.read_response(*args, **options)
        except ResponseError as error:
            if not _leaves(self, error):
                raise
            await redis_py.disconnect()
            if _DEMOTED in str(error):  # the call is repeated
                raise RedisConnectionError(str(error)) from error
            raise


class _AsyncTLSConnection(_AsyncConnection, redis.asyncio.sentinel.SentinelManagedSSLConnection):
    pass


class PassingOnPool(redis.asyncio.BlockingConnectionPool):
    """redis-py's waiting pool, in which a caller that gives up passes on the wake-up that was meant for it.

    Before Python 3.13 `asyncio.Condition` loses a notification whose receiver is cancelled in the same turn of the loop: a free
    connection is then seen by nobody, and those who wait for one wait until they time out.
    """

    async def get_connection(self, *args: Any, **options: Any) -> Any:
        """As redis-py's."""
        try:
            return await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]
        except BaseException:
            async with self._condition:
                self._condition.notify()
            raise


class SentinelPool(redis.sentinel.SentinelConnectionPool, redis.BlockingConnectionPool):
    """redis-py's pool of connections that sentinels lead to, made to wait for a free one."""

    def __init__(self, service_name: str, sentinel_manager: Any, **options: Any) -> None:
        options.setdefault("connection_class", _TLSConnection if options.get("ssl") else _Connection)
        super().__init__(service_name, sentinel_manager, **options)  # type: ignore[no-untyped-call]

    def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: FBT001, FBT002 as redis-py's
        """As redis-py's. That of redis-py 5 closes all or none: idle connections to an old primary are then left when used."""
        redis_py: Any = super()
        if _CLOSES_IDLE_ONES:
            redis_py.disconnect(inuse_connections)
        elif inuse_connections:
            redis_py.disconnect()


class AsyncSentinelPool(redis.asyncio.sentinel.SentinelConnectionPool, PassingOnPool):
    """The same for async clients."""

    def __init__(self, service_name: str, sentinel_manager: Any, **options: Any) -> None:
        options.setdefault("connection_class", _AsyncTLSConnection if options.get("ssl") else _AsyncConnection)
        super().__init__(service_name, sentinel_manager, **options)  # type: ignore[no-untyped-call]
