"""Drives agents: a thread of one, through `invoke` or `ainvoke` alike; and twins, on our saver and on `InMemorySaver`.

After each step the twins must agree in all that can be seen: the state, with those of subgraphs; the history; every stored
checkpoint of every namespace, with its pending writes; and how often each node has run. What differs from run to run, ids and
times, is named by the order in which it appears, or left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Send, StateSnapshot
from pydantic import BaseModel

from tests import servers
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from tests.agents import Agent
    from tests.conftest import Savers

Given: TypeAlias = Any
"""What a graph is invoked with, or a function of the state that returns it."""
At: TypeAlias = "int | Callable[[StateSnapshot], RunnableConfig] | None"

on_one_server = pytest.mark.parametrize("backend", [servers.REAL[0]], indirect=True)

_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{32}\b")


def raw_saver(make_saver: Savers, **options: Any) -> BaseCheckpointSaver[Any]:
    """A saver of the test's kind that a graph can be compiled with."""
    return make_saver.sync(**options) if make_saver.kind == "sync" else make_saver.asynchronous(**options)


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
        return await self._call("invoke", await self._given(given), await self._config(at, metadata), **options)

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
        return sorted([one async for one in self.methods.alist(config)], key=lambda one: _id(one.config), reverse=True)

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
            "stored": _by_namespace(await self.stored(), names),
            "runs": Counter(self.runs),
        }

    async def seen_now(self) -> dict[str, Any]:
        """The same without the past."""
        return {"state": Names()(_without_parent(await self.state(subgraphs=True))), "runs": Counter(self.runs)}


class Twins:
    """An agent on our saver, and the same agent on `InMemorySaver`: what is done to one is done to both, and compared."""

    def __init__(self, ours: Thread, reference: Thread) -> None:
        self.ours = ours
        self.reference = reference
        self.shares_past = True
        """Set to `False` once the past of ours has been taken away, as `prune` does: then it is not compared."""

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
        if self.shares_past:
            assert Names()(ours) == Names()(reference)
        await self.check()
        return ours

    async def check(self) -> None:
        """All that can be seen of the two is the same."""
        if self.shares_past:
            assert await self.ours.seen() == await self.reference.seen()
        else:
            assert await self.ours.seen_now() == await self.reference.seen_now()

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


def make_twins(make_saver: Savers, agent: Agent, **compiled: Any) -> Twins:
    """Twins of an agent, with nothing stored yet."""
    kind = make_saver.kind
    ours = Thread(agent, raw_saver(make_saver), kind, **compiled)
    return Twins(ours, Thread(agent, InMemorySaver(), kind, **compiled))


def all_answered(answer: str = "yes") -> Callable[[StateSnapshot], Any]:
    """What resumes all interrupts of a state at once, each by its id."""
    return lambda state: Command(resume={one.id: f"{answer} to {one.value}" for one in state.interrupts})


class Names:
    """Puts what differs from run to run out of the way: ids become `<0>`, `<1>`…, in the order in which they appear."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def text(self, text: str) -> str:
        """A text, with names for the ids in it."""
        return _ID.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names)}>"), text)

    def known(self, text: str) -> str:
        """The same, for an order in which to name: ids that have no name yet stay without."""
        return _ID.sub(lambda found: self._names.get(found[0], "<?>"), text)

    def __call__(self, value: Any) -> Any:
        """A value, with names for the ids in it. Its type stays visible."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            if value.keys() == {"configurable"}:
                return self._keys(_place(cast("RunnableConfig", value)))
            return self._keys(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._fields(value, value._asdict())
        if isinstance(value, (list, tuple)):
            return type(value)(map(self, value))
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if isinstance(value, Send):
            return self._fields(value, {"node": value.node, "arg": value.arg})
        if isinstance(value, (BaseMessage, BaseModel)):
            return self._fields(value, dict(value))
        if dataclasses.is_dataclass(value):
            return self._fields(value, {one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
        if isinstance(value, BaseException):
            return self._fields(value, {"args": value.args})
        return value

    def _fields(self, value: Any, fields: Mapping[str, Any]) -> tuple[str, Any]:
        shown = {name: _place(one) if name in ("config", "parent_config") else one for name, one in fields.items()}
        shown.pop("created_at", None)
        return type(value).__name__, {name: self(one) for name, one in shown.items()}


def _id(config: RunnableConfig) -> str:
    return str(config["configurable"]["checkpoint_id"])


def _place(config: RunnableConfig | None) -> dict[str, Any] | None:
    """What a config says about a checkpoint; `InMemorySaver` hands on whatever else it was given."""
    keys = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return None if config is None else {key: config["configurable"][key] for key in keys if key in config["configurable"]}


def _without_parent(state: StateSnapshot) -> StateSnapshot:
    tasks = tuple(
        task._replace(state=_without_parent(task.state)) if isinstance(task.state, StateSnapshot) else task for task in state.tasks
    )
    return state._replace(parent_config=None, tasks=tasks)


def _by_namespace(stored: Iterable[CheckpointTuple], names: Names) -> dict[str, Any]:
    groups: defaultdict[str, list[CheckpointTuple]] = defaultdict(list)
    for one in stored:
        groups[one.config["configurable"]["checkpoint_ns"]].append(one)
    in_order = sorted(groups, key=lambda ns: (names.known(ns), _id(groups[ns][-1].config)))
    return {names(ns): [names(_stripped(one)) for one in groups[ns]] for ns in in_order}


def _stripped(found: CheckpointTuple) -> CheckpointTuple:
    """Without its time, and with versions that count updates only: their fractions are random, their types the saver's own."""
    checkpoint: dict[str, Any] = {**found.checkpoint}
    del checkpoint["ts"]
    checkpoint["channel_versions"] = _counts(checkpoint["channel_versions"])
    checkpoint["versions_seen"] = {node: _counts(seen) for node, seen in checkpoint["versions_seen"].items()}
    return found._replace(checkpoint=cast("Any", checkpoint))


def _counts(versions: Mapping[str, Any]) -> dict[str, int]:
    return {channel: int(str(version).partition(".")[0]) for channel, version in versions.items()}
