"""The saver for async code."""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from langgraph.checkpoint.fastredis.call import Call, Operation, Request, Scan, adrive, drive
from langgraph.checkpoint.fastredis.connect import ASYNC, connect
from langgraph.checkpoint.fastredis.link import Link, advise, check_client
from langgraph.checkpoint.fastredis.methods import SaverMethods
from langgraph.checkpoint.fastredis.saver import SCAN_PAGE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import timedelta
    from types import TracebackType

    import redis.asyncio
    from langgraph.checkpoint.serde.base import SerializerProtocol
    from typing_extensions import Self

    from langgraph.checkpoint.fastredis.expiry import TTLConfig

R = TypeVar("R")


class AsyncRedisSaver(SaverMethods):
    """Stores LangGraph checkpoints in a Redis or Valkey server, with core commands only, from async code.

    Can be made with or without a running event loop. Its sync methods work from other threads than the loop's own, where
    they would wait for themselves and refuse.

    Args:
        client: Any client of `redis.asyncio`, `Redis` or `RedisCluster`, that does not decode replies. The saver never
            closes it.
        prefix: As for `RedisSaver`.
        ttl: As for `RedisSaver`.
        serde: As for `RedisSaver`.

    Raises:
        TypeError: the client is a sync one, or the unit of `ttl` is not clear.
        ValueError: the client decodes replies, or `ttl` is not positive.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        *,
        prefix: str = "langgraph",
        ttl: timedelta | TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(prefix=prefix, ttl=ttl, serde=serde)
        check_client(client, asynchronous=True)
        self._link: Link[Any] = Link(client, loop=_running_loop())

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
        """Make a saver with a client of its own, to be closed with `aclose()`. Arguments as for `RedisSaver.from_url`."""
        client, server = connect(url, ASYNC, client_options)
        try:
            saver = cls(client, prefix=prefix, ttl=ttl, serde=serde)
        except BaseException:
            if server:
                server.close()
            raise
        saver._link = Link(client, is_owned=True, server=server, loop=_running_loop())
        return saver

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, url: str, **options: Any) -> AsyncGenerator[Self]:
        """A saver with a client of its own, closed at the end of the `async with` block. Arguments as for `from_url`."""
        async with cls.from_url(url, **options) as saver:
            yield saver

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close what the saver has opened: its client, and an embedded server. A client handed in stays open."""
        if self._link.close():
            await self._link.client.aclose()
            if self._link.server:
                await asyncio.to_thread(self._link.server.close)

    async def _arun(self, operation: Operation[R]) -> R:
        self._link.loop = asyncio.get_running_loop()
        return await adrive(operation, self._asend)

    def _run(self, operation: Operation[R]) -> R:
        loop = self._loop_elsewhere()

        def send(request: Request) -> Any:
            return _wait(asyncio.run_coroutine_threadsafe(self._asend(request), loop), loop)

        return drive(operation, send)

    def _loop_elsewhere(self) -> asyncio.AbstractEventLoop:
        """The loop that the client lives on, if this thread may wait for it."""
        loop = self._link.loop
        if loop is None or not loop.is_running():
            message = "the sync methods of AsyncRedisSaver need its event loop to run in another thread; use RedisSaver"
            raise RuntimeError(message)
        if loop is _running_loop():
            message = (
                "a sync method of AsyncRedisSaver was called on the event loop's own thread, where it would wait for itself;"
                " await the async method of the same name with an `a` in front (in a graph: `ainvoke`, `aget_state`, …)"
            )
            raise RuntimeError(message)
        return loop

    async def _asend(self, request: Request) -> Any:
        client = self._link.open_client()
        try:
            return await (_scan(client, request) if isinstance(request, Scan) else _evaluate(client, request))
        except RedisConnectionError as error:
            advise(error)
            raise


def _wait(future: concurrent.futures.Future[Any], loop: asyncio.AbstractEventLoop) -> Any:
    """The result of what a loop in another thread does; a loop that has ended would never bring it."""
    while True:
        done, _ = concurrent.futures.wait([future], timeout=0.5)
        if done:
            return future.result()
        if not loop.is_running():
            future.cancel()
            message = "the event loop of this AsyncRedisSaver ended while a sync method waited for it"
            raise RuntimeError(message)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _evaluate(client: Any, call: Call) -> Any:
    count = len(call.keys)
    try:
        return await client.evalsha(call.script.sha, count, *call.keys, *call.arguments)
    except NoScriptError:
        return await client.eval(call.script.source, count, *call.keys, *call.arguments)


async def _scan(client: Any, scan: Scan) -> list[bytes] | None:
    if scan.keys is None:
        scan.keys = client.scan_iter(match=scan.pattern, count=SCAN_PAGE)
    page: list[bytes] = []
    async for key in scan.keys:
        page.append(key)
        if len(page) == SCAN_PAGE:
            break
    return page or None
