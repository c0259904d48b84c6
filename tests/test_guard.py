"""`guard=`: of two runs that began at the same checkpoint, the second one to save is refused; without it both are kept."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command

from langgraph.checkpoint.fastredis import ConcurrentRunError, RedisSaver
from tests import agents
from tests.build import Chain, config_of, id_of, listed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from langchain_core.runnables import RunnableConfig

    from tests.conftest import Savers
    from tests.servers import Backend

GO = {"log": ["go"]}


class Worker:
    """A run: it reads a thread and saves on what it has read, all in one task, and so in one context."""

    def __init__(self, saver: Any, name: str, ns: str) -> None:
        self.name = name
        self.chain = Chain(saver, "t", ns)
        self._todo: asyncio.Queue[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = asyncio.Queue()

    async def work(self) -> None:
        """Do what it is told, until it is cancelled."""
        while True:
            call, done = await self._todo.get()
            try:
                done.set_result(await call())
            except ConcurrentRunError as error:
                done.set_exception(error)

    async def _do(self, call: Callable[[], Awaitable[Any]]) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._todo.put((call, done))
        return await done

    async def read(self, checkpoint_id: str | None = None) -> None:
        """Begin at the latest checkpoint, or at one that the user has named."""
        found = await self._do(lambda: self.chain.saver.aget_tuple(config_of("t", self.chain.ns, checkpoint_id)))
        if found:
            self.chain.config = found.config
            self.chain.versions = dict(found.checkpoint["channel_versions"])

    async def look(self, thread_id: str) -> None:
        """See what the latest checkpoint of a thread is, as `get_state` does."""
        await self._do(lambda: self.chain.saver.aget_tuple(config_of(thread_id, self.chain.ns)))

    async def put(self) -> Any:
        """Save the next checkpoint."""
        return await self._do(lambda: self.chain.put({"a": [self.name] * 20}, writer=self.name))

    async def write(self) -> None:
        """Save writes on the checkpoint that it has got to."""
        await self._do(lambda: self.chain.write(("a", self.name), task=f"task of {self.name}"))


@asynccontextmanager
async def workers(saver: Any, ns: str = "") -> AsyncIterator[tuple[Worker, Worker]]:
    """Two runs on one thread."""
    two = Worker(saver, "first", ns), Worker(saver, "second", ns)
    tasks = [asyncio.create_task(worker.work()) for worker in two]
    yield two
    for task in tasks:
        task.cancel()


async def whole(saver: Any, ns: str = "") -> list[tuple[str, str | None]]:
    """Of each checkpoint who has saved it, and who its parent; each has its value."""
    found = await listed(saver, config_of("t", ns))
    writers = {id_of(one.config): dict[str, Any](one.metadata).get("writer", "") for one in found}
    for one in found:
        assert one.checkpoint["channel_values"]["a"] == [writers[id_of(one.config)]] * 20
    parents = [writers[id_of(one.parent_config)] if one.parent_config else None for one in found]
    return sorted(zip(writers.values(), parents, strict=True), key=str)


@pytest.mark.parametrize("ns", ["", "child:1"])
async def test_without_a_guard_both_runs_are_kept_whole(make_saver: Savers, ns: str) -> None:
    """And the checkpoint with the larger id leads."""
    saver = make_saver()
    async with workers(saver, ns) as (first, second):
        await first.put()
        await first.read()
        await second.read()
        for worker in (first, second, first, second):
            await worker.put()
        assert await whole(saver, ns) == sorted(
            [("first", None), ("first", "first"), ("second", "first"), ("first", "first"), ("second", "second")], key=str
        )
        assert (await first.chain.latest()).config == second.chain.config  # type: ignore[union-attr]


@pytest.mark.parametrize("ns", ["", "child:1"])
@pytest.mark.parametrize("is_new", [True, False])
async def test_the_run_that_was_overtaken_is_refused(make_saver: Savers, ns: str, is_new: bool) -> None:
    """At its first checkpoint, and at writes on the one that it began at; the error names both. The other goes on."""
    saver = make_saver(guard=True)
    async with workers(saver, ns) as (first, second):
        if not is_new:
            await first.read()
            await first.put()
        for worker in (first, second):
            await worker.read()
        began_at = None if is_new else id_of(first.chain.config)
        await first.put()
        for _ in range(2):
            with pytest.raises(ConcurrentRunError, match="nothing was saved") as error:
                await second.put()
            assert (error.value.began_at, error.value.latest) == (began_at, id_of(first.chain.config))
            assert repr(began_at) in str(error.value)
            assert repr(error.value.latest) in str(error.value)
        if not is_new:
            with pytest.raises(ConcurrentRunError):
                await second.write()
        await first.write()
        await first.put()
        await first.write()
        assert {writer for writer, _ in await whole(saver, ns)} == {"first"}
        await second.read()
        await second.put()
        assert (await second.chain.latest()).config == second.chain.config  # type: ignore[union-attr]


async def test_a_run_is_not_refused_for_what_it_saved_itself(make_saver: Savers) -> None:
    """Writes arrive late, or before their checkpoint, and puts are repeated."""
    saver = make_saver(guard=True)
    async with workers(saver) as (run, _):
        await run.read()
        for _ in range(2):
            await run.put()
            await run.write()
        await run.read()
        head = run.chain.config
        ahead = run.chain.checkpoint()
        await saver.aput_writes(config_of("t", "", ahead["id"]), [("a", 1)], "task")
        await run.put()
        own = run.chain.config
        run.chain.config = head
        await run.write()
        run.chain.config = own
        await run.put()
        assert {writer for writer, _ in await whole(saver)} == {"first"}


async def test_forks_and_time_travel_go_on(make_saver: Savers) -> None:
    """A run that was sent to an older checkpoint saves on top of it, whatever else is saved meanwhile."""
    saver = make_saver(guard=True)
    async with workers(saver) as (first, second):
        await first.read()
        for _ in range(3):
            await first.put()
        oldest = id_of(first.chain.configs[0])
        await second.read(oldest)
        await second.read()  # as LangGraph does, to see whether the thread has moved on
        await second.read(oldest)
        await first.put()
        await second.put()
        await first.put()
        await second.put()
        assert len(await whole(saver)) == 7


async def test_who_names_the_checkpoint_it_was_refused_at_may_fork_from_it(make_saver: Savers) -> None:
    """As the error advises."""
    saver = make_saver(guard=True)
    async with workers(saver) as (first, second):
        await first.read()
        await first.put()
        await second.read()
        began_at = id_of(second.chain.config)
        await first.put()
        with pytest.raises(ConcurrentRunError):
            await second.put()
        await second.read(began_at)
        await second.put()
        assert len(await whole(saver)) == 3


async def test_a_run_may_look_around_before_it_saves(make_saver: Savers) -> None:
    """At its own thread, also once another has overtaken it, and at others: it is still the run that began where it did."""
    saver = make_saver(guard=True)
    await Chain(saver, "other").put({"a": [1] * 20})
    async with workers(saver) as (first, second):
        await first.read()
        await first.put()
        for worker in (first, second):
            await worker.read()
        await first.put()
        for thread_id in ("t", "other", "t"):
            await second.look(thread_id)
        with pytest.raises(ConcurrentRunError):
            await second.put()
        await first.look("t")
        await first.write()
        await first.put()
        assert {writer for writer, _ in await whole(saver)} == {"first"}
        await saver.adelete_thread("other")


async def test_what_other_threads_and_namespaces_do_does_not_matter(make_saver: Savers) -> None:
    """Only a newer checkpoint of the same namespace is in the way; nor is one that has only writes, or one deleted since."""
    saver = make_saver(guard=True)
    async with workers(saver) as (run, _):
        await run.read()
        await run.put()
        await run.read()
        await Chain(saver, "t", "child:1").put({"a": [1] * 20})
        await Chain(saver, "other").put({"a": [1] * 20})
        await saver.aput_writes(config_of("t", "", "~later"), [("a", 1)], "task")
        await run.put()
        await run.read()
        await saver.adelete_thread("t")
        await run.put()
        assert (await run.chain.latest()).config == run.chain.config  # type: ignore[union-attr]
        await saver.adelete_thread("other")


async def test_copies_of_a_saver_guard_as_one_and_other_savers_for_themselves(make_saver: Savers) -> None:
    """`compile` makes copies; another prefix, or a saver without the option, has nothing to do with it."""
    saver, free = make_saver(guard=True), make_saver()
    copy = saver.with_allowlist([("a", "b")])
    copy = copy if hasattr(copy, "aput") and make_saver.kind == "async" else type(saver)(copy)
    async with workers(saver) as (first, second):
        for worker in (first, second):
            await worker.read()
        await first.put()
        second.chain.saver = free
        await second.put()
        second.chain.saver = copy
        second.chain.config = config_of("t")
        with pytest.raises(ConcurrentRunError):
            await second.put()


class Meeting(RedisSaver):
    """A saver whose first two readers wait for each other, once they have read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.together: threading.Barrier | None = None

    def get_tuple(self, config: RunnableConfig) -> Any:
        """As it is, and then wait."""
        found = super().get_tuple(config)
        if self.together:
            self.together.wait(10)
        return found


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("resumed", [False, True])
async def test_of_two_agents_that_begin_together_one_finishes(
    real_backend: Backend, prefix: str, durability: Any, resumed: bool
) -> None:
    """The other's user gets the typed error, and the thread is as one run leaves it; afterwards it goes on as ever."""
    with real_backend.client() as client:
        saver = Meeting(client, prefix=prefix, guard=True)
        nodes = {"ask": agents.asks([], "ask", "which?"), "end": agents.says([], "end")}
        agent = agents.line(agents.Log, **nodes).compile(checkpointer=saver)
        config: Any = config_of("t")
        given: Any = GO
        if resumed:
            agent.invoke(GO, config)
            given = Command(resume="yes")
        saver.together = threading.Barrier(2)

        def run() -> Any:
            try:
                return agent.invoke(given, config, durability=durability)
            except ConcurrentRunError as error:
                return error

        outcomes = await asyncio.gather(asyncio.to_thread(run), asyncio.to_thread(run))
        saver.together = None
        refused = [one for one in outcomes if isinstance(one, ConcurrentRunError)]
        assert len(refused) == 1
        assert agent.get_state(config).values["log"][0] == "go"
        children: dict[str | None, int] = {}
        for found in saver.list(config_of("t", "")):
            parent = id_of(found.parent_config) if found.parent_config else None
            children[parent] = children.get(parent, 0) + 1
        assert set(children.values()) == {1}
        while agent.get_state(config).interrupts:
            agent.invoke(Command(resume="yes"), config, durability=durability)
        fork = [found.config for found in agent.get_state_history(config)][-2]
        agent.invoke(None, fork)
        agent.update_state(config, GO)
        saver.delete_thread("t")


async def test_the_guard_holds_for_async_methods_of_the_sync_saver(real_backend: Backend, prefix: str) -> None:
    """They run in threads, with a copy of the context."""
    with real_backend.client() as client:
        saver = RedisSaver(client, prefix=prefix, guard=True)
        async with workers(saver) as (first, second):
            for worker in (first, second):
                await worker.read()
            await first.put()
            with pytest.raises(ConcurrentRunError):
                await second.put()
        saver.delete_thread("t")
