"""The operations that read checkpoints: one, and lists of them in pages."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis import address, keys, records, scripts
from langgraph.checkpoint.fastredis.address import Address
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.lifetime import refresh
from langgraph.checkpoint.fastredis.threads import each_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langgraph.checkpoint.fastredis.context import Context

# A page of whole checkpoints ends with the one that takes it past a megabyte, which a server copies in about a millisecond.
PAGE = 100
PAGE_BYTES = 1 << 20
METADATA_PAGE = 250
_ABOVE_ALL_NAMESPACES = b"\xff"


def of_member(thread_id: str, member: bytes) -> Address:
    """The checkpoint that a member of the thread's index names."""
    ns, encoded_id = keys.split_member(member)
    return Address(thread_id, keys.from_part(ns), keys.from_id(encoded_id))


def get_tuple(context: Context, config: RunnableConfig) -> Operation[CheckpointTuple | None]:
    """Read one checkpoint: the one with the config's id, or the latest of its namespace."""
    at = address.parse(config)
    thread = context.keyspace.thread(at.thread_id)
    ns = keys.to_part(at.namespace or "")
    member = keys.member(ns, keys.to_id(at.checkpoint_id)) if at.checkpoint_id else b""
    bound = keys.member_above(ns)
    while True:
        left, status, *found = yield Call(
            scripts.GET, (thread.index, thread.channels, thread.absent), (thread.base, ns, member, bound)
        )
        if status != b"more":
            break
        bound = found[0]
    yield from refresh(context, thread, left)
    if status == b"absent":
        return None
    exact = of_member(at.thread_id, found[0])
    if status == b"evicted":
        raise records.missing_checkpoint(exact)
    return records.unpack_checkpoint(context.serde, exact, found[1], iter(found[2]))


class _Listing:
    """Where a listing of one thread has got to."""

    def __init__(self, context: Context, at: Address, filter_: dict[str, Any] | None, before: str | None) -> None:
        self._context = context
        self._thread = context.keyspace.thread(at.thread_id)
        self._only = keys.to_id(at.checkpoint_id) if at.checkpoint_id else None
        self._filter = filter_
        scope = b"thread" if at.namespace is None else b"namespace"
        self._scope = scope, keys.to_part(at.namespace or "")
        self._below = (keys.to_id(before), b"") if before else (b"", b"")
        if self._only:
            # An id below the bound is begun with; then every namespace that has it is still to come.
            self.done = bool(before and at.checkpoint_id and at.checkpoint_id >= before)
            self._below = self._only, _ABOVE_ALL_NAMESPACES
        else:
            self.done = False

    @property
    def _is_single(self) -> bool:
        return self._only is not None and self._scope[0] == b"namespace"

    def page(self, most: int | None) -> Operation[list[CheckpointTuple]]:
        """The next checkpoints, at most `most`."""
        if self._filter:
            return (yield from self._filtered_page(most))
        left, cursor, checkpoints, values = yield Call(
            scripts.LIST,
            (self._thread.index, self._thread.channels, self._thread.absent),
            (self._thread.base, *self._scope, *self._below, self._count(PAGE, most), PAGE_BYTES, 0),
        )
        self._advance(cursor)
        yield from refresh(self._context, self._thread, left)
        return list(self._unpack(checkpoints, values))

    def _filtered_page(self, most: int | None) -> Operation[list[CheckpointTuple]]:
        left, cursor, entries = yield Call(
            scripts.LIST_METADATA,
            (self._thread.index, self._thread.absent),
            (self._thread.base, *self._scope, *self._below, self._count(METADATA_PAGE), PAGE_BYTES),
        )
        self._advance(cursor)
        yield from refresh(self._context, self._thread, left)
        matching = deque(self._matching(entries))
        found: list[CheckpointTuple] = []
        while matching and (most is None or len(found) < most):
            wanted = [*matching][: PAGE if most is None else min(PAGE, most - len(found))]
            read, checkpoints, values = yield Call(
                scripts.READ,
                (self._thread.index, self._thread.channels, self._thread.absent),
                (self._thread.base, PAGE_BYTES, *wanted),
            )
            found += self._unpack(checkpoints, values)
            for _ in range(read):
                matching.popleft()
        return found

    def _count(self, page: int, most: int | None = None) -> int:
        if self._is_single:
            return 1
        return page if most is None else min(page, most)

    def _advance(self, cursor: bytes) -> None:
        ns, encoded_id = keys.split_member(cursor)
        self._below = encoded_id, ns
        self.done = not cursor or self._is_single or (self._only is not None and encoded_id != self._only)

    def _matching(self, entries: Sequence[Sequence[bytes]]) -> Iterator[bytes]:
        for member, *metadata in entries:
            if self._only and keys.split_member(member)[1] != self._only:
                continue
            if not metadata:
                raise records.missing_checkpoint(of_member(self._thread.thread_id, member))
            if records.matches(records.from_blob(self._context.serde, metadata[0]), self._filter or {}):
                yield member

    def _unpack(self, checkpoints: Sequence[Sequence[Any]], values: Sequence[bytes | None]) -> Iterator[CheckpointTuple]:
        for member, *found in checkpoints:
            if self._only and keys.split_member(member)[1] != self._only:
                continue
            at = of_member(self._thread.thread_id, member)
            if not found:
                raise records.missing_checkpoint(at)
            flat, places = found
            yield records.unpack_checkpoint(self._context.serde, at, flat, map(values.__getitem__, places))


def list_checkpoints(
    context: Context,
    config: RunnableConfig | None,
    filter_: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[Operation[list[CheckpointTuple]]]:
    """List checkpoints, newest first by id; of all threads, in no particular order, where the config is `None`.

    Yields:
        Operations, each to be run before the next is asked for: a page each.
    """
    bound = address.parse_id(before.get("configurable") or {}) if before else None
    keys.to_id(bound or "")  # Refused here, if it is: not once the first threads have been looked for.
    one = None if config is None else address.parse(config)
    return _pages(context, one, filter_, bound, limit)


def _pages(
    context: Context, one: Address | None, filter_: dict[str, Any] | None, before: str | None, limit: int | None
) -> Iterator[Operation[list[CheckpointTuple]]]:
    left = limit

    def counted(listing: _Listing) -> Operation[list[CheckpointTuple]]:
        nonlocal left
        page = yield from listing.page(left)
        left = None if left is None else left - len(page)
        return page

    def visit(thread_id: str) -> Iterator[Operation[list[CheckpointTuple]]]:
        listing = _Listing(context, one or Address(thread_id, None, None), filter_, before)
        while not listing.done:
            yield counted(listing)

    for operation in visit(one.thread_id) if one else each_thread(context, visit):
        if left is not None and left <= 0:
            return
        yield operation
