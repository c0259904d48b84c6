"""Trials: an operation on a saver behind a proxy, compared with the same one that nothing disturbs."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import redis.asyncio.retry
import redis.backoff
import redis.retry
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from langgraph.checkpoint.fastredis import AsyncRedisSaver, FastRedisError, RedisSaver
from tests.build import config_of
from tests.shapes import AsyncShape
from tests.waiting import eventually
from tests.world import Place, Seen, World, assert_outlived

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence

    from tests.operations import Operation
    from tests.proxy import Action, Proxy

REDIS_ERRORS = (RedisConnectionError, RedisTimeoutError)
SIDES = ("before", "after")
FAILED = object()


@dataclass(frozen=True)
class Outcome:
    """What an operation does when nothing disturbs it."""

    old: Seen
    new: Seen
    result: Any


class Trial:
    """An operation, on a saver behind a proxy, compared with the same one without any fault."""

    def __init__(self, world: World, proxy: Proxy, operation: Operation, saver: Any, expected: Outcome) -> None:
        self.world = world
        self.proxy = proxy
        self.operation = operation
        self.saver = saver
        self.expected = expected

    async def call(self) -> Any:
        """Call the method; an error of ours is a result like another."""
        return await perform(self.operation, self.saver, self.world)

    def begin(self, number: int = 0, side: str = "", action: Action | None = None, **options: Any) -> None:
        """Have the old state, and something happen at a command, if at all; other arguments as for `Proxy.arm`."""
        self.world.reset(self.operation.threads)
        before, after = (action, None) if side == "before" else (None, action)
        self.proxy.arm(number, before=before, after=after, **options)

    async def see(self) -> Seen:
        """The state once everything that was sent has been answered."""
        await eventually(self.proxy.is_quiet, pause=0.0005)
        return self.world.see()

    async def assert_done(self, result: Any) -> None:
        """All is as if nothing had happened."""
        assert result == self.expected.result
        assert await self.see() == self.expected.new

    async def assert_still_done(self) -> None:
        """The same, whatever arrived late; of the deadlines, that none is too early."""
        seen = await self.see()
        if seen != self.expected.new:
            assert self.operation.moves
            assert replace(seen, left=self.expected.new.left) == self.expected.new
            assert_outlived(seen)

    async def assert_right_answers(self, times: int = 1) -> None:
        """Many reads at once, each of its own checkpoint, bring what they asked for."""
        expected: dict[Any, Any] = dict(self.world.see().tuples)
        expected[Place("unknown", "", "1")] = None
        places = [*expected] * times
        found = await asyncio.gather(*(self.saver.aget_tuple(config_of(*place)) for place in places))
        assert dict(zip(places, found, strict=True)) == expected

    async def assert_can_be_repeated(self) -> None:
        """The state is one that may be left behind, and another call does the rest."""
        self.operation.check(await self.see(), self.expected.old, self.expected.new)
        self.proxy.arm(0)
        await self.assert_done(await self.call())

    async def at_each_command(
        self,
        action: Callable[[], Action],
        call: Callable[[], Awaitable[Any]] | None = None,
        *,
        sides: Sequence[str] = SIDES,
        fails: bool = False,
    ) -> AsyncIterator[Any]:
        """Call, again and again, with an action before or after the first command, the second and so on to the last.

        Args:
            action: Makes a new one for each call.
            call: What to do instead of calling.
            sides: Before the command, or after it.
            fails: Whether the call may fail because of the action; the result is `FAILED` then.

        Yields:
            The result, for the body of the loop to look at.
        """
        for side in sides:
            for number in itertools.count(1):
                self.begin(number, side, action())
                with self.at(number, f"something {side} command"):
                    try:
                        result = await (call or self.call)()
                    except REDIS_ERRORS:
                        assert fails
                        result = FAILED
                    if not self.proxy.fired:
                        await self.assert_done(result)
                        break
                    yield result

    @contextmanager
    def at(self, number: int, what: str) -> Iterator[None]:
        """Says in a failure where it came to pass."""
        try:
            yield
        except AssertionError as error:
            message = f"{what} {number} of {self.proxy.commands}: {error}"
            raise AssertionError(message) from error


async def perform(operation: Operation, saver: Any, world: World) -> Any:
    with operation.pages():
        try:
            return await operation.call(saver, world)
        except (FastRedisError, RuntimeError) as error:
            return type(error)


_outcomes: dict[tuple[str, str, bool], Outcome] = {}


async def outcome(world: World, operation: Operation, *, empty: bool = False) -> Outcome:
    """What an operation does to its threads, or to an empty server."""
    key = world.prefix, operation.name, empty
    if key not in _outcomes:
        world.reset(() if empty else operation.threads)
        old = world.see()
        saver: Any = AsyncShape(RedisSaver(world.client, prefix=world.prefix, **operation.options))
        result = await perform(operation, saver, world)
        _outcomes[key] = Outcome(old, world.see(), result)
    return _outcomes[key]


def retries(kind: str, times: int) -> Any:
    """How often redis-py repeats a command."""
    backoff = redis.backoff.ExponentialBackoff(cap=0.01, base=0.001)
    return (redis.retry if kind == "sync" else redis.asyncio.retry).Retry(backoff, times)


@asynccontextmanager
async def trial(
    world: World, proxy: Proxy, operation: Operation, kind: str, times: int | None = 0, **client_options: Any
) -> AsyncIterator[Trial]:
    """A trial of a saver of this kind, whose client repeats a command so many times; `None`: as clients that we make do."""
    expected = await outcome(world, operation)
    options = {"prefix": world.prefix, **operation.options, **client_options}
    if times is not None:
        # Before redis-py 6 commands are repeated only after errors that are named.
        options |= {"retry": retries(kind, times), "retry_on_error": [*REDIS_ERRORS] if times else []}
    if kind == "sync":
        with RedisSaver.from_url(f"unix://{proxy.path}", **options) as saver:
            yield Trial(world, proxy, operation, AsyncShape(saver), expected)
    else:
        async with AsyncRedisSaver.from_url(f"unix://{proxy.path}", **options) as asaver:
            yield Trial(world, proxy, operation, asaver, expected)


class GivesUp:
    """A call that is cancelled where it waits for the n-th time: at once, or when what it waits for has just come."""

    def __init__(self, call: Coroutine[Any, Any, Any], number: int, *, late: bool) -> None:
        self._call = call
        self._number = number
        self._late = late
        self.waited = 0
        """How often it has waited."""

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run it, as a part of a task of its own."""
        steps = self._call.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                waits_for = go_on()
            except StopIteration as end:
                return end.value
            self.waited += 1
            if self.waited == self._number:
                self._give_up(waits_for)
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 it is for the call
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(next, steps)

    def _give_up(self, waits_for: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and waits_for is not None:
            waits_for.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


async def given_up(call: GivesUp) -> Any:
    """What to make a task of."""
    return await call
