"""The saver for async code."""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import redis.asyncio
from redis.asyncio.cluster import PipelineCommand
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from langgraph.checkpoint.fastredis.call import SCAN_PAGE, Call, Info, Operation, Request, Scan, Together, adrive, drive
from langgraph.checkpoint.fastredis.connect import ASYNC, connect
from langgraph.checkpoint.fastredis.link import AsyncLink, advise, check_client, running_loop
from langgraph.checkpoint.fastredis.methods import SaverMethods
from langgraph.checkpoint.fastredis.options import split
from langgraph.checkpoint.fastredis.wait import AT_NO_NODE, confirm

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from langgraph.checkpoint.fastredis.options import SaverOptions

R = TypeVar("R")
# What redis-py, or asyncio under it, stumbles on where a connection was closed while it was about to be used.
_WITHOUT_A_WRITER = (AttributeError, TypeError)


class AsyncRedisSaver(SaverMethods):
    """Stores LangGraph checkpoints in a Redis or Valkey server, with core commands only, from async code.

    Can be made with or without a running event loop. Made from a URL it serves any number of event loops, one after the
    other or at once; each has connections of its own, which are closed with it. Its sync methods work from other threads than
    the loop's own, where they would wait for themselves and refuse.

    Args:
        client: Any client of `redis.asyncio`, `Redis` or `RedisCluster`, that does not decode replies. The saver never
            closes it.
        options: As for `RedisSaver`.

    Raises:
        TypeError: the client is a sync one, or the unit of `ttl` is not clear.
        ValueError: the client decodes replies, `ttl` is not positive, or the client's `socket_timeout` ends before `wait` does.
    """

    def __init__(self, client: redis.asyncio.Redis | redis.asyncio.RedisCluster, **options: Unpack[SaverOptions]) -> None:
        super().__init__(**options)
        check_client(client, self._terms.wait, asynchronous=True)
        self._link = AsyncLink(client)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Make a saver with a client of its own, to be closed with `aclose()`. Arguments as for `RedisSaver.from_url`."""
        own, client_options = split(options)
        way = connect(url, ASYNC, client_options, read_only=own.get("read_only", False))
        try:
            client = way.make()
            saver = cls(client, **own)
        except BaseException:
            if way.server:
                way.server.close()
            raise
        saver._link = AsyncLink(client, way)
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
        """Close what the saver has opened: its clients, and an embedded server. A client handed in stays open.

        Waits a few seconds for calls under way; new ones are refused. (Connections of an event loop that is neither closed nor
        running cannot be closed here: they go with the loop.)
        """
        await self._link.aclose()

    async def _arun(self, operation: Operation[R]) -> R:
        return await adrive(operation, self._asend)

    def _run(self, operation: Operation[R]) -> R:
        loop = self._loop_elsewhere()

        def send(request: Request) -> Any:
            home = loop
            if isinstance(request, Scan):
                request.home = home = request.home or loop
            return _wait(asyncio.run_coroutine_threadsafe(self._asend(request), home), home)

        return drive(operation, send)

    def _loop_elsewhere(self) -> asyncio.AbstractEventLoop:
        """The loop that the client lives on, if this thread may wait for it."""
        self._link.check_open()
        if running_loop():
            message = (
                "a sync method of AsyncRedisSaver was called on an event loop's own thread, which would wait for itself;"
                " await the async method of the same name with an `a` in front (in a graph: `ainvoke`, `aget_state`, …)"
            )
            raise RuntimeError(message)
        loop = self._link.loop
        if loop is None or not loop.is_running():
            message = "the sync methods of AsyncRedisSaver need its event loop to run in another thread; use RedisSaver"
            raise RuntimeError(message)
        return loop

    async def _asend(self, request: Request) -> Any:
        try:
            wait = self._terms.wait_for(request)
            if wait and isinstance(request, Call):
                return await adrive(confirm(request, wait), self._aperform)
            return await self._aperform(request)
        except RedisConnectionError as error:
            advise(error)
            raise

    async def _aperform(self, request: Request) -> Any:
        make = (_read if self._terms.read_only else _evaluate) if isinstance(request, Call) else _OTHERS[type(request)]
        try:
            return await self._link.send(make, request)
        except _WITHOUT_A_WRITER as error:
            if not isinstance(self._link.client_here(), redis.asyncio.RedisCluster):
                raise
            raise _closed_by_the_client() from error


def _wait(future: concurrent.futures.Future[Any], loop: asyncio.AbstractEventLoop) -> Any:
    """The result of what a loop in another thread does; a loop that has ended would never bring it."""
    while True:
        done, _ = concurrent.futures.wait([future], timeout=0.5)
        if done and not future.cancelled():
            return future.result()
        if done or not loop.is_running():
            future.cancel()
            message = "the event loop of this AsyncRedisSaver ended while a sync method waited for it"
            raise RuntimeError(message)


def _evaluate(call: Call, client: Any) -> Any:
    return _run_script(call, client.evalsha, client.eval)


def _read(call: Call, client: Any) -> Any:
    return _run_script(call, client.evalsha_ro, client.eval_ro)


async def _run_script(call: Call, run_known: Callable[..., Any], run_sent: Callable[..., Any]) -> Any:
    count = len(call.keys)
    try:
        return await run_known(call.script.sha, count, *call.keys, *call.arguments)
    except NoScriptError:
        return await run_sent(call.script.source, count, *call.keys, *call.arguments)


async def _together(request: Together, client: Any) -> list[Any]:
    if isinstance(client, redis.asyncio.RedisCluster):
        return await _together_in_cluster(request, client)
    pipeline = client.pipeline(transaction=False)
    for command in request.commands:
        pipeline.execute_command(*command)
    replies: list[Any] = await pipeline.execute(raise_on_error=False)
    return replies


async def _together_in_cluster(request: Together, client: Any) -> list[Any]:
    commands = [PipelineCommand(at, *command) for at, command in enumerate(request.commands)]
    try:
        await client.initialize()
        await client.get_node_from_key(request.key).execute_pipeline(commands)
    except AT_NO_NODE as error:
        return [error]
    except _WITHOUT_A_WRITER:
        return [_closed_by_the_client()]
    return [command.result for command in commands]


def _closed_by_the_client() -> RedisConnectionError:
    """The error for a connection without a writer.

    redis-py's cluster client closes all its connections when the cluster is down for a moment, also those that other tasks are
    about to write to.
    """
    return RedisConnectionError("the client closed the connection that the call was to use")


async def _scan(scan: Scan, client: Any) -> list[bytes] | None:
    if scan.keys is None:
        scan.keys = client.scan_iter(match=scan.pattern, count=SCAN_PAGE)
    page: list[bytes] = []
    async for key in scan.keys:
        page.append(key)
        if len(page) == SCAN_PAGE:
            break
    return page or None


async def _info(_request: Info, client: Any) -> Any:
    try:
        return await client.info()
    except ResponseError:
        return {}


_OTHERS: dict[type[Request], Any] = {Scan: _scan, Together: _together, Info: _info}
