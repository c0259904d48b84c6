"""Drives agents: a thread of one, through `invoke` or `ainvoke` alike; and twins, on our saver and on `InMemorySaver`.

After each step the twins must agree in all that can be seen: the state, with those of subgraphs; the history; every stored
checkpoint of every namespace, with its pending writes; and how often each node has run. What differs from run to run, ids and
times, is named by the order in which it appears, or left out.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, StateSnapshot

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests import servers
from tests.names import Names, by_namespace, first_difference, id_of, without_parent
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from tests.agents import Agent
    from tests.conftest import Savers

Given: TypeAlias = Any
"""What a graph is invoked with, or a function of the state that returns it."""
At: TypeAlias = "int | Callable[[StateSnapshot], RunnableConfig] | None"

DURABILITIES = ("sync", "async", "exit")
on_one_server = pytest.mark.parametrize("backend", [servers.REAL[0]], indirect=True)
everywhere_and_in_each_durability = pytest.mark.parametrize(
    ("backend", "durability"),
    [*((servers.REAL[0], durability) for durability in DURABILITIES), *((name, "async") for name in servers.ALL[1:])],
    indirect=["backend"],
)
"""Each durability on one server, the default one on the others."""


def raw_saver(make_saver: Savers, **options: Any) -> BaseCheckpointSaver[Any]:
    """A saver of the test's kind that a graph can be compiled with."""
    return make_saver.sync(**options) if make_saver.kind == "sync" else make_saver.asynchronous(**options)


@asynccontextmanager
async def saver_with_own_client(make_saver: Savers) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """The same, with a client of its own making."""
    url, prefix = make_saver.backend.url, make_saver.prefix
    if make_saver.kind == "sync":
        with RedisSaver.from_url(url, prefix=prefix) as saver:
            yield saver
    else:
        async with AsyncRedisSaver.from_url(url, prefix=prefix) as asynchronous:
            yield asynchronous


class Thread:
    """One thread of a compiled agent.

    Where a method takes `at`, it is a position in the history, counted from the oldest checkpoint, 0; or a function of the
    state that returns a config. Without it the latest checkpoint is meant.
    """

    def __init__(
        self,
        agent: Agent,
        saver: BaseCheckpointSaver[Any],
        kind: str,
        *,
        thread_id: str = "t",
        runs: list[str] | None = None,
        **compiled: Any,
    ) -> None:
        self.runs: list[str] = [] if runs is None else runs
        self.agent = agent
        self.saver = saver
        self.kind = kind
        self.compiled = compiled
        self.methods: Any = AsyncShape(saver) if kind == "sync" else saver
        self.graph = agent(self.runs).compile(checkpointer=saver, **compiled)
        self.thread_id = thread_id
        self.config: RunnableConfig = {"configurable": {"thread_id": thread_id}}

    def on(self, saver: BaseCheckpointSaver[Any], agent: Agent | None = None, thread_id: str | None = None) -> Thread:
        """The same thread in another process, or another one that goes on counting the same runs."""
        return Thread(
            agent or self.agent, saver, self.kind, thread_id=thread_id or self.thread_id, runs=self.runs, **self.compiled
        )

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if self.kind == "sync":
            return getattr(self.graph, method)(*args, **kwargs)
        return await getattr(self.graph, f"a{method}")(*args, **kwargs)

    async def _each(self, method: str, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if self.kind == "sync":
            for one in getattr(self.graph, method)(*args, **kwargs):
                yield one
        else:
            async for one in getattr(self.graph, f"a{method}")(*args, **kwargs):
                yield one

    async def _given(self, given: Given) -> Any:
        return given(await self.state()) if callable(given) else given

    async def _config(self, at: At, metadata: Mapping[str, Any] | None = None) -> RunnableConfig:
        config = self.config
        if callable(at):
            config = at(await self.state(subgraphs=True))
        elif at is not None:
            config = (await self.history())[::-1][at].config
        return {**config, "metadata": dict(metadata)} if metadata else config

    async def invoke(self, given: Given, *, at: At = None, metadata: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Run the graph."""
        result = await self._call("invoke", await self._given(given), await self._config(at, metadata), **options)
        if "__interrupt__" in result:
            # Those of parallel nodes come as they are raised; in states, which are compared too, they are in order.
            result["__interrupt__"].sort(key=lambda one: str(one.value))
        return result

    async def stream(self, given: Given, *, hear: Callable[[Any], object] = id, **options: Any) -> list[Any]:
        """Run the graph and collect what it streams; each part is heard as it comes."""
        parts = []
        async for part in self._each("stream", await self._given(given), self.config, **options):
            hear(part)
            parts.append(part)
        return parts

    async def update(self, values: Any, *, as_node: str | None = None, at: At = None) -> RunnableConfig:
        """Change the state by hand."""
        return cast("RunnableConfig", await self._call("update_state", await self._config(at), values, as_node=as_node))

    async def state(self, at: At = None, *, subgraphs: bool = False) -> StateSnapshot:
        """A state."""
        return cast("StateSnapshot", await self._call("get_state", await self._config(at), subgraphs=subgraphs))

    async def history(self, **options: Any) -> list[StateSnapshot]:
        """All states, newest first."""
        return [one async for one in self._each("get_state_history", self.config, **options)]

    async def stored(self, namespace: str | None = None) -> list[CheckpointTuple]:
        """The stored checkpoints of a namespace, or of all, newest first."""
        scope = {} if namespace is None else {"checkpoint_ns": namespace}
        config: RunnableConfig = {"configurable": {"thread_id": self.thread_id, **scope}}
        return sorted([one async for one in self.methods.alist(config)], key=lambda one: id_of(one.config), reverse=True)

    async def head(self) -> CheckpointTuple:
        """The latest stored checkpoint of the root namespace."""
        found = await self.methods.aget_tuple({"configurable": {"thread_id": self.thread_id, "checkpoint_ns": ""}})
        assert found is not None
        return cast("CheckpointTuple", found)

    async def seen(self) -> dict[str, Any]:
        """All that twins must agree in, with ids named by their order."""
        names = Names()
        return {
            "state": names(await self.state(subgraphs=True)),
            "history": names(await self.history()),
            "stored": by_namespace(await self.stored(), names),
            "runs": Counter(self.runs),
        }

    async def seen_now(self) -> dict[str, Any]:
        """The same without the past."""
        return {"state": Names()(without_parent(await self.state(subgraphs=True))), "runs": Counter(self.runs)}


class Twins:
    """An agent on our saver, and the same agent on `InMemorySaver`: what is done to one is done to both, and compared."""

    def __init__(self, ours: Thread, reference: Thread) -> None:
        self.ours = ours
        self.reference = reference
        self.compares_past = True
        """Set to `False` once the past of ours has been taken away, as `prune` does; or to compare it at the end only."""

    async def invoke(self, given: Given, **options: Any) -> Any:
        """Run both."""
        return await self._both("invoke", given, **options)

    async def stream(self, given: Given, **options: Any) -> Any:
        """Run both and compare what they stream."""
        return await self._both("stream", given, **options)

    async def update(self, values: Any, **options: Any) -> Any:
        """Change both states by hand."""
        return await self._both("update", values, **options)

    async def state(self, at: At = None, **options: Any) -> StateSnapshot:
        """Our state, which is that of the other too."""
        return cast("StateSnapshot", await self._both("state", at, **options))

    async def _both(self, method: str, *given: Any, **options: Any) -> Any:
        ours = await getattr(self.ours, method)(*given, **options)
        reference = await getattr(self.reference, method)(*given, **options)
        assert_same(self._named(ours), self._named(reference))
        await self.check()
        return ours

    def _named(self, result: Any) -> Any:
        is_past = isinstance(result, StateSnapshot) and not self.compares_past
        return Names()(without_parent(result) if is_past else result)

    async def check(self) -> None:
        """All that can be seen of the two is the same."""
        if self.compares_past:
            assert_same(await self.ours.seen(), await self.reference.seen())
        else:
            assert_same(await self.ours.seen_now(), await self.reference.seen_now())

    def restart(self, saver: BaseCheckpointSaver[Any], agent: Agent | None = None) -> None:
        """Let another process go on with our thread, after an update of the agent perhaps."""
        self.ours = self.ours.on(saver, agent)
        if agent:
            self.reference = self.reference.on(self.reference.saver, agent)

    @property
    def runs(self) -> Counter[str]:
        """How often our nodes have run."""
        return Counter(self.ours.runs)

    async def values(self) -> Any:
        """The values of our state."""
        return (await self.ours.state()).values

    async def length(self) -> int:
        """How many checkpoints our history has."""
        return len(await self.ours.history())


def assert_same(ours: Any, reference: Any) -> None:
    """Fail with the first difference."""
    difference = first_difference(ours, reference)
    assert difference is None, difference


def make_twins(make_saver: Savers, agent: Agent, **compiled: Any) -> Twins:
    """Twins of an agent, with nothing stored yet."""
    kind = make_saver.kind
    ours = Thread(agent, raw_saver(make_saver), kind, **compiled)
    return Twins(ours, Thread(agent, InMemorySaver(), kind, **compiled))


def all_answered(answer: str = "yes") -> Callable[[StateSnapshot], Any]:
    """What resumes all interrupts of a state at once, each by its id."""
    return lambda state: Command(resume={one.id: f"{answer} to {one.value}" for one in state.interrupts})
