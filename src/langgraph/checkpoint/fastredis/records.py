r"""Checkpoints, metadata, channel values and writes, to and from the fields of Redis hashes.

A *blob* is `<type> NUL <bytes>`, exactly what the serializer's `dumps_typed` returned. A *listing* names the channels of a
checkpoint: for each, `\\2 <channel> NUL <version> NUL <holding>`, where the holding is

* `+`: the checkpoint had a value, which is stored in the channels hash under that version and must be there;
* empty: it had none; one that is stored under that version is its value all the same, as in the reference savers;
* `=` and an escaped blob: the value itself. Small scalars are kept so: most are `None` in channels that trigger nodes, and a
  field of their own takes about a hundred bytes of the server's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, get_checkpoint_metadata

from langgraph.checkpoint.fastredis import keys
from langgraph.checkpoint.fastredis.errors import IncompleteCheckpointError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        PendingWrite,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph.checkpoint.fastredis.address import Address

FORMAT = b"1"
_SMALL = 32
_HOLDS_STORED = b"+"
_HOLDS_ITSELF = b"="


def to_blob(serde: SerializerProtocol, value: object) -> bytes:
    """A value in the form in which it is stored.

    Raises:
        ValueError: the serializer gives it a type whose name ends early, or has no encoding.
        TypeError: that type has no name at all.
    """
    kind, data = serde.dumps_typed(value)
    encoded = keys.encode(kind)
    if b"\0" in encoded:
        message = f"the serializer gives a value the type {kind!r}, in which NUL would be taken for the end of the name"
        raise ValueError(message)
    return encoded + b"\0" + data


def from_blob(serde: SerializerProtocol, blob: bytes) -> Any:
    """The value that `to_blob` was given."""
    kind, _, data = blob.partition(b"\0")
    return serde.loads_typed((kind.decode(), data))


def _is_small(value: object) -> bool:
    kind = type(value)
    return value is None or kind is bool or kind is int or kind is float or (kind is str and len(cast("str", value)) <= _SMALL)


class ListedChannel(NamedTuple):
    """An entry of a listing."""

    channel: bytes
    version: bytes
    holding: bytes

    @property
    def is_stored(self) -> bool:
        """Whether its value, if any, is in the channels hash."""
        return not self.holding.startswith(_HOLDS_ITSELF)

    @property
    def is_required(self) -> bool:
        """Whether a value must be found there."""
        return self.holding == _HOLDS_STORED

    def field(self, ns: bytes) -> bytes:
        """Its field in the channels hash."""
        return ns + b"\0" + keys.entry(self.channel, self.version)


def parse_listing(listing: bytes) -> Iterator[ListedChannel]:
    """The entries of a listing, in order."""
    for entry in listing.split(keys.ENTRY)[1:]:
        yield ListedChannel(*entry.split(keys.SEPARATOR))


def from_held(serde: SerializerProtocol, escaped: bytes) -> Any:
    """The small value that a listing holds itself."""
    return from_blob(serde, keys.unescape(escaped))


class PackedCheckpoint:
    """A checkpoint ready to be sent: packed before the first await, for the state may change while a save is under way.

    Attributes:
        listing: all channels but the carried ones.
        values: field, blob of each new value for the channels hash.
        relied: field of each value that did not change; it must be stored already.
        cleared: field of each channel that changed and has no value now.
        carried: `channel NUL version` of each channel that has no value here but did not change: it may have one under
            that version.
    """

    def __init__(self, serde: SerializerProtocol, ns: bytes, checkpoint: Checkpoint, new_versions: ChannelVersions) -> None:
        self._serde = serde
        self._ns = ns
        self._values = dict(checkpoint["channel_values"])
        self._relied_channels: list[str] = []
        self._listing: list[bytes] = []
        self.values: list[bytes] = []
        self.relied: list[bytes] = []
        self.cleared: list[bytes] = []
        self.carried: list[bytes] = []
        for channel, version in checkpoint["channel_versions"].items():
            self._add(channel, keys.entry(keys.to_part(channel), keys.to_version(version)), is_new=channel in new_versions)

    def _add(self, channel: str, entry: bytes, *, is_new: bool) -> None:
        field = self._ns + b"\0" + entry
        holding = b""
        if channel not in self._values:
            if not is_new:
                self.carried.append(entry)
                return
            self.cleared.append(field)
        elif _is_small(value := self._values[channel]):
            holding = _HOLDS_ITSELF + keys.escape(to_blob(self._serde, value))
        else:
            holding = _HOLDS_STORED
            if is_new:
                self.values += field, to_blob(self._serde, value)
            else:
                self.relied.append(field)
                self._relied_channels.append(channel)
        self._listing.append(keys.ENTRY + entry + b"\0" + holding)

    @property
    def listing(self) -> bytes:
        """The listing, but for the carried channels."""
        return b"".join(self._listing)

    def send_relied(self, positions: Iterable[int]) -> None:
        """Send these of the relied values too (counted from 1): the server does not have them."""
        missing = set(positions)
        for position in missing:
            value = self._values[self._relied_channels[position - 1]]
            self.values += self.relied[position - 1], to_blob(self._serde, value)
        rest = [at for at in range(len(self.relied)) if at + 1 not in missing]
        self.relied = [self.relied[at] for at in rest]
        self._relied_channels = [self._relied_channels[at] for at in rest]


def pack_body(
    serde: SerializerProtocol, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, parent: bytes
) -> list[bytes]:
    """Field, value of everything in a checkpoint hash but listing and writes."""
    whole = get_checkpoint_metadata(config, metadata)
    body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
    run = whole.get("run_id")
    return [
        *(b"format", FORMAT),
        *(b"parent", parent),
        *(b"run", b"" if run is None else keys.encode(str(run))),
        *(b"checkpoint", to_blob(serde, body)),
        *(b"metadata", to_blob(serde, whole)),
        *(b"delta", b"".join(keys.to_part(channel) + keys.SEPARATOR for channel in _leaning(whole, checkpoint))),
    ]


def _leaning(metadata: Mapping[str, Any], checkpoint: Checkpoint) -> list[str]:
    """The channels that lean on ancestors; whoever prunes must know them."""
    counters: object = metadata.get("counters_since_delta_snapshot") or {}
    if not isinstance(counters, Mapping):
        message = f"metadata['counters_since_delta_snapshot'] must map channels to counters; it is {counters!r}"
        raise TypeError(message)
    # LangGraph counts for channels that were never written, too; without a version there is nothing to rebuild.
    return [channel for channel in cast("Mapping[str, Any]", counters) if channel in checkpoint["channel_versions"]]


def parse_delta(delta: bytes) -> list[bytes]:
    """The channels that lean on ancestors, as listings name them."""
    return delta.split(keys.SEPARATOR)[:-1]


def pack_writes(
    serde: SerializerProtocol, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> tuple[list[bytes], list[bytes]]:
    """Field, value of each regular write, and of each special one, whose slot is fixed by its channel."""
    regular: list[bytes] = []
    special: list[bytes] = []
    path = keys.to_part(task_path)
    for position, (channel, value) in enumerate(writes):
        index = WRITES_IDX_MAP.get(channel, position)
        packed = b"\0".join((path, keys.to_part(channel), to_blob(serde, value)))
        (regular if index >= 0 else special).extend((keys.write_field(task_id, index), packed))
    return regular, special


def unpack_writes(serde: SerializerProtocol, stored: Iterable[tuple[bytes, bytes]]) -> list[PendingWrite]:
    """Writes in the order in which LangGraph applies them: by task path, task id, and index as a number."""
    found: list[tuple[tuple[str, str, int], str, bytes]] = []
    for field, value in stored:
        task_id, index = keys.split_write_field(field)
        path, channel, blob = value.split(b"\0", 2)
        found.append(((keys.from_part(path), task_id, index), keys.from_part(channel), blob))
    found.sort(key=lambda write: write[0])
    return [(order[1], channel, from_blob(serde, blob)) for order, channel, blob in found]


def pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Field, value of a flat reply."""
    return zip(flat[::2], flat[1::2], strict=True)


def _channel_values(serde: SerializerProtocol, at: Address, listing: bytes, stored: Iterator[bytes | None]) -> dict[str, Any]:
    """What a listing names; `stored` holds the values from the channels hash, in the order of the listing."""
    values: dict[str, Any] = {}
    for listed in parse_listing(listing):
        if not listed.is_stored:
            values[keys.from_part(listed.channel)] = from_held(serde, listed.holding[1:])
            continue
        blob = next(stored)
        if blob is not None:
            values[keys.from_part(listed.channel)] = from_blob(serde, blob)
        elif listed.is_required:
            raise missing_value(at, keys.from_part(listed.channel))
    return values


def missing_value(at: Address, channel: str) -> IncompleteCheckpointError:
    """The error for a channel value that should be stored and is not."""
    return IncompleteCheckpointError(
        f"checkpoint {at.checkpoint_id!r} of thread {at.thread_id!r}, namespace {at.namespace!r}, has lost its value of"
        f" channel {channel!r}: the server no longer holds it. {ADVICE}"
    )


def missing_checkpoint(at: Address) -> IncompleteCheckpointError:
    """The error for a checkpoint that the index names and the server no longer holds."""
    return IncompleteCheckpointError(
        f"checkpoint {at.checkpoint_id!r} of thread {at.thread_id!r}, namespace {at.namespace!r}, is listed, but the server"
        f" no longer holds it. {ADVICE}"
    )


ADVICE = (
    "Set maxmemory-policy to noeviction so that keys are not evicted one by one; the thread itself can be continued from an"
    " older checkpoint, by its id, or removed with delete_thread."
)


def unpack_checkpoint(
    serde: SerializerProtocol, at: Address, flat: Sequence[bytes], stored: Iterator[bytes | None]
) -> CheckpointTuple:
    """A whole checkpoint from its hash and the values that its listing names.

    Raises:
        IncompleteCheckpointError: a value that it needs is not there.
        UnsupportedFormatError: it was stored by a newer version of this package.
    """
    fields = dict(pairs(flat))
    if fields[b"format"] != FORMAT:
        message = (
            f"checkpoint {at.checkpoint_id!r} of thread {at.thread_id!r} is stored in format {fields[b'format'].decode()!r};"
            f" this version reads {FORMAT.decode()!r}: update langgraph-checkpoint-fastredis"
        )
        raise UnsupportedFormatError(message)
    body: dict[str, Any] = from_blob(serde, fields[b"checkpoint"])
    body["channel_values"] = _channel_values(serde, at, fields[b"channels"], stored)
    parent = fields.get(b"parent")
    return CheckpointTuple(
        config=at.config(),
        checkpoint=cast("Checkpoint", body),
        metadata=from_blob(serde, fields[b"metadata"]),
        parent_config=at._replace(checkpoint_id=keys.from_id(parent)).config() if parent else None,
        pending_writes=unpack_writes(
            serde, ((field, value) for field, value in fields.items() if field.startswith(keys.WRITE))
        ),
    )


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all wanted keys have the wanted values; an absent key equals `None`."""
    return all(metadata.get(key) == value for key, value in wanted.items())
