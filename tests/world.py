"""A few threads, stored the same again and again at the cost of copying keys; and all that can be seen of them.

What is seen includes the keys themselves, so that two states are the same only if they are the same to the byte.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.checkpoint.fastredis import BrokenHistoryError, RedisSaver
from tests.build import Chain, config_of, id_of
from tests.conftest import keys_under
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import redis
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

TTL = timedelta(hours=1)
SHORT = timedelta(minutes=30)
_MINUTE = 60_000
_MONTH = 30 * 24 * 60  # minutes: what data lives at least while the deadline of a long thread comes or goes
# A thread that `setup` begins and cannot end is no part of the state, but must not stay for ever.
_OF_SETUP = b"{setup-"


class Place(NamedTuple):
    """Where a checkpoint is."""

    thread: str
    ns: str
    id: str


@dataclass(frozen=True)
class Seen:
    """A state."""

    content: Mapping[bytes, Any]
    """What each key holds, without the prefix."""
    left: Mapping[bytes, int]
    """How many minutes each key lives, by twos, as time goes by; -1: for ever."""
    tuples: Mapping[Place, CheckpointTuple]
    """Every listed checkpoint."""
    histories: Mapping[Place, Any]
    """And the history of its delta channel, `BrokenHistoryError` where that is refused."""
    milliseconds: dict[bytes, int] = field(compare=False, repr=False)
    """How long each key lives, exactly."""

    def latest(self) -> Mapping[tuple[str, str], Place]:
        """The latest checkpoint of each namespace."""
        return {(at.thread, at.ns): at for at in sorted(self.tuples)}

    def threads(self) -> Mapping[bytes, int]:
        """How many minutes each thread lives."""
        return {key: left for key, left in self.left.items() if key.endswith(b"}:index")}


class Put(NamedTuple):
    """The arguments of a `put`."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: ChannelVersions


class _Recorder:
    """Takes a save, and does not pass it on."""

    def __init__(self, saver: Any) -> None:
        self.get_next_version = saver.get_next_version
        self.put: Put

    async def aput(self, *arguments: Any) -> RunnableConfig:
        self.put = Put(*arguments)
        return config_of(self.put.config["configurable"]["thread_id"], "", self.put.checkpoint["id"])


class World:
    """Threads that can be had as often as needed.

    `delta` has a delta channel, a child namespace and two runs; `pruned` is the same after pruning; `plain` has one namespace,
    and no such channel; `due` and `long due` have too little time left for a saver with `TTL`, `pinned` has no end; `gone` was
    there once.
    """

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self.client = client
        self.prefix = prefix
        self.saver = RedisSaver(client, prefix=prefix)
        self.chains: dict[str, Chain] = {}
        self.last: dict[str, Put] = {}
        """The latest save of each thread's root namespace, """
        self.next: dict[str, Put] = {}
        """and the one to come. Of `gone` it relies on values that went with it."""
        self._dumps: dict[bytes, tuple[bytes, int]] = {}
        self._known: deque[Seen] = deque(maxlen=20)

    async def build(self) -> None:
        """Make all threads, and remember their keys."""
        expiring: Any = AsyncShape(RedisSaver(self.client, prefix=self.prefix, ttl=TTL))
        short: Any = AsyncShape(RedisSaver(self.client, prefix=self.prefix, ttl=SHORT))
        for name in ("delta", "pruned"):
            self.chains[name] = await self._delta(expiring, name)
            await self._plain(expiring, name, "child", 2)
        await expiring.aprune(["pruned"])
        for name, saver, length in (("plain", expiring, 3), ("due", short, 2), ("long due", short, 6), ("pinned", expiring, 6)):
            self.chains[name] = await self._plain(saver, name, "", length)
        await expiring.apersist_thread("pinned")
        self.chains["gone"] = await self._plain(expiring, "gone", "", 2)
        await expiring.adelete_thread("gone")
        self.chains["new"] = Chain(expiring, "new")
        for name, chain in self.chains.items():
            await self._prepare(name, chain)
        keys = keys_under(self.client, self.prefix)
        self._dumps = {key: (self.client.dump(key) or b"", max(self.client.pttl(key), 0)) for key in keys}

    @staticmethod
    async def _plain(saver: Any, thread: str, ns: str, length: int) -> Chain:
        chain = Chain(saver, thread, ns)
        for step in range(length):
            await chain.put(
                {"large": [step] * 20, "small": step} if step % 2 == 0 else {"small": step}, run_id=f"run-{step % 2}"
            )
            await chain.write(("large", step), ("__interrupt__", step), task=f"task-{step}")
        return chain

    @staticmethod
    async def _delta(saver: Any, thread: str) -> Chain:
        chain = Chain(saver, thread)
        for step in range(6):
            run = f"run-{step // 3}"
            if step == 1:
                await chain.put({"items": ["seed"] * 20}, run_id=run)
                del chain.values["items"]
            else:
                counters: dict[str, Any] = {"counters_since_delta_snapshot": {"items": (step, step)}} if step > 1 else {}
                await chain.put({"large": [step] * 20}, cleared=["items"] if counters else [], run_id=run, **counters)
            await chain.write(("items", f"write-{step}"), task=f"task-{step}")
        return chain

    async def _prepare(self, name: str, chain: Chain) -> None:
        """The next checkpoint of a thread: one value changes, another does not."""
        latest = await chain.latest()
        if latest:
            parent = latest.parent_config or config_of(name)
            self.last[name] = Put(parent, chain.checkpoint(id_of(chain.config)), latest.metadata, {})
        recorder = _Recorder(chain.saver)
        chain.saver = recorder
        await chain.put({"other": ["next"] * 20}, run_id="run-1")
        chain.configs.pop()
        self.next[name] = recorder.put

    def places(self, thread: str, ns: str = "") -> list[Place]:
        """Where the checkpoints of a thread were put, oldest first."""
        return [Place(thread, ns, id_of(one)) for one in self.chains[thread].configs]

    def reset(self, threads: Collection[str]) -> None:
        """Have these threads as they were made, and no other."""
        self.clear()
        wanted = tuple(f"{self.prefix}:{{{thread}}}".encode() for thread in threads)
        with self.client.pipeline(transaction=False) as pipeline:
            for key, (dump, left) in self._dumps.items():
                if key.startswith(wanted):
                    pipeline.restore(key, left, dump)
            pipeline.execute()

    def clear(self) -> None:
        """Have none at all."""
        if keys := keys_under(self.client, self.prefix):
            self.client.unlink(*keys)

    def see(self) -> Seen:
        """Look at everything; what has been seen just like that before is not read once more."""
        keys = keys_under(self.client, self.prefix)
        with self.client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.pttl(key)
                if key.endswith((b"}:index", b"}:retained")):
                    pipeline.zrange(key, 0, -1)
                else:
                    pipeline.hgetall(key)
            found = pipeline.execute()
        short = [key[len(self.prefix) + 1 :] for key in keys]
        left = {key: -1 if one < 0 else 2 * round(one / _MINUTE / 2) for key, one in zip(short, found[::2], strict=True)}
        assert all(0 <= one <= 2 for key, one in left.items() if key.startswith(_OF_SETUP)), left
        for key in short:
            assert key[: key.index(b"}") + 1] + b":index" in left, f"{key!r} has no thread"
        content = {key: one for key, one in zip(short, found[1::2], strict=True) if not key.startswith(_OF_SETUP)}
        left = {key: one for key, one in left.items() if not key.startswith(_OF_SETUP)}
        milliseconds = dict(zip(short, found[::2], strict=True))
        for known in self._known:
            if known.content == content:
                return replace(known, left=left, milliseconds=milliseconds)
        tuples = {self._place(one): one for one in self.saver.list(None) if not self._place(one).thread.startswith("setup-")}
        self._known.appendleft(Seen(content, left, tuples, {place: self._history(place) for place in tuples}, milliseconds))
        return self._known[0]

    @staticmethod
    def _place(found: CheckpointTuple) -> Place:
        at = found.config["configurable"]
        return Place(at["thread_id"], at["checkpoint_ns"], at["checkpoint_id"])

    def _history(self, place: Place) -> Any:
        try:
            return self.saver.get_delta_channel_history(config=config_of(*place), channels=["items"])
        except BrokenHistoryError:
            return BrokenHistoryError


def assert_old_or_new(seen: Seen, old: Seen, new: Seen) -> None:
    """Nothing in between; but a deadline may have moved for a save that has not come."""
    assert seen.content in (old.content, new.content)
    assert seen.histories in (old.histories, new.histories)
    for thread, left in seen.threads().items():
        assert left in (old.left.get(thread), new.left.get(thread)), thread


def assert_outlived(seen: Seen) -> None:
    """A deadline that is on its way is never such that data goes before its thread, or stays when nobody comes back to it."""
    for key, left in seen.left.items():
        thread = seen.left[key[: key.index(b"}") + 1] + b":index"]
        assert left in (-1, thread) or left >= (_MONTH if thread == -1 else thread), (key, left, thread)


def assert_between(seen: Seen, old: Seen, new: Seen) -> None:
    """What is in both stays; the rest is as in one of them or not there; and a namespace's latest is its old or its new one."""
    both = old.tuples.keys() & new.tuples.keys()
    assert both <= seen.tuples.keys() <= old.tuples.keys() | new.tuples.keys()
    for place, found in seen.tuples.items():
        assert found in [one.tuples[place] for one in (old, new) if place in one.tuples]
        histories = [one.histories[place] for one in (old, new) if place in one.histories]
        # What is on its way out, or in, may lack an ancestor; it must say so.
        assert seen.histories[place] in [*histories, *([] if place in both else [BrokenHistoryError])]
    latest = [one.latest() for one in (old, new)]
    for namespace in {*latest[0], *latest[1]}:
        assert seen.latest().get(namespace) in [one.get(namespace) for one in latest], namespace
