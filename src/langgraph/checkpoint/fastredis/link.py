"""What a saver and its copies share: the way to the server, whose clients those are, and whether it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis.errors import SaverClosedError
from langgraph.checkpoint.fastredis.turns import AsyncTurns, Turns

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from redis.exceptions import ConnectionError as RedisConnectionError

    from langgraph.checkpoint.fastredis.connect import Way
    from langgraph.checkpoint.fastredis.wait import Wait

# Seconds that closing waits for calls under way: more than they should take, less than a program may take to end.
_PATIENCE = 5.0
_PAUSE = 0.005
_FORGETS_CANCELLATIONS = sys.version_info[:2] == (3, 11)
_ADVICE = {
    # A class of its own only from redis-py 6 on.
    ("Too many connections",): (
        "Give the client a BlockingConnectionPool, which waits for a free one, or let the saver make it: from_url does"
    ),
    ("No connection available",): "All were in use for too long; raise max_connections, or the time-out of the pool",
    ("while writing to socket", "reset by peer"): (
        "A server hangs up when it is stopped, and on a value larger than its proto-max-bulk-len, 512 MB by default"
    ),
    ("onnecting to", "Connection closed", "invalid username-password", "Authentication"): (
        "Is the server running, and are host, port, user and password right?"
    ),
}
_CLOSED = "this saver is closed; use it inside its `with` block, or make a new one"


@dataclass(slots=True)
class Link:
    """A sync saver's way to its server."""

    client: Any
    way: Way | None = None
    """How the client was made, if it is the saver's own."""
    is_closed: bool = False
    _calling: set[int] = field(default_factory=set[int])
    """The threads with a call under way."""
    _owner: int = field(default_factory=os.getpid)
    _turns: Turns | None = None

    def __post_init__(self) -> None:
        """Have calls wait where the client's pools do not."""
        if self.way and self.way.limit:
            self._turns = Turns(self.way.limit)

    def send(self, make: Callable[[Any, Any], Any], request: Any) -> Any:
        """Make a request of the client: `make` it.

        Raises:
            SaverClosedError: the saver was closed.
        """
        caller = threading.get_ident()
        self._calling.add(caller)
        try:
            if self.is_closed:
                raise SaverClosedError(_CLOSED)
            if self._turns is None:
                return make(request, self.client)
            with self._turns:
                return make(request, self.client)
        finally:
            self._calling.discard(caller)

    def close(self) -> None:
        """Close what is owned, once the calls under way have ended: they would open connections again that nobody closes."""
        if not self.way:
            return
        self.is_closed = True
        deadline = time.monotonic() + _PATIENCE
        while self._others_are_calling() and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        try:
            for client in _with_sentinels(self.client):
                client.close()
        finally:
            if self.way.server:
                self.way.server.close()

    def _others_are_calling(self) -> bool:
        """Not this thread, which a signal may have brought here from a call; nor one that did not come along into a fork."""
        if self._owner != os.getpid():
            return False
        alive = {thread.ident for thread in threading.enumerate()}
        return bool(self._calling & alive - {threading.get_ident()})


class AsyncLink:
    """An async saver's way to its server: connections belong to an event loop, so each loop has a client of its own.

    A client handed in cannot be made again: it is used on whatever loop there is.
    """

    def __init__(self, first: Any, way: Way | None = None) -> None:
        self._unused = first
        self._way = way
        self._has_moved = False
        self._at_loops: dict[asyncio.AbstractEventLoop, _AtLoop] = {}
        self._settling = threading.Lock()
        self.is_closed = False
        self.loop = running_loop()
        """The loop that was used last: sync methods called in other threads are run there."""

    def check_open(self) -> None:
        """Refuse what comes too late.

        Raises:
            SaverClosedError: the saver was closed.
        """
        if self.is_closed:
            raise SaverClosedError(_CLOSED)

    async def send(self, make: Callable[[Any, Any], Any], request: Any) -> Any:
        """Make a request of the running loop's client, and await it.

        Raises:
            SaverClosedError: the saver was closed.
            RuntimeError: a client that was handed in belongs to another loop.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        self.loop = loop
        here = self._at_loops.get(loop) or await self._settle(loop)
        here.calling += 1
        cancelled = _cancellations()
        try:
            if here.turns is None:
                reply = await make(request, here.client)
            else:
                async with here.turns:
                    reply = await make(request, here.client)
        except RuntimeError as error:
            if self._way is None and self._has_moved:
                _advise_about_loops(error)
            raise
        finally:
            here.leave()
        if _cancellations() > cancelled:
            raise asyncio.CancelledError
        return reply

    def client_here(self) -> Any:
        """The running loop's client, if it has one: from the first call until it is closed."""
        here = self._at_loops.get(asyncio.get_running_loop())
        return here and here.client

    async def _settle(self, loop: asyncio.AbstractEventLoop) -> _AtLoop:
        """Have a client for a loop that has none yet."""
        with self._settling:  # Loops in several threads may come here at once, and one may close the saver meanwhile.
            self.check_open()
            for other in [one for one in self._at_loops if one.is_closed()]:
                del self._at_loops[other]
                self._has_moved = True
            here = _AtLoop(self._unused if self._way is None else self._unused or self._way.make())
            if self._way:
                self._unused = None
                here.turns = AsyncTurns(self._way.limit) if self._way.limit else None
                here.end = self._until_the_loop_ends(here, loop)
            self._at_loops[loop] = here
        if here.end:
            await anext(here.end)
        return here

    async def _until_the_loop_ends(self, here: _AtLoop, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Close a client with its loop: `asyncio.run` and its like end the generators that were begun on a loop before it."""
        try:
            yield
        finally:
            await here.close_client()
            self._at_loops.pop(loop, None)

    async def aclose(self) -> None:
        """Close what is owned, once the calls under way have ended: they would open connections again that nobody closes.

        Cut short, it can be repeated.
        """
        if self._way is None:
            return
        with self._settling:
            self.is_closed = True
            at_loops = [*self._at_loops.items()]
        try:
            for loop, here in at_loops:
                await (here.close() if loop is asyncio.get_running_loop() else here.close_elsewhere(loop))
            self._at_loops.clear()
        finally:
            if self._way.server:
                await _apart(self._way.server.close)


@dataclass(slots=True)
class _AtLoop:
    """A client on the loop that it is used on."""

    client: Any
    turns: AsyncTurns | None = None
    calling: int = 0
    """How many calls are under way."""
    end: AsyncGenerator[None] | None = None
    """Closes the client when it is closed itself, or when the loop ends."""
    owner: int = field(default_factory=os.getpid)
    """The process whose loop it is: a loop that came along into a fork seems to run for ever."""
    _is_idle: asyncio.Event | None = None

    def leave(self) -> None:
        """A call has ended."""
        self.calling -= 1
        if self._is_idle and not self.calling:
            self._is_idle.set()

    async def close(self) -> None:
        """Close the client, if it is ours, once the calls under way have ended, or patience has."""
        if self.calling:
            self._is_idle = self._is_idle or asyncio.Event()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._is_idle.wait(), _PATIENCE)
        await self.close_client()
        if self.end:
            with contextlib.suppress(RuntimeError):  # It is running: its loop is just closing it.
                await self.end.aclose()

    async def close_client(self) -> None:
        """Close its connections; cut short, it can be repeated."""
        for client in _with_sentinels(self.client):
            await client.aclose()

    async def close_elsewhere(self, loop: asyncio.AbstractEventLoop) -> None:
        """The same on a loop that another thread runs, as long as it does; nothing, on one that came along into a fork."""
        if self.owner != os.getpid() or not loop.is_running():
            return
        closing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), loop))
        deadline = time.monotonic() + 2 * _PATIENCE
        while loop.is_running() and time.monotonic() < deadline:
            done, _ = await asyncio.wait([closing], timeout=0.1)  # raises nothing of what becomes of it there
            if done:
                return


async def _apart(close: Callable[[], None]) -> None:
    """Run what takes a moment in a thread; at the end of the interpreter, when there are no more threads, here."""
    try:
        await asyncio.to_thread(close)
    except RuntimeError:
        close()


def _cancellations() -> int:
    """How often the running task was told to give up, in Python 3.11.

    There `asyncio.wait_for`, in which redis-py sends, forgets a cancellation that comes as its wait ends; in 3.10 too, but
    that does not count them.
    """
    task: Any = asyncio.current_task() if _FORGETS_CANCELLATIONS else None
    return int(task.cancelling()) if task else 0


def _with_sentinels(client: Any) -> list[Any]:
    """A client, and those through which it asks sentinels: they have connections of their own, which it does not close."""
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return [client, *(manager.sentinels if manager else ())]


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def check_client(client: Any, wait: Wait | None, *, asynchronous: bool) -> None:
    """Refuse a client that cannot work, before it is used.

    Raises:
        TypeError: it is of the other kind, sync or async.
        ValueError: it decodes replies to text, or gives up before what it waits for may have come.
    """
    if inspect.iscoroutinefunction(client.execute_command) is not asynchronous:
        wanted, other = ("redis.asyncio", "RedisSaver") if asynchronous else ("redis", "AsyncRedisSaver")
        message = f"this saver needs a client of the package `{wanted}`, not {type(client)!r}; that one may suit {other}"
        raise TypeError(message)
    if client.get_encoder().decode_responses:
        message = "the client has decode_responses=True, which turns stored bytes into text; make one for the saver without it"
        raise ValueError(message)
    patience = client.get_connection_kwargs().get("socket_timeout")
    if wait and patience and patience <= wait.timeout.total_seconds():
        message = f"the client gives up after {patience} s (its socket_timeout), before {wait} does; give it more time"
        raise ValueError(message)


def advise(error: RedisConnectionError) -> None:
    """Say in Redis' own error what to do about it; its type and what it said stay."""
    said = str(error)
    for words, advice in _ADVICE.items():
        if any(word in said for word in words):
            error.args = (f"{said.rstrip('.')}. {advice}",)
            return


def _advise_about_loops(error: RuntimeError) -> None:
    advice = (
        "The connections of an async client belong to the event loop that they were opened on, and this saver's client was used"
        " on another one before: make the saver with from_url, which has a client for each loop, or close the client's"
        " connections (aclose) before a loop ends"
    )
    error.args = (f"{error}. {advice}",)
