"""The operations that read checkpoints: one, and lists of them in pages."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis import address, keys, records, scripts
from langgraph.checkpoint.fastredis.address import Address
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.lifetime import refresh
from langgraph.checkpoint.fastredis.threads import each_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

    from langgraph.checkpoint.fastredis.context import Context
    from langgraph.checkpoint.fastredis.keys import ThreadKeys
    from langgraph.checkpoint.fastredis.scripts import Script

# A checkpoint takes a server about thirty microseconds, its metadata six, a name one, a namespace to look into seven. So a page
# takes three milliseconds at most, if checkpoints are not large: it ends with the one that takes it past a megabyte. To copy
# that takes half a millisecond (Redis 6.2) to two and a half (Redis 8.2); a field counts as 256 bytes more than it has.
PAGE = 100
PAGE_BYTES = 1 << 20
METADATA_PAGE = 250
NAMES_PAGE = 2000
NAMESPACES_PAGE = 100
_ABOVE_ALL_NAMESPACES = b"\xff"
_ABSENT = -2  # PTTL of a key that is not there


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


class _Newest:
    """The checkpoints of a thread in one namespace, or in a few: the server finds the newest ones, page by page."""

    def __init__(self, context: Context, at: Address, before: str | None) -> None:
        self._context = context
        self._thread = context.keyspace.thread(at.thread_id)
        self._is_single = at.checkpoint_id is not None and at.namespace is not None
        self._only = keys.to_id(at.checkpoint_id) if at.checkpoint_id else None
        self._scope = b"thread" if at.namespace is None else b"namespace", keys.to_part(at.namespace or "")
        self._below = (keys.to_id(before), b"") if before else (b"", b"")
        self.done = False
        if at.checkpoint_id and self._only:
            # An id below the bound is begun with; then every namespace that has it is still to come.
            self.done = bool(before and at.checkpoint_id >= before)
            self._below = self._only, _ABOVE_ALL_NAMESPACES

    def checkpoints(self, most: int) -> Operation[list[Any] | None]:
        """The next checkpoints, and the values that they name; `None` where there are too many namespaces."""
        return (yield from self._look(scripts.LIST, (self._thread.channels,), most, 0))

    def metadata(self) -> Operation[list[Any] | None]:
        """The names and metadata of the next ones; `None` where there are too many namespaces."""
        found = yield from self._look(scripts.LIST_METADATA, (), METADATA_PAGE)
        return found and found[0]

    def _look(self, script: Script, channels: Sequence[bytes], most: int, *pending: int) -> Operation[list[Any] | None]:
        count = 1 if self._is_single else most
        reply: list[Any] = yield Call(
            script,
            (self._thread.index, *channels, self._thread.absent),
            (self._thread.base, *self._scope, *self._below, count, PAGE_BYTES, NAMESPACES_PAGE, *pending),
        )
        left, *found = reply
        yield from refresh(self._context, self._thread, left)
        if not found:
            return None
        cursor: bytes = found[0]
        ns, encoded_id = keys.split_member(cursor)
        self._below = encoded_id, ns
        self.done = not cursor or self._is_single or (self._only is not None and encoded_id != self._only)
        return found[1:]

    def name_all(self) -> Operation[_Named]:
        """The names of all that are still to come."""
        names: list[bytes] = []
        while True:
            cursor = names[-1] if names else b""
            left, more, page = yield Call(scripts.NAMES, (self._thread.index,), (cursor, NAMES_PAGE))
            names += page
            if not more:
                break
        yield from refresh(self._context, self._thread, left)
        return _Named(self._context, self._thread, sorted(filter(self._is_to_come, names), key=_age, reverse=True))

    def _is_to_come(self, member: bytes) -> bool:
        age = _age(member)
        return (not self._below[0] or age < self._below) and self._only in (None, age[0])


class _Named:
    """Checkpoints of a thread whose names are known, in that order. What has been deleted since is passed over."""

    def __init__(self, context: Context, thread: ThreadKeys, names: Iterable[bytes]) -> None:
        self._context = context
        self._thread = thread
        self._names = deque(names)

    @property
    def done(self) -> bool:
        """Whether none is left."""
        return not self._names

    def checkpoints(self, most: int) -> Operation[list[Any]]:
        """The next checkpoints, and the values that they name."""
        return (yield from self._read(scripts.READ, (self._thread.channels,), most))

    def metadata(self) -> Operation[list[Any]]:
        """The names and metadata of the next ones."""
        (found,) = yield from self._read(scripts.READ_METADATA, (), METADATA_PAGE)
        return list(found)

    def _read(self, script: Script, channels: Sequence[bytes], most: int) -> Operation[list[Any]]:
        names = islice(self._names, most)
        keys_of = self._thread.index, *channels, self._thread.absent
        reply: list[Any] = yield Call(script, keys_of, (self._thread.base, PAGE_BYTES, *names))
        left, read = reply[:2]
        for _ in range(read):
            self._names.popleft()
        if left == _ABSENT:
            self._names.clear()
        yield from refresh(self._context, self._thread, left)
        return reply[2:]


class _Listing:
    """Where a listing of one thread has got to.

    To look into each namespace for every page would keep the server busy where there are many (a subgraph run by `Send` has
    one per task): then the names of all checkpoints are read first, and put in order here.
    """

    def __init__(self, context: Context, at: Address, filter_: dict[str, Any] | None, before: str | None) -> None:
        self._context = context
        self._thread = context.keyspace.thread(at.thread_id)
        self._only = keys.to_id(at.checkpoint_id) if at.checkpoint_id else None
        self._filter = filter_
        self._newest = _Newest(context, at, before)
        self._source: _Newest | _Named = self._newest

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._source.done

    def page(self, most: int | None) -> Operation[list[CheckpointTuple]]:
        """The next checkpoints, at most `most`; there may be none on a page though others follow."""
        if self._filter:
            found = yield from self._matching_page(most)
        else:
            page = yield from self._source.checkpoints(_at_most(most))
            found = None if page is None else list(self._unpack(*page))
        if found is not None:
            return found
        self._source = yield from self._newest.name_all()
        return []

    def _matching_page(self, most: int | None) -> Operation[list[CheckpointTuple] | None]:
        entries = yield from self._source.metadata()
        if entries is None:
            return None
        matching = _Named(self._context, self._thread, self._matching(entries))
        found: list[CheckpointTuple] = []
        while not matching.done and (most is None or len(found) < most):
            page = yield from matching.checkpoints(_at_most(None if most is None else most - len(found)))
            found += self._unpack(*page)
        return found

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


def _at_most(most: int | None) -> int:
    return PAGE if most is None else min(PAGE, most)


def _age(member: bytes) -> tuple[bytes, bytes]:
    """What listings are ordered by: the id, then the namespace."""
    ns, encoded_id = keys.split_member(member)
    return encoded_id, ns


def list_checkpoints(
    context: Context,
    config: RunnableConfig | None,
    filter_: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[Operation[list[CheckpointTuple]]]:
    """List checkpoints, newest first by id; of all threads, in no particular order, where the config is `None`.

    What is deleted or expires before its page is read is not listed, and no error: a list ends where its thread does.

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
