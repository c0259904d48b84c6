"""The same random calls to a saver and to the reference: after each, nothing that can be seen differs.

Two variables of the environment turn this into a hunt: EQUIVALENCE_EXAMPLES, how often a machine is run, and EQUIVALENCE_STEPS,
for how many steps.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send

from langgraph.checkpoint.fastredis import AsyncRedisSaver, BrokenHistoryError, RedisSaver, aio, history, lifetime, reading
from langgraph.checkpoint.fastredis import retention, saver, survey
from langgraph.checkpoint.fastredis.keys import Keyspace
from tests.conftest import assert_deadlines_agree, keys_under
from tests.model import LEANING, At, Reference, config_of, exact
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    import redis
    from langgraph.checkpoint.base import CheckpointTuple

    from tests import servers

SETTINGS = settings(
    max_examples=int(os.environ.get("EQUIVALENCE_EXAMPLES", "25")),
    stateful_step_count=int(os.environ.get("EQUIVALENCE_STEPS", "40")),
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TTL = timedelta(hours=1)

THREADS = st.sampled_from(["t", "", 1, "1", "a}:checkpoint:{%7B*\0"])
NAMESPACES = st.sampled_from(["", "child:1", "a|b:2", "\0:{}%\1;\2", "\1b", "\0"])
IN_ORDER = ["!", "1", "1\0", "1\0\0", "1\1", "10", "1:", "1:0", "1;", "1;0", "1<", "2\2", "3", "4", "5", "6", "7", "8", "9", "A"]
IN_ORDER += ["None", "a%7B", "b{}", "é", "\uffff", "\U0001f600"]
IDS = st.sampled_from(IN_ORDER)
PLAIN = ["a", "b:\0", "\1\2;%", "write:"]
DELTA = ["delta", "log\0\2"]
CHANNELS = st.sampled_from([*PLAIN, *DELTA, "unknown"])
SPECIAL = ["__error__", "__interrupt__", "__resume__", "__scheduled__"]
MESSAGES = [HumanMessage("hi", id="1"), AIMessage("", id="2", tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "\0"}])]
VALUES = st.sampled_from(
    [
        *(None, 0, False, True, "", b"", [], {}, (), 1.5, float("inf"), -1, 2**63, "\0\1\2", "s" * 32, "s" * 33, "é" * 40),
        *(b"\0\1\2" * 20, ["l"] * 20, {"n": {"e": [{"s": ("t", None)}]}}, {"value": 1, "id": "x"}, (1, ("2", b"3"))),
        *({1, 2}, frozenset({"f"}), MESSAGES, MESSAGES[0], UUID(int=1), timedelta(days=1), Interrupt("?", id="i")),
        *(Send("node", {"m": MESSAGES}), _DeltaSnapshot([1, 2]), _DeltaSnapshot(None), _DeltaSnapshot(MESSAGES)),
    ]
)
ALL_SNAPSHOTS = st.sampled_from([_DeltaSnapshot([]), _DeltaSnapshot(["x"] * 20), _DeltaSnapshot({"k": MESSAGES})])
CLEARED = type("Cleared", (), {"__repr__": lambda _: "CLEARED"})()
CHANGES = st.fixed_dictionaries(
    {},
    optional={channel: VALUES | st.just(CLEARED) for channel in PLAIN}
    | {channel: st.just(CLEARED) | ALL_SNAPSHOTS | VALUES for channel in DELTA},
)
RUNS = st.sampled_from(["run-1", "run-2", "run:\1"])
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(["input", "loop"]),
        "step": st.integers(-1, 2),
        "run_id": RUNS,
        "parents": st.sampled_from([{}, {"": "1"}]),
        "key:\0": st.sampled_from([None, 0, False, [1], (1,), {"a": [None]}, "text"]),
    },
)
FILTERS = st.none() | METADATA | st.fixed_dictionaries({}, optional={"unknown": st.none(), "user": st.just("u"), "n": st.just(1)})
TASKS = st.sampled_from(["task", "task-2", "\0-1", "t:1\1", ""])
PATHS = st.sampled_from(["", "~__pregel_pull, a", "~__pregel_push, 10", "\0", "\1"])
WRITES = st.lists(st.tuples(CHANNELS | st.sampled_from(SPECIAL), VALUES), max_size=4)
PAGES = {
    saver: ["SCAN_PAGE"],
    aio: ["SCAN_PAGE"],
    reading: ["PAGE", "METADATA_PAGE", "PAGE_BYTES"],
    history: ["PAGE", "PAGE_BYTES"],
    survey: ["PAGE", "VALUES_PAGE"],
    retention: ["PAGE", "COPY_PAGE", "PAGE_BYTES"],
    lifetime: ["PAGE"],
}


class Machine(RuleBasedStateMachine):
    """A saver beside the reference."""

    def __init__(self, make: Callable[..., Any], client: redis.Redis, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        super().__init__()
        self.make = make
        self.client = client
        self.run = run
        self.root = f"test-{uuid4().hex}"
        self.patches = pytest.MonkeyPatch()
        self.model = Reference()
        self.versions = 0
        self.expiring: dict[str, bool] = {}
        self.changed: set[str] = set()

    @initialize(
        prefix=st.sampled_from(["", ":", "{x}%*?[", "\0"]),
        ttl=st.sampled_from([None, TTL, {"default_ttl": 60, "refresh_on_read": True}]),
        page=st.sampled_from([1, 2, 3, 100]),
    )
    def begin(self, prefix: str, ttl: Any, page: int) -> None:
        """The dimensions: prefixes, deadlines, and the size of pages."""
        for module, names in PAGES.items():
            for name in names:
                self.patches.setattr(module, name, page)
        self.keyspace = Keyspace(f"{self.root}:{prefix}")
        self.ttl = ttl
        self.saver = self.make(prefix=self.keyspace.prefix, ttl=ttl)

    def teardown(self) -> None:
        """After the last step: deleting all that is listed leaves nothing."""
        self.patches.undo()
        if hasattr(self, "saver"):
            for thread in self.each(self.saver.alist_threads()):
                self.run(self.saver.adelete_thread(thread.thread_id))
            assert keys_under(self.client, self.root) == []

    # How the two are asked, and compared.

    def each(self, items: Any) -> list[Any]:
        """All items of an async iterator."""

        async def collect() -> list[Any]:
            return [item async for item in items]

        found: list[Any] = self.run(collect())
        return found

    def histories(self, config: Any, channels: list[str]) -> Any:
        """A history, or the type of the error, which is the reference's too."""
        try:
            expected: Any = self.model.get_delta_channel_history(config=config, channels=channels)
        except BrokenHistoryError:
            expected = BrokenHistoryError
        try:
            found = self.run(self.saver.aget_delta_channel_history(config=config, channels=channels))
        except BrokenHistoryError:
            found = BrokenHistoryError
        assert exact(found) == exact(expected)
        return exact(found)

    def leaning_histories(self, thread: str) -> dict[At, Any]:
        """Of each listed checkpoint, the history of the delta channels that lean on its ancestors."""
        listed = {at: self.model.get_tuple(config_of(*at)) for at in self.model.listed(thread)}
        leaning = {at: list(found.metadata.get(LEANING, {})) for at, found in listed.items() if found}
        return {at: self.histories(config_of(*at), channels) for at, channels in leaning.items()}

    def note(self, thread: object, *, written: bool = False) -> str:
        """Remember that a thread has changed, and whether it has a deadline now."""
        name = str(thread)
        self.changed.add(name)
        if written:
            self.expiring.setdefault(name, self.ttl is not None)
            if self.ttl and self.expiring[name]:
                left: int = self.client.pttl(self.keyspace.thread(name).index)  # type: ignore[assignment]
                assert left > TTL / timedelta(milliseconds=1) - 2000
        return name

    @invariant()
    def nothing_differs(self) -> None:
        """What is listed, how many there are, and what the server holds for it."""
        threads = self.model.list_threads()
        for thread in self.changed:
            expected = [exact(one) for one in self.model.list(config_of(thread, None))]
            assert [exact(one) for one in self.each(self.saver.alist(config_of(thread, None)))] == expected
            if thread not in threads:
                self.expiring.pop(thread, None)
        if self.changed:
            infos = self.each(self.saver.alist_threads())
            assert sorted((one.thread_id, one.checkpoints) for one in infos) == sorted(threads.items())
            assert {one.thread_id: one.expires_in is not None for one in infos} == self.expiring
            tags = {key[: key.index(b"}")] for key in keys_under(self.client, self.root)}
            assert tags == {key[: key.index(b"}")] for key in (self.keyspace.thread(name).index for name in threads)}
            assert_deadlines_agree(self.client, self.root)
        self.changed.clear()

    # Saving.

    def mint(self, kind: str, current: Any) -> Any:
        """A version that no value has had yet: the saver's own, or as other savers count."""
        self.versions += 1
        if kind == "own" and not isinstance(current, (str, int)):
            return self.saver.get_next_version(current, None)
        return self.versions if kind == "int" else f"{self.versions:032}.{self.versions}"

    def store(self, at: At, parent: str | None, base: CheckpointTuple | None, changes: Any, extra: dict[str, Any]) -> None:
        """Put as LangGraph does: all values but those of delta channels are handed again, new versions name what changed."""
        old = base.checkpoint if base else {"channel_versions": {}, "channel_values": {}}
        values = {channel: value for channel, value in old["channel_values"].items() if channel not in DELTA}
        new = {channel: self.mint(extra["kind"], old["channel_versions"].get(channel)) for channel in changes}
        values = {channel: value for channel, value in (values | changes).items() if value is not CLEARED}
        versions = old["channel_versions"] | new
        leaning = {channel: (1, self.versions) for channel in DELTA if channel in versions and channel not in values}
        metadata = extra["metadata"] | ({LEANING: leaning} if leaning else {})
        self.save(at, parent, {"channel_values": values, "channel_versions": versions}, metadata, new, extra["with_user"])

    def save(self, at: At, parent: str | None, body: Any, metadata: Any, new: Any, with_user: bool = False) -> None:  # noqa: FBT001, FBT002, PLR0913, PLR0917
        """Put the same into both, and get the same back."""
        checkpoint = {"v": 4, "id": at.id, "ts": f"{self.versions}", "versions_seen": {"node": {**new}}, **body}
        config: Any = config_of(at.thread, at.ns, parent)
        config["configurable"] |= {"user": "u\0", "__no": 1} if with_user else {}
        config |= {"metadata": {"n": 1}} if with_user else {}
        expected = self.model.put(config, checkpoint, metadata, new)  # type: ignore[arg-type]
        if not at.ns:
            del config["configurable"]["checkpoint_ns"]
        assert self.run(self.saver.aput(config, checkpoint, metadata, new)) == expected
        self.last = at, parent, body, metadata, new
        self.note(at.thread, written=True)

    def acyclic(self, at: At, parent: str | None) -> str | None:
        """The parent, unless it descends from the checkpoint itself."""
        above, stored = parent, self.model.stored(str(at.thread))
        while above:
            if above == at.id:
                return None
            entry = stored.get(At(str(at.thread), at.ns, above))
            above = entry[2] if entry else None
        return parent

    EXTRA = st.fixed_dictionaries(
        {"kind": st.sampled_from(["own", "own", "int", "text"]), "metadata": METADATA, "with_user": st.booleans()}
    )

    @rule(thread=THREADS, ns=NAMESPACES, steps=st.lists(st.tuples(CHANGES, WRITES), min_size=1, max_size=4), extra=EXTRA)
    def go_on(self, thread: Any, ns: str, steps: Any, extra: Any) -> None:
        """As a run does: writes on the latest checkpoint, then the next one."""
        for changes, writes in steps:
            latest = self.model.get_tuple(config_of(thread, ns))
            above = latest.checkpoint["id"] if latest else ""
            if above == IN_ORDER[-1]:
                return
            if above:
                self.write(thread, ns, above, writes, "task", "")
            own = At(thread, ns, next(one for one in IN_ORDER if one > above))
            self.store(own, self.acyclic(own, above or None), latest, changes, extra)

    @rule(thread=THREADS, ns=NAMESPACES, own=IDS, parent=st.none() | IDS, changes=CHANGES, extra=EXTRA)
    def put(self, thread: Any, ns: str, own: str, parent: str | None, changes: Any, extra: Any) -> None:
        """Forks, late ids, parents that were never stored, and other bodies for what is stored already."""
        at = At(thread, ns, own)
        parent = self.acyclic(at, parent)
        self.store(at, parent, self.model.get_tuple(config_of(thread, ns, parent)) if parent else None, changes, extra)

    @rule(thread=THREADS, ns=NAMESPACES, own=IDS, other=IDS, metadata=METADATA)
    def copy_checkpoint(self, thread: Any, ns: str, own: str, other: str, metadata: Any) -> None:
        """As `update_state` does for a copy: the values as they were read, beside the parent that the original has."""
        found = self.model.get_tuple(config_of(thread, ns, other))
        if found:
            parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
            body = {key: found.checkpoint[key] for key in ("channel_values", "channel_versions")}  # type: ignore[literal-required]
            kept = {key: value for key, value in found.metadata.items() if key == LEANING}
            at = At(thread, ns, own)
            self.save(at, self.acyclic(at, parent), body, metadata | kept, {})

    @precondition(lambda self: hasattr(self, "last"))
    @rule(values=st.none() | CHANGES)
    def put_again(self, values: Any) -> None:
        """The last call once more; or with other values for the same versions, where no other checkpoint has those."""
        at, parent, body, metadata, new = self.last
        if at not in self.model.listed(str(at.thread)):
            return
        others = [one for one in self.model.stored(str(at.thread)) if one.ns == at.ns and one.id != at.id]
        if values and not any(self.model.shares(one, new) for one in others):
            given = body["channel_values"] | {channel: value for channel, value in values.items() if channel in new}
            body = {**body, "channel_values": {channel: value for channel, value in given.items() if value is not CLEARED}}
        self.save(at, parent, body, metadata, new)

    @rule(thread=THREADS, ns=NAMESPACES, own=IDS, writes=WRITES, task=TASKS, path=PATHS)
    def write(self, thread: Any, ns: str, own: str, writes: Any, task: str, path: str) -> None:
        """Writes for checkpoints that are there, that will come, that are retained or gone."""
        self.model.put_writes(config_of(thread, ns, own), writes, task, path)
        self.run(self.saver.aput_writes(config_of(thread, ns or None, own), writes, task, path))
        self.note(thread, written=bool(writes))
