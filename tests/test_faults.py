"""Faults at every command of every method: connections that end, servers that restart, late replies, callers that give up.

FAULTS=all in the environment, as `make faults` has it: on every real server, and in every combination. Without it, what depends
on the operation and hardly on the saver is tried with the sync one and the async one in turn.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from redis.connection import AbstractConnection
from redis.exceptions import TimeoutError as RedisTimeoutError

from langgraph.checkpoint.fastredis import RedisSaver
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from langgraph.checkpoint.fastredis.methods import SaverMethods
from tests import servers
from tests.build import config_of
from tests.conftest import KINDS
from tests.operations import OPERATIONS, Operation
from tests.proxy import Cut, Hold, Proxy, Stray, cut
from tests.trials import FAILED, REDIS_ERRORS, SIDES, GivesUp, given_up, outcome, trial
from tests.waiting import eventually
from tests.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.proxy import Connection

EVERYTHING = os.environ.get("FAULTS") == "all"
SERVERS = servers.REAL if EVERYTHING else servers.REAL[:1]
# Python 3.10 forgets a cancellation that comes as redis-py's command goes out, and does not count them.
SWALLOWS = sys.version_info < (3, 11)
# Older releases of redis-py repeat no more of this than the first step.
REPEATS_OPENING = hasattr(AbstractConnection, "connect_check_health")
BY_NAME = {one.name: one for one in OPERATIONS}
BY_METHOD = {one.method: one for one in reversed(OPERATIONS)}


def of(operations: Iterable[Operation]) -> pytest.MarkDecorator:
    """Runs a test for each of these operations."""
    return pytest.mark.parametrize("operation", operations, ids=lambda one: one.name.replace(" ", "-"))


def of_each(kinds: Callable[[int], Sequence[str]]) -> pytest.MarkDecorator:
    """Runs a test for each operation, on savers of the kinds that its number has."""
    pairs = [(kind, operation) for at, operation in enumerate(OPERATIONS) for kind in (KINDS if EVERYTHING else kinds(at))]
    ids = [f"{kind}-{operation.name.replace(' ', '-')}" for kind, operation in pairs]
    return pytest.mark.parametrize(("kind", "operation"), pairs, ids=ids)


on_both = of_each(lambda _: KINDS)
on_one_and_the_other = of_each(lambda at: KINDS[at % 2 :][:1])


def of_named(*names: str) -> pytest.MarkDecorator:
    """Runs a test for a few operations."""
    return of([BY_NAME[name] for name in names])


each_side = pytest.mark.parametrize("side", SIDES)
each_kind = pytest.mark.parametrize("kind", KINDS)
at_once_or_late = pytest.mark.parametrize("late", [False, True], ids=["at-once", "late"])


@pytest.fixture(scope="module", params=SERVERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The threads that are operated on."""
    with servers.backend(request.param).client() as client:
        world = World(client, "faults-" + os.urandom(8).hex())
        asyncio.run(world.build())
        yield world
        world.clear()


@pytest.fixture
def proxy(world: World) -> Iterator[Proxy]:
    """A proxy in front of the server."""
    with Proxy(world.client.connection_pool.connection_kwargs["path"]) as proxy:
        yield proxy


def test_every_public_method_is_tried() -> None:
    """Each has a row in the table."""
    methods = {name for name in vars(SaverMethods) if not name.startswith("_") and hasattr(SaverMethods, f"a{name}")}
    assert {one.method for one in OPERATIONS} == methods


@on_both
async def test_a_call_that_is_cut_off_raises_redis_own_error_and_can_be_repeated(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """At each of its commands, before or after the server has run it (D4)."""
    async with trial(world, proxy, operation, kind) as one:
        async for result in one.at_each_command(lambda: cut, fails=True):
            assert result is FAILED
            await one.assert_can_be_repeated()


@on_one_and_the_other
async def test_a_call_that_is_cut_off_succeeds_when_redis_py_repeats_commands(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """And what was sent first, and arrives when all is done, changes nothing."""
    strays: list[Stray] = []

    def stray() -> Stray:
        strays.append(Stray())
        return strays[-1]

    async with trial(world, proxy, operation, kind, 3) as one:
        async for result in one.at_each_command(stray):
            assert result == one.expected.result
            assert world.see() == one.expected.new
            strays[-1].release()
            await one.assert_still_done()


@on_one_and_the_other
async def test_a_command_may_be_cut_off_three_times(world: World, proxy: Proxy, operation: Operation, kind: str) -> None:
    """As often as the client repeats it."""
    async with trial(world, proxy, operation, kind, 3) as one:
        one.begin(1, "after", cut, times=3)
        await one.assert_done(await one.call())
        assert proxy.fired


@on_one_and_the_other
async def test_scripts_may_be_forgotten_before_each_command(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """I13: without a repetition by the client."""
    async with trial(world, proxy, operation, kind) as one:
        async for result in one.at_each_command(lambda: lambda _: world.client.script_flush(), sides=SIDES[:1]):
            await one.assert_done(result)


@on_one_and_the_other
async def test_a_server_that_comes_back_empty_is_an_error_once(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """I13, I14: it has lost all data, scripts and connections; the next call does what it does on an empty server."""
    empty = await outcome(world, operation, empty=True)
    async with trial(world, proxy, operation, kind) as one:
        async for result in one.at_each_command(lambda: partial(restart, world, proxy), fails=True):
            assert result is FAILED
            assert (await one.see()).content == {}
            assert await one.call() == empty.result
            assert await one.see() == empty.new


@on_one_and_the_other
async def test_a_call_outlives_a_server_that_comes_back_empty(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """Where the client repeats commands: it succeeds or says what is missing, and leaves nothing that cannot be read."""
    async with trial(world, proxy, operation, kind, 3) as one:
        async for _ in one.at_each_command(lambda: partial(restart, world, proxy)):
            await one.see()


def restart(world: World, proxy: Proxy, _connection: Connection) -> None:
    """Do as a server does that keeps nothing."""
    world.clear()
    world.client.script_flush()
    proxy.cut_all()


@each_side
@each_kind
async def test_a_server_that_is_killed_and_started_again_is_served_again(kind: str, side: str) -> None:
    """While it is away the caller gets Redis' own error."""
    with EmbeddedServer() as first, EmbeddedServer() as second, Proxy(first.socket) as proxy:
        stores = [servers.Backend("", {"unix_socket_path": one.socket}) for one in (first, second)]
        with stores[0].client() as client, stores[1].client() as other:
            world = World(client, f"killed-{kind}-{side}")
            await world.build()

            def kill(_connection: Connection) -> None:
                os.kill(first.pid, signal.SIGKILL)
                raise Cut

            operation = BY_NAME["put with values that are lost"]
            async with trial(world, proxy, operation, kind) as one:
                one.begin(2, side, kill)
                for _ in range(3):
                    with pytest.raises(REDIS_ERRORS):
                        await one.call()
                proxy.upstream = second.socket
                world.client = other
                assert await one.call() == one.expected.result
                assert len(list(RedisSaver(other, prefix=world.prefix).list(None))) == 1


@each_kind
@of_named("put on top", "get the latest")
async def test_connections_may_be_refused_for_a_while(world: World, proxy: Proxy, operation: Operation, kind: str) -> None:
    """Clients that we make try again for long enough."""
    back = threading.Event()

    def stay_away() -> None:
        with proxy.refusing():
            away.set()
            back.wait(0.1)

    away = threading.Event()

    def leave(_connection: Connection) -> None:
        staying_away.append(pool.submit(stay_away))
        away.wait(5)
        raise Cut

    staying_away: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        async with trial(world, proxy, operation, kind, None) as one:
            one.begin(1, "before", leave)
            await one.assert_done(await one.call())
        staying_away[0].result()


@each_kind
@of_named("put on top", "get the latest")
async def test_refused_connections_are_an_error_and_then_forgotten(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """Without repetitions."""
    async with trial(world, proxy, operation, kind) as one:
        one.begin()
        with proxy.refusing(), pytest.raises(REDIS_ERRORS):
            await one.call()
        await one.assert_can_be_repeated()


@each_side
@each_kind
@pytest.mark.parametrize("times", [0, 3])
@of_named("put on top", "get the latest")
async def test_a_connection_may_end_while_it_is_opened(
    world: World, proxy: Proxy, operation: Operation, kind: str, times: int, side: str
) -> None:
    """At each command by which redis-py opens it: an error or success, success where the client repeats."""
    for number in itertools.count(1):
        async with trial(world, proxy, operation, kind, times) as one:
            one.begin(number, side, cut, opening=True)
            with one.at(number, f"cut {side} opening command"):
                try:
                    await one.assert_done(await one.call())
                except REDIS_ERRORS:
                    assert not (times and REPEATS_OPENING)
                    await one.assert_can_be_repeated()
            if not proxy.fired:
                return


@each_kind
@of(BY_METHOD.values())
async def test_connections_that_ended_while_they_were_idle_are_opened_again(
    world: World, proxy: Proxy, operation: Operation, kind: str
) -> None:
    """Where the client repeats commands: redis-py's async one may notice only when it has sent something."""
    async with trial(world, proxy, operation, kind, 1) as one:
        one.begin()
        await one.call()
        proxy.cut_all()
        await eventually(proxy.is_quiet, pause=0.0005)
        one.begin()
        await one.assert_done(await one.call())


@each_kind
@of(OPERATIONS if EVERYTHING else BY_METHOD.values())
async def test_a_reply_that_comes_too_late_reaches_nobody(world: World, proxy: Proxy, operation: Operation, kind: str) -> None:
    """The client has repeated the command meanwhile, on another connection."""
    async with trial(world, proxy, operation, kind, 3, socket_timeout=0.1) as one:
        one.begin()
        await one.call()
        last = len(proxy.commands)
        for number in range(1 if EVERYTHING else last, last + 1):
            hold = Hold()
            one.begin(number, "after", hold)
            with one.at(number, "late reply to command"):
                assert await one.call() == one.expected.result
                assert world.see() == one.expected.new
                await one.assert_right_answers()
                hold.release()
                await one.assert_right_answers()
                await one.assert_still_done()


@each_side
@each_kind
@of_named("put on top", "get the latest", "list a few")
async def test_a_call_that_times_out_raises_redis_own_error_and_can_be_repeated(
    world: World, proxy: Proxy, operation: Operation, kind: str, side: str
) -> None:
    """Where the client does not repeat commands."""
    async with trial(world, proxy, operation, kind, socket_timeout=0.3) as one:
        hold = Hold()
        one.begin(1, side, hold)
        with pytest.raises(RedisTimeoutError):
            await one.call()
        await one.assert_right_answers()
        hold.release()
        await one.assert_right_answers()
        await one.assert_can_be_repeated()


async def turns() -> None:
    """Let those who have sent something come to wait for the reply (see `SWALLOWS`)."""
    for _ in range(5):
        await asyncio.sleep(0)


@of(OPERATIONS)
async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_old_state_or_the_new(
    world: World, proxy: Proxy, operation: Operation
) -> None:
    """E2: for the reply to each of its commands, before or after the server has run it. No reply reaches another caller."""
    async with trial(world, proxy, operation, "async", max_connections=2, timeout=5) as one:
        holds: list[Hold] = []

        def hold() -> Hold:
            holds.append(Hold())
            return holds[-1]

        async def call_and_cancel() -> Any:
            task = asyncio.create_task(one.call())
            await eventually(lambda: holds[-1].holds.is_set() or task.done(), pause=0.0005)
            await turns()
            task.cancel()
            return (await asyncio.gather(task, return_exceptions=True))[0]

        async for result in one.at_each_command(hold, call_and_cancel):
            assert isinstance(result, asyncio.CancelledError)
            holds[-1].release()
            await one.see()
            await one.assert_right_answers()
            await one.assert_can_be_repeated()


@of(OPERATIONS)
async def test_a_call_can_be_cancelled_at_every_await(world: World, proxy: Proxy, operation: Operation) -> None:
    """E2: on a pool of one connection, which is opened anew each time; at once, or when what it waits for has just come."""
    async with trial(world, proxy, operation, "async", max_connections=1, timeout=5) as one:
        for late in (False, True):
            for number in itertools.count(1):
                one.begin()
                call = GivesUp(one.call(), number, late=late)
                with one.at(number, "cancelled late at await" if late else "cancelled at await"):
                    try:
                        await one.assert_done(await asyncio.create_task(given_up(call)))
                    except asyncio.CancelledError:
                        await one.assert_can_be_repeated()
                    else:
                        if call.waited < number:
                            break
                        assert SWALLOWS, "it was cancelled, and went on"


@of(OPERATIONS)
async def test_a_call_that_is_cancelled_before_it_begins_sends_nothing(
    world: World, proxy: Proxy, operation: Operation
) -> None:
    """Its task never ran."""
    async with trial(world, proxy, operation, "async", max_connections=1, timeout=5) as one:
        one.begin()
        call = one.call()
        task = asyncio.create_task(call)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert proxy.commands == []
        await one.assert_can_be_repeated()


@at_once_or_late
@pytest.mark.parametrize("connections", [1, 2])
@of_named("get by id", "put on top")
async def test_callers_that_give_up_leave_the_others_their_turn(
    world: World, proxy: Proxy, operation: Operation, connections: int, late: bool
) -> None:
    """I15: 64 callers of a pool with one or two connections, half of them cancelled, at each await in turn."""
    async with trial(world, proxy, operation, "async", max_connections=connections, timeout=3) as one:
        for number in itertools.count(1):
            one.begin()
            calls = [GivesUp(one.call(), number + at % 5 if at % 2 else 0, late=late) for at in range(64)]
            tasks = [asyncio.create_task(given_up(call)) for call in calls]
            with one.at(number, "cancelled at await"):
                found = await asyncio.gather(*tasks, return_exceptions=True)
                assert [result for result in found[::2] if isinstance(result, BaseException)] == []
                cancelled = [result for result in found if isinstance(result, asyncio.CancelledError)]
                assert [result for result in found if result not in cancelled] == [one.expected.result] * (64 - len(cancelled))
                await one.assert_done(found[0])
                await one.assert_right_answers(8)
            if not cancelled:
                return


async def test_callers_that_give_up_while_all_connections_are_in_use_are_forgotten(world: World, proxy: Proxy) -> None:
    """I15: the connection goes to those who still wait."""
    async with trial(world, proxy, BY_NAME["get by id"], "async", max_connections=1, timeout=5) as one:
        hold = Hold()
        one.begin(1, "after", hold)
        first = asyncio.create_task(one.call())
        await eventually(hold.holds.is_set)
        waiting = [asyncio.create_task(one.call()) for _ in range(64)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        hold.release()
        assert await first == one.expected.result
        assert await asyncio.gather(*waiting[1::2]) == [one.expected.result] * 32
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*waiting[::2], return_exceptions=True)
        )
        await one.assert_right_answers(8)


@each_kind
async def test_64_callers_outlive_connections_that_end(world: World, proxy: Proxy, kind: str) -> None:
    """All four at once, with commands on their way; each caller gets the reply to what it asked."""
    async with trial(world, proxy, BY_NAME["list all threads"], kind, 3, max_connections=4) as one:
        one.begin(20, "after", lambda _: proxy.cut_all())
        places = [*world.see().tuples.items()] * 8
        if kind == "async":
            found = await asyncio.gather(*(one.saver.aget_tuple(config_of(*place)) for place, _ in places))
        else:
            with ThreadPoolExecutor(64) as pool:
                found = list(pool.map(lambda item: one.saver.get_tuple(config_of(*item[0])), places))
        assert found == [tuple_ for _, tuple_ in places]
        assert proxy.fired


async def test_a_cancelled_call_of_the_sync_saver_goes_on_in_its_thread(world: World, proxy: Proxy) -> None:
    """E2: as calls in threads do; it is whole, and in nobody's way."""
    async with trial(world, proxy, BY_NAME["put on top"], "sync") as one:
        hold = Hold()
        one.begin(1, "after", hold)
        task = asyncio.create_task(one.saver.saver.aput(*world.next["plain"]))
        await eventually(hold.holds.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await one.assert_right_answers()
        hold.release()
        await one.assert_can_be_repeated()
