"""The operation that gathers what rebuilds delta channels: the writes of a checkpoint's ancestors, back to a stored value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis import address, keys, records, scripts
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.errors import BrokenHistoryError
from langgraph.checkpoint.fastredis.lifetime import refresh
from langgraph.checkpoint.fastredis.reading import PAGE_BYTES, of_member

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph.checkpoint.fastredis.address import Address
    from langgraph.checkpoint.fastredis.context import Context

# An ancestor takes a server about ten microseconds, so a page about two and a half milliseconds.
PAGE = 250
_BROKEN = {
    b"broken": "and the server no longer holds it",
    b"circle": "whose parents lead back to itself",
}


def get_delta_channel_history(
    context: Context, config: RunnableConfig, channels: Sequence[str]
) -> Operation[dict[str, DeltaChannelHistory]]:
    """Walk from a checkpoint (the latest of its namespace, where the config has no id) to the seeds of the channels.

    Raises:
        BrokenHistoryError: an ancestor is missing while a channel still needs it.
        IncompleteCheckpointError: the checkpoint itself, or a seed, is missing.
    """
    at = address.parse(config)
    if not channels:
        return {}
    thread = context.keyspace.thread(at.thread_id)
    walk = _Walk(at, channels)
    more = True
    while more:
        left, status, *found = yield Call(
            scripts.HISTORY,
            (thread.index, thread.channels, thread.absent),
            (thread.base, *walk.state(), walk.page(), PAGE_BYTES, *walk.open),
        )
        more = walk.take(status, found)
        if not more:
            yield from refresh(context, thread, left)
    return walk.result(context.serde)


class _Walk:
    """What the pages of a walk brought: steps nearest first, seeds, and where to go on."""

    def __init__(self, at: Address, channels: Sequence[str]) -> None:
        self._at = at
        self._channels = channels
        self._ns = keys.to_part(at.namespace or "")
        self._member = keys.member(self._ns, keys.to_id(at.checkpoint_id)) if at.checkpoint_id else b""
        self._bound = keys.member_above(self._ns)
        self._parent = b""
        self._mark = b""
        self._pages = 0
        self._steps: list[Any] = []
        self._seeds: dict[str, tuple[bytes, bytes | None]] = {}
        self.open = {keys.to_part(channel): channel for channel in channels}

    def page(self) -> int:
        """How many ancestors to look at in one call: for each open channel a value is looked for at each of them."""
        return max(4 * PAGE // (3 + len(self.open)), 1)

    def state(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """The arguments of the script that change from page to page."""
        return self._ns, self._member, self._bound, self._parent, self._mark

    def take(self, status: bytes, found: Sequence[Any]) -> bool:
        """Take a page in; whether there is more to come."""
        if status in (b"absent", b"evicted"):
            return self._end(status, found)
        if status == b"more":
            self._bound = found[0]
            return True
        self._parent, steps, seeds = found
        self._steps += steps
        for channel, kind, value in seeds:
            self._seeds[self.open.pop(channel)] = kind, value
        if status in _BROKEN:
            raise self._broken(_BROKEN[status])
        # Marked after 1, 2, 4, 8... pages, one ancestor is enough to find a circle within about three times its length.
        self._pages += 1
        if self._pages & (self._pages - 1) == 0:
            self._mark = self._parent
        return bool(self._parent)

    def _end(self, status: bytes, found: Sequence[Any]) -> bool:
        """Nothing to walk from: fine only for a namespace that has no checkpoint at all.

        Who has just read the checkpoint would take an empty history for that of an empty channel.
        """
        at = self._at
        if status == b"evicted":
            raise records.missing_checkpoint(of_member(at.thread_id, found[0]))
        if at.checkpoint_id is None:
            return False
        message = (
            f"checkpoint {at.checkpoint_id!r} of thread {at.thread_id!r}, namespace {at.namespace or ''!r}, is not stored: it"
            " was never saved, or has been deleted, pruned or expired since it was read; read the thread again"
        )
        raise BrokenHistoryError(message)

    def _broken(self, reason: str) -> BrokenHistoryError:
        at = self._at
        return BrokenHistoryError(
            f"checkpoint {at.checkpoint_id or 'latest'!r} of thread {at.thread_id!r}, namespace {at.namespace or ''!r}, needs"
            f" its ancestor {keys.from_id(self._parent)!r} to rebuild the channels {sorted(self.open.values())}, {reason}."
            f" {records.ADVICE}"
        )

    def result(self, serde: SerializerProtocol) -> dict[str, DeltaChannelHistory]:
        """Per channel its writes, oldest first, and its seed where there is one."""
        writes: dict[str, list[PendingWrite]] = {channel: [] for channel in self._channels}
        for step in reversed([*self._each_step()]):
            for write in records.unpack_writes(serde, records.pairs(step)):
                writes[write[1]].append(write)
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": writes[channel]} for channel in self._channels}
        for channel, seed in self._unpack_seeds(serde):
            found[channel]["seed"] = seed
        return found

    def _each_step(self) -> Iterator[Sequence[bytes]]:
        """Field, value of each write of an ancestor, the nearest first."""
        at = 0
        while at < len(self._steps):
            ends = at + 1 + self._steps[at]
            yield self._steps[at + 1 : ends]
            at = ends

    def _unpack_seeds(self, serde: SerializerProtocol) -> Iterator[tuple[str, Any]]:
        for channel, (kind, value) in self._seeds.items():
            if value is None:
                raise records.missing_value(self._at, channel)
            yield channel, records.from_held(serde, value) if kind == b"=" else records.from_blob(serde, value)
