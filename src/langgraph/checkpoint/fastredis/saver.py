"""The saver for sync code."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError

from langgraph.checkpoint.fastredis.call import SCAN_PAGE, Call, Info, Operation, Request, Scan, Together, drive
from langgraph.checkpoint.fastredis.connect import SYNC, connect
from langgraph.checkpoint.fastredis.link import Link, advise, check_client
from langgraph.checkpoint.fastredis.methods import SaverMethods
from langgraph.checkpoint.fastredis.options import split
from langgraph.checkpoint.fastredis.wait import AT_NO_NODE, confirm

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from langgraph.checkpoint.fastredis.options import SaverOptions

R = TypeVar("R")


class RedisSaver(SaverMethods):
    """Stores LangGraph checkpoints in a Redis or Valkey server, with core commands only.

    Thread-safe, as redis-py's clients are. Its async methods run the sync ones in a thread.

    Args:
        client: Any redis-py client, `redis.Redis` or `redis.RedisCluster`, that does not decode replies. The saver never
            closes it.
        options: `prefix`, `ttl`, `serde`, `wait`, `guard`, `read_only`: see `SaverOptions`.

    Raises:
        TypeError: the client is an async one, or the unit of `ttl` is not clear.
        ValueError: the client decodes replies, `ttl` is not positive, or the client's `socket_timeout` ends before `wait` does.
    """

    def __init__(self, client: redis.Redis | redis.RedisCluster, **options: Unpack[SaverOptions]) -> None:
        super().__init__(**options)
        check_client(client, self._terms.wait, asynchronous=False)
        self._link = Link(client)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Make a saver with a client of its own, to be closed with `close()`.

        Args:
            url: `redis://`, `rediss://`, `unix://`, `valkey://`, `valkeys://`, `redis+cluster://host:port,host:port`,
                `redis+sentinel://host:port,host:port/service/db`, or `embedded://` for a private throw-away server.
            options: Those of the class, and others for redis-py's client: `max_connections`, `socket_timeout`, `retry`, …; with
                sentinels, what they want themselves as `sentinel_kwargs`. With `read_only`, a cluster's or sentinels' replicas
                are read from.

        Raises:
            ValueError: the URL cannot be read.
            TypeError: there is no such option.
            ImportError: `embedded://` without the extra that brings a server.
        """
        own, client_options = split(options)
        way = connect(url, SYNC, client_options, read_only=own.get("read_only", False))
        with ExitStack() as undo:
            if way.server:
                undo.callback(way.server.close)
            client = way.make()
            undo.callback(client.close)
            saver = cls(client, **own)
            undo.pop_all()
        saver._link = Link(client, way)
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
        """Close what the saver has opened: its client, and an embedded server. A client handed in stays open.

        Waits a few seconds for calls under way in other threads; new ones are refused.
        """
        self._link.close()

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
        try:
            wait = self._terms.wait_for(request)
            if wait and isinstance(request, Call):
                return drive(confirm(request, wait), self._perform)
            return self._perform(request)
        except RedisConnectionError as error:
            advise(error)
            raise

    def _perform(self, request: Request) -> Any:
        if isinstance(request, Call):
            return self._link.send(_read if self._terms.read_only else _evaluate, request)
        return self._link.send(_OTHERS[type(request)], request)


def _evaluate(call: Call, client: Any) -> Any:
    return _run_script(call, client.evalsha, client.eval)


def _read(call: Call, client: Any) -> Any:
    return _run_script(call, client.evalsha_ro, client.eval_ro)


def _run_script(call: Call, run_known: Callable[..., Any], run_sent: Callable[..., Any]) -> Any:
    count = len(call.keys)
    try:
        return run_known(call.script.sha, count, *call.keys, *call.arguments)
    except NoScriptError:
        return run_sent(call.script.source, count, *call.keys, *call.arguments)


def _together(request: Together, client: Any) -> list[Any]:
    if isinstance(client, redis.RedisCluster):
        return _together_in_cluster(request, client)
    pipeline = client.pipeline(transaction=False)
    for command in request.commands:
        pipeline.execute_command(*command)
    replies: list[Any] = pipeline.execute(raise_on_error=False)
    return replies


def _together_in_cluster(request: Together, client: Any) -> list[Any]:
    try:
        return _together(request, client.get_redis_connection(client.get_node_from_key(request.key)))
    except AT_NO_NODE as error:
        return [error]


def _scan(scan: Scan, client: Any) -> list[bytes] | None:
    if scan.keys is None:
        scan.keys = client.scan_iter(match=scan.pattern, count=SCAN_PAGE)
    return list(islice(scan.keys, SCAN_PAGE)) or None


def _info(_request: Info, client: Any) -> Any:
    try:
        return client.info()
    except ResponseError:
        return {}


_OTHERS: dict[type[Request], Any] = {Scan: _scan, Together: _together, Info: _info}
