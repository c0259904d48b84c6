"""The reference: `InMemorySaver` itself, and on top of its storage what it does not have or leaves open.

What it does not have: `copy_thread`, `delete_for_runs` and `prune`, written here anew, as slowly and plainly as can be. What it
leaves open: the order of a listing over several namespaces, and what happens where an ancestor is missing.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from langgraph.checkpoint.memory import InMemorySaver

from langgraph.checkpoint.fastredis import BrokenHistoryError
from langgraph.checkpoint.fastredis.keys import to_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple, DeltaChannelHistory

Entry: TypeAlias = tuple[tuple[str, bytes], tuple[str, bytes], "str | None"]
LEANING = "counters_since_delta_snapshot"


class At(NamedTuple):
    """A place in the storage: InMemorySaver's own key of a checkpoint's writes."""

    thread: str
    ns: str
    id: str


def config_of(thread_id: object, ns: str | None = "", checkpoint_id: str | None = None) -> RunnableConfig:
    """A config as a caller would write it: what is `None` is left out."""
    parts = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": {name: part for name, part in parts.items() if part is not None}}


def canonical(config: RunnableConfig) -> RunnableConfig:
    """The same config with its thread id as text and its namespace spelled out."""
    configurable = config["configurable"]
    named = {"thread_id": str(configurable["thread_id"]), "checkpoint_ns": configurable.get("checkpoint_ns", "")}
    return {**config, "configurable": {**configurable, **named}}


def newest_first(found: CheckpointTuple) -> tuple[str, bytes]:
    """The sort key, to be reversed, of a listing: by id; the same id in several namespaces, by namespace as it is stored."""
    configurable = found.config["configurable"]
    return configurable["checkpoint_id"], to_part(configurable["checkpoint_ns"])


def is_small(value: object) -> bool:
    """Whether a value is kept beside its checkpoint rather than among the channel values (README, "Key layout")."""
    return value is None or type(value) in (bool, int, float) or (type(value) is str and len(value) <= 32)


def exact(value: Any) -> Any:
    """A value so that `==` sees types too: `0`, `False` and `0.0` differ, as do tuples, lists and snapshots."""
    if isinstance(value, dict):
        return type(value), {key: exact(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [exact(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, value))
    return type(value), repr(value) if isinstance(value, float) else value


def goes_round(links: Mapping[tuple[str, str], str | None]) -> bool:
    """Whether following parents ever comes back, where the reference would go on for ever."""
    for ns, start in links:
        seen: set[str | None] = set()
        at: str | None = start
        while at:
            if at in seen:
                return True
            seen.add(at)
            at = links.get((ns, at))
    return False


class Reference(InMemorySaver):
    """What a saver must be indistinguishable from.

    Attributes:
        retained: checkpoints that are no longer listed but still walked through.
        orphans: checkpoints that have lost the record of their parent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.retained: dict[At, Entry] = {}
        self.orphans: set[At] = set()

    # What InMemorySaver has, made canonical.

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """As InMemorySaver; a retained checkpoint that is put again is listed again."""
        saved = super().put(canonical(config), checkpoint, metadata, new_versions)
        configurable = saved["configurable"]
        at = At(configurable["thread_id"], configurable["checkpoint_ns"], configurable["checkpoint_id"])
        self.retained.pop(at, None)
        self.orphans.discard(at)
        return saved

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """As InMemorySaver."""
        super().put_writes(canonical(config), writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As InMemorySaver; the config returned is always the canonical one."""
        config = canonical(config)
        found = super().get_tuple(config)
        if found is None:
            return None
        thread_id, ns = config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"]
        return found._replace(config=config_of(thread_id, ns, found.checkpoint["id"]))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """As InMemorySaver; a thread's checkpoints come newest first over all its namespaces."""
        if config is not None:
            configurable = config["configurable"]
            config = {"configurable": {**configurable, "thread_id": str(configurable["thread_id"])}}
        found = sorted(super().list(config, filter=filter, before=before), key=newest_first, reverse=True)
        return iter(found if limit is None else found[: max(limit, 0)])

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As InMemorySaver; but a checkpoint that is not stored, or whose ancestor a channel needs is not, is an error."""
        if not channels:
            return {}
        configurable = canonical(config)["configurable"]
        thread, ns = configurable["thread_id"], configurable["checkpoint_ns"]
        own = configurable.get("checkpoint_id") or max((at.id for at in self.listed(thread) if at.ns == ns), default=None)
        if own is None:
            return {channel: {"writes": []} for channel in channels}
        at = At(thread, ns, own)
        with self._retained_in_storage():
            if at not in self.listed(thread) or self._walk(at, channels)[1]:
                raise BrokenHistoryError
            return super().get_delta_channel_history(config=config_of(*at), channels=channels)

    def delete_thread(self, thread_id: object) -> None:
        """As InMemorySaver, and what is retained too."""
        thread = str(thread_id)
        super().delete_thread(thread)
        self.retained = {at: entry for at, entry in self.retained.items() if at.thread != thread}
        self.orphans = {at for at in self.orphans if at.thread != thread}

    # What it does not have.

    def copy_thread(self, source_thread_id: object, target_thread_id: object) -> None:
        """Copy all that a thread has stored into another; what only the other has stays, and what either lists is listed."""
        source, target = str(source_thread_id), str(target_thread_id)
        if source == target:
            return
        places = self.index(target) | {at._replace(thread=target) for at in self.index(source)}
        for at, entry in self.stored(source).items():
            to = at._replace(thread=target)
            self.retained[to] = self._merged(at, entry, to)
        for to in places & self.retained.keys():
            self.storage[target][to.ns][to.id] = self.retained.pop(to)
        for key in [key for key in self.writes if key[0] == source]:
            self.writes[target, key[1], key[2]].update(self.writes[key])
        self.blobs |= {(target, *field[1:]): blob for field, blob in self.blobs.items() if field[0] == source}

    def _merged(self, at: At, entry: Entry, to: At) -> Entry:
        """A checkpoint as its copy is stored: one that has no record of a parent leaves that of an earlier copy alone."""
        mine = self.stored(to.thread).get(to)
        if at not in self.orphans:
            self.orphans.discard(to)
        elif mine is None:
            self.orphans.add(to)
        else:
            return entry[0], entry[1], mine[2]
        return entry

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs in all threads."""
        runs = {str(run_id) for run_id in run_ids} - {""}
        for thread in [*self.list_threads()]:
            listed = self.listed(thread)
            survivors = {at for at in listed if self._run(listed[at]) not in runs}
            # Also where none of them goes: ancestors that nothing leans on any more do.
            self._keep_only(thread, survivors | self.pending(thread))

    def _run(self, entry: Entry) -> str:
        run = self._metadata(entry).get("run_id")
        return "" if run is None else str(run)

    def prune(self, thread_ids: Sequence[object], *, strategy: str = "keep_latest") -> None:
        """Keep the latest checkpoint of each namespace, and writes whose checkpoint would be newer; or nothing."""
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            latest: dict[str, At] = {}
            for at in sorted(self.listed(thread)):
                latest[at.ns] = at
            newer = {at for at in self.pending(thread) if at.ns not in latest or at.id > latest[at.ns].id}
            self._keep_only(thread, newer | {*latest.values()})

    def _keep_only(self, thread: str, survivors: set[At]) -> None:
        stored = self.stored(thread)
        staying = survivors | self._leaned_on(survivors & stored.keys())
        self.retained = {at: entry for at, entry in self.retained.items() if at.thread != thread}
        self.storage.pop(thread, None)
        for at in staying & stored.keys():
            entry = stored[at]
            if at not in survivors:
                self.retained[at] = entry
                continue
            if entry[2] and at._replace(id=entry[2]) in stored.keys() - staying:
                self.orphans.add(at)
                entry = entry[0], entry[1], None
            self.storage[thread][at.ns][at.id] = entry
        for key in [key for key in self.writes if key[0] == thread and At(*key) not in staying]:
            del self.writes[key]
        named = {key for at, entry in self.stored(thread).items() for key in self._named(at, entry)}
        for field in [field for field in self.blobs if field[0] == thread and field not in named]:
            del self.blobs[field]

    def _leaned_on(self, survivors: set[At]) -> set[At]:
        """The ancestors on the way to the seeds of the survivors' delta channels."""
        kept: set[At] = set()
        with self._retained_in_storage():
            for survivor in survivors:
                for channel in self._metadata(self._entry(survivor)).get(LEANING) or {}:
                    kept.update(self._walk(survivor, [channel])[0])
        return kept

    # Looking at the storage.

    def listed(self, thread: str) -> dict[At, Entry]:
        """The checkpoints of a thread that can be read."""
        spaces = self.storage.get(thread, {})
        return {At(thread, ns, own): entry for ns, entries in spaces.items() for own, entry in entries.items()}

    def stored(self, thread: str) -> dict[At, Entry]:
        """Those and the retained ones."""
        return self.listed(thread) | {at: entry for at, entry in self.retained.items() if at.thread == thread}

    def pending(self, thread: str) -> set[At]:
        """Where there are writes whose checkpoint has not arrived."""
        return {At(*key) for key, writes in self.writes.items() if key[0] == thread and writes} - self.stored(thread).keys()

    def index(self, thread: str) -> set[At]:
        """What a thread has a place in its index for."""
        return {*self.listed(thread), *self.pending(thread)}

    def list_threads(self) -> dict[str, int]:
        """Each thread, and how many places in its index."""
        found = {thread: len(self.index(thread)) for thread in {*self.storage, *(key[0] for key in self.writes)}}
        return {thread: count for thread, count in found.items() if count}

    def values_in_hash(self, thread: str) -> int:
        """How many channel values the checkpoints of a thread name that are not so small that they are kept beside them."""
        fields = {field for at, entry in self.stored(thread).items() for field in self._named(at, entry)}
        blobs = [self.blobs[field] for field in fields if field in self.blobs]
        return sum(blob[0] != "empty" and not is_small(self.serde.loads_typed(blob)) for blob in blobs)

    def links(self, thread: str) -> dict[tuple[str, str], str | None]:
        """Which checkpoint of a thread has which parent."""
        return {(at.ns, at.id): entry[2] for at, entry in self.stored(thread).items() if entry[2]}

    def shares(self, at: At, versions: ChannelVersions) -> bool:
        """Whether another checkpoint, of any thread, names one of these versions."""
        fields = {(at.ns, *item) for item in versions.items()}
        every = [one for thread in self.list_threads() for one in self.stored(thread).items()]
        return any(field[1:] in fields for one, entry in every if one != at for field in self._named(one, entry))

    def _entry(self, at: At) -> Entry:
        return self.storage[at.thread][at.ns][at.id]

    def _metadata(self, entry: Entry) -> dict[str, Any]:
        found: dict[str, Any] = self.serde.loads_typed(entry[1])
        return found

    def _named(self, at: At, entry: Entry) -> Sequence[tuple[str, str, str, str | int | float]]:
        versions = self.serde.loads_typed(entry[0])["channel_versions"]
        return [(at.thread, at.ns, channel, version) for channel, version in versions.items()]

    def _walk(self, at: At, channels: Sequence[str]) -> tuple[Sequence[At], bool]:
        """The ancestors that hold the history of the channels; and whether one is missing that is needed."""
        wanted = set(channels)
        passed: deque[At] = deque()
        while wanted and (parent := self._entry(at)[2]):
            above = at._replace(id=parent)
            entry = self.storage[at.thread][at.ns].get(parent)
            if entry is None:
                return passed, True
            passed.append(above)
            seeded = {field[2] for field in self._named(above, entry) if self.blobs.get(field, ("empty",))[0] != "empty"}
            wanted -= seeded
            at = above
        return passed, False

    @contextmanager
    def _retained_in_storage(self) -> Iterator[None]:
        for at, entry in self.retained.items():
            self.storage[at.thread][at.ns][at.id] = entry
        try:
            yield
        finally:
            for at in self.retained:
                del self.storage[at.thread][at.ns][at.id]
