"""Event loops, closing, copies and forks: whose connections are open when, and that none is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver, SaverClosedError
from tests.build import Chain, config_of
from tests.waiting import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import redis

    from tests.servers import Backend


class Watch:
    """How many connections of a test are open: those with its prefix as their name."""

    def __init__(self, admin: redis.Redis, name: str) -> None:
        self._admin = admin
        self._name = name

    def count(self) -> int:
        """As the server sees it now."""
        clients: list[dict[str, Any]] = self._admin.client_list()
        return sum(one["name"] == self._name for one in clients)


@pytest.fixture
async def connections(real_backend: Backend, prefix: str) -> AsyncIterator[Watch]:
    """Counts the connections of a test; at the end there is none."""
    with real_backend.client() as admin:
        watch = Watch(admin, prefix)
        yield watch
        await eventually(lambda: watch.count() == 0)


def test_one_saver_serves_loop_after_loop(real_backend: Backend, prefix: str, connections: Watch) -> None:
    """As in tests, workers and notebooks; the connections of a loop are closed with it, without a warning."""
    saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix, client_name=prefix)
    copy = saver.with_allowlist([("a", "b")])

    async def use(step: int) -> None:
        await asyncio.gather(*(Chain(one, f"{step}").put({"a": step}) for one in (saver, copy)))
        assert connections.count() >= 1
        assert len([one async for one in saver.alist_threads()]) == step + 1

    for step in range(5):
        asyncio.run(use(step))
        assert connections.count() == 0

    async def end() -> None:
        for step in range(5):
            await saver.adelete_thread(str(step))
        await saver.aclose()
        await saver.aclose()
        assert connections.count() == 0
        with pytest.raises(SaverClosedError):
            await copy.aget_tuple(config_of("0"))

    asyncio.run(end())


@pytest.mark.usefixtures("connections")
def test_one_saver_serves_loops_in_several_threads_at_once(real_backend: Backend, prefix: str) -> None:
    """Each has connections of its own, and so has a thread that calls sync methods."""
    saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix, client_name=prefix)

    async def use(thread_id: str) -> None:
        chain = Chain(saver, thread_id)
        for step in range(20):
            await chain.put({"a": step})
            assert (await chain.latest()).checkpoint["channel_values"] == {"a": step}  # type: ignore[union-attr]
        await saver.adelete_thread(thread_id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda at: asyncio.run(use(str(at))), range(8)))
    asyncio.run(saver.aclose())


def test_closing_reaches_the_loops_of_other_threads(real_backend: Backend, prefix: str, connections: Watch) -> None:
    """While those still run."""
    saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix, client_name=prefix)
    used, over = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        await saver.aget_tuple(config_of("t"))
        used.set()
        await asyncio.to_thread(over.wait, 10)

    async def here() -> None:
        await asyncio.to_thread(used.wait, 10)
        await saver.aget_tuple(config_of("t"))
        assert connections.count() == 2
        await saver.aclose()
        assert connections.count() == 0
        over.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, elsewhere())
        asyncio.run(here())
        running.result()


def test_a_client_handed_in_belongs_to_one_loop_and_says_so(real_backend: Backend) -> None:
    """Unless its connections were closed before the loop ended. In a process of its own: what is left open warns at its end."""
    code = f"""
import asyncio
import redis.asyncio
from langgraph.checkpoint.fastredis import AsyncRedisSaver

client = redis.asyncio.Redis.from_url({real_backend.url!r})
saver = AsyncRedisSaver(client)

async def use(closing):
    await saver.aget_tuple({{"configurable": {{"thread_id": "t"}}}})
    if closing:
        await client.aclose()

for _ in range(3):
    asyncio.run(use(True))
asyncio.run(use(False))
try:
    asyncio.run(use(False))
except RuntimeError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "from_url" in run.stdout


async def test_calls_under_way_end_before_a_saver_is_closed(real_backend: Backend, prefix: str, connections: Watch) -> None:
    """They get their answers, later ones are refused, and no connection is opened again behind the closed door."""
    with real_backend.client() as admin:
        saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix, client_name=prefix)
        chain = Chain(saver, "t")
        await chain.put({"a": 1})
        admin.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        saves = [asyncio.create_task(saver.aput_writes(chain.config, [("a", at)], f"{at:02}")) for at in range(20)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(saver.aclose())
        await asyncio.sleep(0)
        assert not any(save.done() for save in saves)
        admin.execute_command("CLIENT", "UNPAUSE")
        await closing
        assert all(save.done() for save in saves)
        await asyncio.gather(*saves)
        with pytest.raises(SaverClosedError):
            await chain.put({"a": 2})
        assert connections.count() == 0
        sync = RedisSaver.from_url(real_backend.url, prefix=prefix, client_name=prefix)
        assert len(sync.get_tuple(chain.config).pending_writes) == 20  # type: ignore[union-attr, arg-type]
        admin.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        with ThreadPoolExecutor(9) as pool:
            more = [pool.submit(sync.put_writes, chain.config, [("a", at)], f"more {at}") for at in range(8)]
            await eventually(lambda: len(sync._link._calling) == 8)  # noqa: SLF001
            done = pool.submit(sync.close)
            await eventually(lambda: sync._link.is_closed)  # noqa: SLF001
            admin.execute_command("CLIENT", "UNPAUSE")
            done.result()
            for save in more:
                save.result(0)
        assert connections.count() == 0
        with pytest.raises(SaverClosedError):
            sync.delete_thread("t")
        RedisSaver(admin, prefix=prefix).delete_thread("t")


def test_a_signal_may_close_the_saver_in_the_middle_of_its_own_call(real_backend: Backend, prefix: str) -> None:
    """Where waiting for that call would wait for ever."""
    with real_backend.client() as admin, ThreadPoolExecutor(1) as pool:
        saver = RedisSaver.from_url(real_backend.url, prefix=prefix)
        saver.setup()

        def close_in_the_middle() -> None:
            wait_until(lambda: bool(saver._link._calling))  # noqa: SLF001
            os.kill(os.getpid(), signal.SIGALRM)

        previous = signal.signal(signal.SIGALRM, lambda *_: saver.close())
        try:
            admin.execute_command("CLIENT", "PAUSE", 500, "WRITE")
            began = time.monotonic()
            pool.submit(close_in_the_middle)
            with contextlib.suppress(RedisConnectionError):  # whose connection was closed under it, or it was made again
                saver.put(config_of("t"), Chain(saver).checkpoint("1"), {}, {})
        finally:
            signal.signal(signal.SIGALRM, previous)
        assert time.monotonic() - began < 4
        with pytest.raises(SaverClosedError):
            saver.get_tuple(config_of("t"))
        RedisSaver(admin, prefix=prefix).delete_thread("t")


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_fork_has_connections_of_its_own(real_backend: Backend, prefix: str, is_busy: bool) -> None:
    """Parent and child go on with one saver, and either may close it; also a fork in the middle of other threads' calls."""
    with RedisSaver.from_conn_string(real_backend.url, prefix=prefix) as saver:
        saver.put(config_of("parent"), Chain(saver).checkpoint("1"), {}, {})
        stop = threading.Event()

        def keep_busy() -> None:
            while not stop.is_set():
                saver.get_tuple(config_of("parent"))

        with ThreadPoolExecutor(2) as pool:
            running = [pool.submit(keep_busy) for _ in range(2 if is_busy else 0)]
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    saver.put(config_of("child"), Chain(saver).checkpoint("1"), {}, {})
                    status = 0 if saver.get_tuple(config_of("parent")) else 2
                    saver.close()
                finally:
                    os._exit(status)
            _, status = os.waitpid(child, 0)
            stop.set()
            for one in running:
                one.result()
        assert os.waitstatus_to_exitcode(status) == 0
        assert {thread.thread_id for thread in saver.list_threads()} == {"parent", "child"}
        for thread_id in ("parent", "child"):
            saver.delete_thread(thread_id)


def test_a_fork_has_event_loops_of_its_own(real_backend: Backend, prefix: str) -> None:
    """The async saver of the parent serves a loop of the child, and neither disturbs the other."""
    saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix)

    async def use(thread_id: str) -> None:
        await saver.aput(config_of(thread_id), Chain(saver).checkpoint("1"), {}, {})
        assert await saver.aget_tuple(config_of("parent")) is not None

    async def around(child: Callable[[], None]) -> None:
        await use("parent")
        child()
        await use("parent")
        assert {thread.thread_id async for thread in saver.alist_threads()} == {"parent", "child"}
        for thread_id in ("parent", "child"):
            await saver.adelete_thread(thread_id)
        await saver.aclose()

    def fork() -> None:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                # In a thread: a running loop comes along into a fork, and its thread can run no other.
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(asyncio.run, use("child")).result()
                    pool.submit(asyncio.run, saver.aclose()).result(20)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    asyncio.run(around(fork))


def test_sync_methods_are_refused_on_the_thread_of_any_loop(real_backend: Backend, prefix: str) -> None:
    """Not only of the one that was used last: it would stand still meanwhile."""
    saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix)
    used, over = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        await saver.aget_tuple(config_of("t"))
        used.set()
        await asyncio.to_thread(over.wait, 10)

    async def here() -> None:
        with pytest.raises(RuntimeError, match="await"):
            saver.get_tuple(config_of("t"))
        over.set()
        await saver.aclose()
        with pytest.raises(SaverClosedError):
            await asyncio.to_thread(saver.get_tuple, config_of("t"))

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, elsewhere())
        assert used.wait(10)
        assert saver.get_tuple(config_of("t")) is None
        asyncio.run(here())
        running.result()


async def test_a_close_that_is_cut_short_is_finished_by_another(prefix: str) -> None:
    """And two at once both return when all is closed: here a server, too."""
    saver = AsyncRedisSaver.from_url("embedded://", prefix=prefix)
    await saver.asetup()
    socket = Path(saver._link.client_here().connection_pool.connection_kwargs["path"])  # noqa: SLF001
    first = asyncio.create_task(saver.aclose())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    await asyncio.gather(saver.aclose(), saver.aclose())
    assert not socket.exists()


async def test_a_caller_that_gives_up_passes_its_turn_on(real_backend: Backend, prefix: str) -> None:
    """It was just told that there is a free connection: the next one who waits takes it."""
    async with AsyncRedisSaver.from_conn_string(real_backend.url, prefix=prefix, max_connections=1, timeout=2) as saver:

        async def first() -> None:
            await saver.aget_tuple(config_of("t"))
            second.cancel()  # in the same turn of the loop in which the connection became free, and second was told so

        await saver.aget_tuple(config_of("t"))
        running = asyncio.create_task(first())
        await asyncio.sleep(0)
        second, third = (asyncio.create_task(saver.aget_tuple(config_of("t"))) for _ in range(2))
        await running
        assert await third is None
        assert second.cancelled()


async def test_callers_that_give_up_leave_no_one_behind(real_backend: Backend, prefix: str) -> None:
    """However many do so in the same moment."""
    async with AsyncRedisSaver.from_conn_string(real_backend.url, prefix=prefix, max_connections=2, timeout=5) as saver:
        for at in range(50):
            calls = [asyncio.create_task(saver.aget_tuple(config_of("t"))) for _ in range(64)]
            for _ in range(at % 7):
                await asyncio.sleep(0)
            for call in calls[at % 3 :: 3]:
                call.cancel()
            found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10)
            assert {type(one) for one in found} <= {type(None), asyncio.CancelledError}
