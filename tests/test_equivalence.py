"""The same random calls to a saver and to the reference: after each, nothing that can be seen differs.

Two variables of the environment turn this into a hunt: EQUIVALENCE_EXAMPLES, how often a machine is run, and EQUIVALENCE_STEPS,
for how many steps.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt, Send

from langgraph.checkpoint.fastredis import AsyncRedisSaver, BrokenHistoryError, RedisSaver
from langgraph.checkpoint.fastredis.keys import Keyspace
from tests.conftest import assert_deadlines_agree, keys_under
from tests.model import LEANING, At, Reference, config_of, exact, goes_round
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    import redis
    from langgraph.checkpoint.base import CheckpointTuple

    from tests import servers

pytestmark = pytest.mark.newest

SETTINGS = settings(
    max_examples=int(os.environ.get("EQUIVALENCE_EXAMPLES", "25")),
    stateful_step_count=int(os.environ.get("EQUIVALENCE_STEPS", "50")),
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TTL = timedelta(hours=1)

HOSTILE_IDS = [
    "1\0",
    "1\0\0",
    "1\1",
    "10",
    "1:",
    "1:0",
    "1;",
    "1;0",
    "1<",
    "2\2",
    "None",
    "a%7B",
    "b{}",
    "é",
    "\uffff",
    "\U0001f600",
]
IN_ORDER = sorted([*"!13456789A", *HOSTILE_IDS])


def drawn(names: str) -> st.SearchStrategy[Any]:
    """One of what the machine has under this name."""
    return st.runner().flatmap(lambda machine: st.sampled_from(getattr(machine, names)))


# The first of a run's threads and namespaces come up more often, so that they grow long.
ALL_THREADS = ["t", "", 1, "1", "a}:checkpoint:{%7B*\0"]
THREADS = drawn("threads")
ALL_NAMESPACES = ["", "child:1", "a|b:2", "\0:{}%\1;\2", "\1b", "\0"]
NAMESPACES = drawn("namespaces")
IDS = drawn("known") | drawn("known") | st.sampled_from(IN_ORDER)
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
SNAPSHOTS = st.sampled_from([_DeltaSnapshot([]), _DeltaSnapshot(["x"] * 20), _DeltaSnapshot({"k": MESSAGES})])
CLEARED = type("Cleared", (), {"__repr__": lambda _: "CLEARED"})()
CHANGE = VALUES | st.just(CLEARED)
# Of a delta channel: that it is written, mostly; a snapshot; or the value of a time before it was one.
DELTA_CHANGE = st.one_of(*[st.just(CLEARED)] * 4, SNAPSHOTS, VALUES)
CHANGES = st.fixed_dictionaries({}, optional=dict.fromkeys(PLAIN, CHANGE) | dict.fromkeys(DELTA, DELTA_CHANGE))
RUNS = st.sampled_from(["run-1", "run-2", "run:\1"])
NESTED = st.sampled_from([None, 0, [1], (1,), {"a": [None]}])
PARENTS = st.sampled_from([{}, {"": "1"}])
SOURCES = st.sampled_from(["input", "loop"])
KEYS = {"source": SOURCES, "step": st.integers(0, 1), "run_id": RUNS, "parents": PARENTS, "key:\0": NESTED}
METADATA = st.fixed_dictionaries({}, optional=KEYS)
ONE_KEY = [
    ("source", "loop"),
    ("step", 0),
    ("step", False),
    ("run_id", "run-1"),
    ("parents", {}),
    (LEANING, None),
    ("unknown", 1),
]
ONE_KEY += [("key:\0", None), ("key:\0", [1]), ("key:\0", {"a": [None]})]
FILTERS = st.none() | st.sampled_from(
    [*({key: value} for key, value in ONE_KEY), {}, {"user": "u", "n": 1}, {"step": 0, "?": None}]
)
TASKS = st.sampled_from(["task", "task-2", "\0-1", "t:1\1", ""])
PATHS = st.sampled_from(["", "~__pregel_pull, a", "~__pregel_push, 10", "\0", "\1"])
WRITES = st.lists(st.tuples(st.sampled_from([*DELTA, *DELTA, *PLAIN, *SPECIAL, "unknown"]), VALUES), max_size=4)
KINDS = st.sampled_from(["own", "own", "int", "text"])
EXTRA = st.fixed_dictionaries({"kind": KINDS, "metadata": METADATA, "with_user": st.booleans()})
STEPS = st.lists(st.tuples(CHANGES, WRITES), min_size=1, max_size=6)
PACKAGE = "langgraph.checkpoint.fastredis"


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
        self.known = IN_ORDER[1:3]

    @initialize(
        prefix=st.sampled_from(["", ":", "{x}%*?[", "\0"]),
        ttl=st.sampled_from([None, TTL, {"default_ttl": 60, "refresh_on_read": True}]),
        page=st.sampled_from([1, 2, 3, 100]),
        page_bytes=st.sampled_from([1, 1000, 1 << 20]),
        threads=st.permutations(ALL_THREADS),
        namespaces=st.permutations(ALL_NAMESPACES),
        steps=STEPS,
        extra=EXTRA,
    )
    def begin(
        self, prefix: str, ttl: Any, page: int, page_bytes: int, threads: Any, namespaces: Any, steps: Any, extra: Any
    ) -> None:
        """The dimensions: prefixes, deadlines, the size of pages, and the names of a few threads and namespaces."""
        self.threads = [*threads[:1] * 3, *threads[1:3]]
        self.namespaces = [*namespaces[:1] * 3, *namespaces[1:3]]
        for module in [module for name, module in sys.modules.items() if name.startswith(PACKAGE)]:
            for name in vars(module):
                if name.endswith(("PAGE", "PAGE_BYTES")) and isinstance(getattr(module, name), int):
                    self.patches.setattr(module, name, page if name.endswith("PAGE") else page_bytes)
        self.keyspace = Keyspace(f"{self.root}:{prefix}")
        self.ttl = ttl
        self.saver = self.make(prefix=self.keyspace.prefix, ttl=ttl)
        self.go_on(threads[0], namespaces[0], steps, extra)

    def teardown(self) -> None:
        """After the last step: deleting all that is listed leaves nothing."""
        try:
            for thread in self.each(self.saver.alist_threads()) if hasattr(self, "saver") else ():
                self.run(self.saver.adelete_thread(thread.thread_id))
        finally:
            self.patches.undo()
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
        leaning = {at: [*dict[str, Any](found.metadata).get(LEANING, ())] for at, found in listed.items() if found}
        return {at: self.histories(config_of(*at), channels) for at, channels in leaning.items()}

    def check_deadline(self, name: str) -> None:
        """A thread that expires lives at least `ttl` from now."""
        if self.ttl and self.expiring.get(name):
            left: Any = self.client.pttl(self.keyspace.thread(name).index)
            assert left > TTL / timedelta(milliseconds=1) - 2000

    def check_refreshed(self, thread: object) -> None:
        """With `refresh_on_read` a read counts as a write does."""
        if isinstance(self.ttl, dict):
            self.check_deadline(str(thread))

    def note(self, thread: object, *, written: bool = False) -> None:
        """Remember that a thread has changed, and whether it has a deadline now."""
        name = str(thread)
        self.changed.add(name)
        if written:
            self.expiring.setdefault(name, self.ttl is not None)
            self.check_deadline(name)

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
            try:
                assert_deadlines_agree(self.client, self.root)
            except AssertionError:  # A stall between two readings looks like this too, but not twice.
                assert_deadlines_agree(self.client, self.root)
        self.changed.clear()

    # Saving.

    def mint(self, kind: str, current: Any) -> Any:
        """A version that no value has had yet: the saver's own, or as other savers count."""
        self.versions += 1
        own = self.saver.get_next_version(current, None)
        if kind == "own" and not isinstance(own, int):
            return own
        return self.versions if kind == "int" else f"{self.versions:032}.{self.versions}"

    def store(self, at: At, parent: str | None, base: CheckpointTuple | None, changes: Any, extra: dict[str, Any]) -> None:
        """Put as LangGraph does: all values but those of delta channels are handed again, new versions name what changed."""
        old: Any = base.checkpoint if base else {"channel_versions": {}, "channel_values": {}}
        values = {channel: value for channel, value in old["channel_values"].items() if channel not in DELTA}
        new = {channel: self.mint(extra["kind"], old["channel_versions"].get(channel)) for channel in changes}
        values = {channel: value for channel, value in (values | changes).items() if value is not CLEARED}
        versions = old["channel_versions"] | new
        leaning = {channel: (1, self.versions) for channel in DELTA if channel in versions and channel not in values}
        metadata = extra["metadata"] | ({LEANING: leaning} if leaning else {})
        self.save(at, parent, {"channel_values": values, "channel_versions": versions}, metadata, new, extra["with_user"])

    def save(self, at: At, parent: str | None, body: Any, metadata: Any, new: Any, with_user: bool = False) -> None:  # noqa: FBT002
        """Put the same into both, and get the same back."""
        checkpoint: Any = {"v": 4, "id": at.id, "ts": f"{self.versions}", "versions_seen": {"node": {**new}}, **body}
        config: Any = config_of(at.thread, at.ns, parent)
        config["configurable"] |= {"user": "u\0", "__no": 1} if with_user else {}
        config |= {"metadata": {"n": 1}} if with_user else {}
        expected = self.model.put(config, checkpoint, metadata, new)
        if not at.ns:
            del config["configurable"]["checkpoint_ns"]
        assert self.run(self.saver.aput(config, checkpoint, metadata, new)) == expected
        self.known = sorted({*self.known, at.id})
        self.last = at, parent, body, metadata, new
        self.note(at.thread, written=True)

    def acyclic(self, at: At, parent: str | None) -> str | None:
        """The parent, unless it descends from the checkpoint itself."""
        links = self.model.links(str(at.thread)) | {(at.ns, at.id): parent}
        return None if goes_round(links) else parent

    @rule(thread=THREADS, ns=NAMESPACES, steps=STEPS, extra=EXTRA)
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
            parent = self.acyclic(own, above or None)
            self.store(own, parent, latest if parent else None, changes, extra)

    @rule(thread=THREADS, ns=NAMESPACES, own=IDS, parent=st.none() | IDS, writes=WRITES, changes=CHANGES, extra=EXTRA)
    def put(self, thread: Any, ns: str, own: str, parent: str | None, writes: Any, changes: Any, extra: Any) -> None:
        """Forks, late ids, parents that were never stored, and other bodies for what is stored already."""
        at = At(thread, ns, own)
        parent = self.acyclic(at, parent)
        if parent:
            self.write(thread, ns, parent, writes, "task", "")
        self.store(at, parent, self.model.get_tuple(config_of(thread, ns, parent)) if parent else None, changes, extra)

    @rule(thread=THREADS, ns=NAMESPACES, own=IDS, other=IDS, metadata=METADATA)
    def copy_checkpoint(self, thread: Any, ns: str, own: str, other: str, metadata: Any) -> None:
        """As `update_state` does for a copy: the values as they were read, beside the parent that the original has."""
        found = self.model.get_tuple(config_of(thread, ns, other))
        if found:
            parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
            checkpoint: Any = found.checkpoint
            body = {key: checkpoint[key] for key in ("channel_values", "channel_versions")}
            kept = {key: value for key, value in found.metadata.items() if key == LEANING}
            at = At(thread, ns, own)
            self.save(at, self.acyclic(at, parent), body, metadata | kept, {})

    @precondition(lambda self: hasattr(self, "last"))
    @rule(values=st.none() | CHANGES)
    def put_again(self, values: Any) -> None:
        """The last call once more; or with other values for the same versions, where no other checkpoint has those."""
        at, parent, body, metadata, new = self.last
        found = self.model.get_tuple(config_of(*at))
        if not found or found.checkpoint["channel_versions"] != body["channel_versions"]:
            return
        if values and not self.model.shares(at._replace(thread=str(at.thread)), new):
            given = body["channel_values"] | {channel: value for channel, value in values.items() if channel in new}
            body = {**body, "channel_values": {channel: value for channel, value in given.items() if value is not CLEARED}}
        self.save(at, self.acyclic(at, parent), body, metadata, new)

    @rule(thread=THREADS, ns=NAMESPACES, own=IDS, writes=WRITES, task=TASKS, path=PATHS)
    def write(self, thread: Any, ns: str, own: str, writes: Any, task: str, path: str) -> None:
        """Writes for checkpoints that are there, that will come, that are retained or gone."""
        self.model.put_writes(config_of(thread, ns, own), writes, task, path)
        self.run(self.saver.aput_writes(config_of(thread, ns or None, own), writes, task, path))
        self.note(thread, written=bool(writes))

    # Reading.

    @rule(thread=THREADS, ns=st.none() | NAMESPACES, own=st.none() | st.just("") | IDS)
    def get(self, thread: Any, ns: str | None, own: str | None) -> None:
        """The latest, or by id; known, unknown, retained; an absent namespace is the root."""
        config = config_of(thread, ns, own)
        assert exact(self.run(self.saver.aget_tuple(config))) == exact(self.model.get_tuple(config))
        self.check_refreshed(thread)

    @rule(
        thread=st.none() | THREADS,
        ns=st.none() | NAMESPACES,
        own=st.none() | st.just("") | IDS,
        wanted=FILTERS,
        before=st.none() | IDS,
        limit=st.sampled_from([None, None, 0, 1, 2, 3, -1]),
    )
    def read_list(
        self, thread: Any, ns: str | None, own: str | None, wanted: Any, before: str | None, limit: int | None
    ) -> None:
        """Every combination; over all threads, each thread's part is the beginning of what the reference lists of it."""
        config = None if thread is None else config_of(thread, ns, own)
        bound = None if before is None else config_of("any", "any", before)
        found = self.each(self.saver.alist(config, filter=wanted, before=bound, limit=limit))
        expected = [*self.model.list(config, filter=wanted, before=bound)]
        assert len(found) == (len(expected) if limit is None else min(len(expected), max(limit, 0)))
        for name in [str(thread)] if config else self.model.list_threads():
            part, whole = (
                [exact(one) for one in some if one.config["configurable"]["thread_id"] == name] for some in (found, expected)
            )
            assert part == whole[: len(part)]

    @rule(
        thread=THREADS,
        ns=st.none() | NAMESPACES,
        own=st.none() | st.just("") | IDS,
        channels=st.lists(CHANNELS, max_size=3) | st.just([*PLAIN, *DELTA, "unknown"]),
    )
    def read_history(self, thread: Any, ns: str | None, own: str | None, channels: Any) -> None:
        """Of any channels, known or not, delta or not."""
        self.histories(config_of(thread, ns, own), channels)
        if channels:
            self.check_refreshed(thread)

    # Whole threads.

    @precondition(lambda self: self.expiring)
    @rule(source=THREADS, other=THREADS)
    def copy_thread(self, source: Any, other: Any) -> None:
        """Into a new thread, into one that is there, and into itself."""
        if goes_round(self.model.links(str(other)) | self.model.links(str(source))):
            return
        self.model.copy_thread(source, other)
        self.run(self.saver.acopy_thread(source, other))
        self.note(other, written=str(source) in self.expiring and str(source) != str(other))
        self.leaning_histories(str(other))

    @precondition(lambda self: self.expiring)
    @rule(
        threads=st.lists(THREADS, min_size=1, max_size=2), runs=st.lists(RUNS | st.just(""), max_size=2), how=st.integers(0, 7)
    )
    def take_away(self, threads: Any, runs: Any, how: int) -> None:
        """D1, D5, D7, D8: by thread, by run, or all but the latest; most often the last."""
        if how == 0:
            self.model.delete_thread(threads[0])
            self.run(self.saver.adelete_thread(threads[0]))
            self.note(threads[0])
        elif how <= 2:
            reference, call = partial(self.model.delete_for_runs, runs), self.saver.adelete_for_runs(runs)
            self.shrink([*self.model.list_threads()], reference, call)
        else:
            strategy = "delete" if how == 7 else "keep_latest"
            reference = partial(self.model.prune, threads, strategy=strategy)
            self.shrink(threads, reference, self.saver.aprune(threads, strategy=strategy))

    def shrink(self, threads: Any, reference: Callable[[], object], call: Any) -> None:
        """Take checkpoints out of threads: what is left reads as before."""
        names = dict.fromkeys(map(str, threads))
        before = {name: (self.model.listed(name), self.leaning_histories(name)) for name in names}
        reference()
        self.run(call)
        for name, (listed, histories) in before.items():
            self.note(name)
            after = self.leaning_histories(name)
            assert after == {at: histories[at] for at in after}
            if listed.keys() != self.model.listed(name).keys():
                assert self.client.hlen(self.keyspace.thread(name).channels) == self.model.values_in_hash(name)

    # Deadlines.

    @precondition(lambda self: self.expiring)
    @rule(thread=THREADS, ttl=st.sampled_from([timedelta(minutes=2), timedelta(days=2), None]))
    def move_deadline(self, thread: Any, ttl: timedelta | None) -> None:
        """E6: sooner or later than the saver's own, or away; later writes move the first, and leave the others."""
        moved = self.saver.aexpire_thread(thread, ttl) if ttl else self.saver.apersist_thread(thread)
        is_there = str(thread) in self.expiring
        assert self.run(moved) is is_there
        self.expiring.update({str(thread): ttl is not None} if is_there else {})
        self.note(thread)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop that all calls of a test run on."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_no_call_tells_a_saver_from_the_reference(
    backend: servers.Backend, kind: str, client: redis.Redis, loop: asyncio.AbstractEventLoop
) -> None:
    """L1, V3, V4, W2, W3, W4, I1, I2 and all others that a caller can see, in any order and combination."""
    shared = backend.async_client()

    def make(**options: Any) -> Any:
        return AsyncShape(RedisSaver(client, **options)) if kind == "sync" else AsyncRedisSaver(shared, **options)

    try:
        machine: Any = partial(Machine, make, client, loop.run_until_complete)
        run_state_machine_as_test(machine, settings=SETTINGS)
    finally:
        loop.run_until_complete(shared.aclose())
