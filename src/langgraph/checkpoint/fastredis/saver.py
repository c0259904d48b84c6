"""The saver for sync code."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from langgraph.checkpoint.fastredis.call import Call, Operation, Request, Scan, drive
from langgraph.checkpoint.fastredis.connect import SYNC, connect
from langgraph.checkpoint.fastredis.link import Link, advise, check_client
from langgraph.checkpoint.fastredis.methods import SaverMethods

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import timedelta
    from types import TracebackType

    import redis
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from typing_extensions import Self

    from langgraph.checkpoint.fastredis.expiry import TTLConfig

R = TypeVar("R")
SCAN_PAGE = 1000


class RedisSaver(SaverMethods):
    """Stores LangGraph checkpoints in a Redis or Valkey server, with core commands only.

    Thread-safe, as redis-py's clients are. Its async methods run the sync ones in a thread.

    Args:
        client: Any redis-py client, `redis.Redis` or `redis.RedisCluster`, that does not decode replies. The saver never
            closes it.
        prefix: What every key begins with; savers with different prefixes do not see each other's threads.
        ttl: How long a thread lives after its last write: a `timedelta`, or LangGraph's mapping in minutes
            (`TTLConfig`). `None`: for ever.
        serde: The serializer of all values; LangGraph's own by default.

    Raises:
        TypeError: the client is an async one, or the unit of `ttl` is not clear.
        ValueError: the client decodes replies, or `ttl` is not positive.
    """

    def __init__(
        self,
        client: redis.Redis | redis.RedisCluster,
        *,
        prefix: str = "langgraph",
        ttl: timedelta | TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(prefix=prefix, ttl=ttl, serde=serde)
        check_client(client, asynchronous=False)
        self._link: Link[Any] = Link(client)

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        prefix: str = "langgraph",
        ttl: timedelta | TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        **client_options: Any,
    ) -> Self:
        """Make a saver with a client of its own, to be closed with `close()`.

        Args:
            url: `redis://`, `rediss://`, `unix://`, `valkey://`, `valkeys://`, `redis+cluster://host:port,host:port`,
                `redis+sentinel://host:port,host:port/service/db`, or `embedded://` for a private throw-away server.
            prefix: As for the class.
            ttl: As for the class.
            serde: As for the class.
            client_options: Passed to redis-py's client: `max_connections`, `socket_timeout`, …; with sentinels, what they want
                themselves as `sentinel_kwargs`.

        Raises:
            ValueError: the URL cannot be read.
            ImportError: `embedded://` without the extra that brings a server.
        """
        client, server = connect(url, SYNC, client_options)
        try:
            saver = cls(client, prefix=prefix, ttl=ttl, serde=serde)
        except BaseException:
            if server:
                server.close()
            raise
        saver._link = Link(client, is_owned=True, server=server)
        return saver

    @classmethod
    @contextmanager
    def from_conn_string(cls, url: str, **options: Any) -> Generator[Self]:
        """A saver with a client of its own, closed at the end of the `with` block. Arguments as for `from_url`."""
        with cls.from_url(url, **options) as saver:
            yield saver

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close what the saver has opened: its client, and an embedded server. A client handed in stays open."""
        if self._link.close():
            self._link.client.close()
            if self._link.server:
                self._link.server.close()

    def _run(self, operation: Operation[R]) -> R:
        return drive(operation, self._send)

    async def _arun(self, operation: Operation[R]) -> R:
        try:
            request = next(operation)
        except StopIteration as finished:
            result: R = finished.value
            return result
        return await asyncio.to_thread(drive, operation, self._send, request)

    def _send(self, request: Request) -> Any:
        client = self._link.open_client()
        try:
            return _scan(client, request) if isinstance(request, Scan) else _evaluate(client, request)
        except RedisConnectionError as error:
            advise(error)
            raise


def _evaluate(client: Any, call: Call) -> Any:
    count = len(call.keys)
    try:
        return client.evalsha(call.script.sha, count, *call.keys, *call.arguments)
    except NoScriptError:
        return client.eval(call.script.source, count, *call.keys, *call.arguments)


def _scan(client: Any, scan: Scan) -> list[bytes] | None:
    if scan.keys is None:
        scan.keys = client.scan_iter(match=scan.pattern, count=SCAN_PAGE)
    return list(islice(scan.keys, SCAN_PAGE)) or None
