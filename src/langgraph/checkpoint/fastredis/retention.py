"""The operations that delete, prune and copy threads. They go in pages; cut short, they can be repeated."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from langgraph.checkpoint.fastredis import address, keys, records, scripts
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.errors import BusyThreadError
from langgraph.checkpoint.fastredis.lifetime import move
from langgraph.checkpoint.fastredis.reading import PAGE_BYTES, of_member
from langgraph.checkpoint.fastredis.survey import Survey, survey_thread
from langgraph.checkpoint.fastredis.threads import ThreadScan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langgraph.checkpoint.fastredis.address import Address
    from langgraph.checkpoint.fastredis.context import Context
    from langgraph.checkpoint.fastredis.keys import ThreadKeys

PAGE = 500
COPY_PAGE = 100
STRATEGIES = ("keep_latest", "delete")
ATTEMPTS = 20
_ABSENT = -2  # PTTL of a key that is not there
_KINDS = _KEPT, _ORPHANED, _DELETED, _FREED = range(4)


def _ids(ids: Sequence[str], name: str) -> list[str]:
    if isinstance(ids, (str, bytes)):
        message = f"{name} must be a sequence of ids, not one id: use [{ids!r}]"
        raise TypeError(message)
    return [address.to_text(one, name) for one in ids]


def delete_thread(context: Context, thread_id: str) -> Operation[None]:
    """Delete all that a thread has stored."""
    thread = context.keyspace.thread(address.to_text(thread_id, "thread_id"))
    left = 1
    while left:
        left = yield Call(scripts.DELETE, (thread.index, thread.channels, thread.retained, thread.absent), (thread.base, PAGE))


def prune(context: Context, thread_ids: Sequence[str], strategy: str) -> Operation[None]:
    """Keep only the latest checkpoint of each namespace, and what its delta channels need; or nothing ("delete")."""
    ids = _ids(thread_ids, "thread_ids")
    if strategy not in STRATEGIES:
        message = f"unknown prune strategy {strategy!r}; use one of {STRATEGIES}"
        raise ValueError(message)
    # All of them before the first is touched: one may be refused.
    for thread in [context.keyspace.thread(thread_id) for thread_id in ids]:
        if strategy == "delete":
            yield from delete_thread(context, thread.thread_id)
        else:
            yield from _keep_only(thread, _latest)


def _latest(survey: Survey) -> set[bytes]:
    """The latest checkpoint of each namespace, and newer ones that have not arrived."""
    latest: set[bytes] = set()
    found: set[bytes] = set()
    for member in sorted(survey.listed, key=keys.split_member, reverse=True):
        ns, _ = keys.split_member(member)
        if ns not in found:
            latest.add(member)
            if survey.listed[member].listing is not None:
                found.add(ns)
    return latest


def delete_for_runs(context: Context, run_ids: Sequence[str]) -> Operation[None]:
    """Delete the checkpoints of these runs, in all threads; what delta channels of others need stays, no longer listed."""
    runs = {keys.encode(run_id) for run_id in _ids(run_ids, "run_ids")} - {b""}
    if not runs:
        return

    def of_other_runs(survey: Survey) -> set[bytes]:
        return {member for member, at in survey.listed.items() if at.run not in runs}

    scan = ThreadScan(context)
    while (thread_ids := (yield from scan.page())) is not None:
        for thread_id in thread_ids:
            yield from _keep_only(context.keyspace.thread(thread_id), of_other_runs)


def _keep_only(thread: ThreadKeys, survivors: Callable[[Survey], set[bytes]]) -> Operation[None]:
    """Take all but the survivors out of a thread, and what an earlier attempt, cut short, may have left behind.

    Raises:
        BusyThreadError: something was saved into the thread during each of the attempts.
    """
    for _ in range(ATTEMPTS):
        survey = yield from survey_thread(thread)
        if (yield from _prune_pages(thread, survey, survivors(survey))):
            return
    message = f"thread {thread.thread_id!r} is written to faster than it can be pruned; try again when its run has ended"
    raise BusyThreadError(message)


class _Step(NamedTuple):
    """A member or, if it is freed, a field of the channels hash, and what becomes of it."""

    kind: int
    what: bytes
    listed: int = 0
    """By how much it changes the number of listed checkpoints, """
    unlisted: int = 0
    """and that of retained ones."""


def _delete(survey: Survey, member: bytes) -> _Step:
    return _Step(_DELETED, member, -int(member in survey.listed), -int(member in survey.retained))


def _plan(survey: Survey, survivors: set[bytes]) -> Iterator[_Step]:
    """What to do, in order: nothing goes before those who lean on it are safe."""
    leaned_on = survey.leaned_on(survivors)
    staying = survivors | leaned_on
    kept = [member for member in survey.listed if member in leaned_on and member not in survivors]
    deleted = [member for member in {**survey.retained, **survey.listed} if member not in staying]
    gone = {member for member in deleted if survey.get(member)}
    # With the last of its checkpoints the index of a thread goes, and with that the way to find what is left. The script
    # deletes with it the values that it has until then.
    last = [] if survivors else [deleted.pop() for _ in deleted[-1:]]
    remaining = [at for at in map(survey.get, staying) if at]
    named = {field for at in (*remaining, *filter(None, map(survey.get, last))) for field in at.stored_fields()}
    yield from (_Step(_KEPT, member, -1, int(member not in survey.retained)) for member in kept)
    # Only of a survivor all that its channels need is here: a new branch of another may need more, and must not end quietly.
    yield from (_Step(_ORPHANED, at.member) for at in remaining if at.member in survivors and at.parent in gone)
    yield from (_delete(survey, member) for member in deleted)
    yield from (_Step(_FREED, field) for field in survey.fields - named)
    yield from (_delete(survey, member) for member in last)


def _prune_pages(thread: ThreadKeys, survey: Survey, survivors: set[bytes]) -> Operation[bool]:
    """Take the steps of the plan, a page at a time; whether the thread stayed, but for that, as it was surveyed."""
    steps = _plan(survey, survivors)
    listed, unlisted = len(survey.listed), len(survey.retained)
    pending = [member for member in survivors if survey.listed[member].listing is None]
    while page := list(islice(steps, PAGE)):
        groups = [[step.what for step in page if step.kind == kind] for kind in _KINDS]
        (status,) = yield Call(
            scripts.PRUNE,
            (thread.index, thread.channels, thread.retained, thread.absent),
            (thread.base, listed, unlisted, *map(len, (pending, *groups[:_FREED])), *chain.from_iterable((pending, *groups))),
        )
        if status == b"changed":
            return False
        listed += sum(step.listed for step in page)
        unlisted += sum(step.unlisted for step in page)
    return True


def copy_thread(context: Context, source_thread_id: str, target_thread_id: str) -> Operation[None]:
    """Copy all that a thread has stored into another; newest first, so that the copy's latest is right from the start.

    Raises:
        IncompleteCheckpointError: a part of the source is missing.
        BusyThreadError: source or target expired or was deleted meanwhile.
    """
    source = context.keyspace.thread(address.to_text(source_thread_id, "source_thread_id"))
    target = context.keyspace.thread(address.to_text(target_thread_id, "target_thread_id"))
    if source == target:
        return
    copy = _Copy(context, source, target)
    yield from copy.copy_set(source.index, target.index)
    yield from copy.copy_set(source.retained, target.retained)


def _vanished(thread_id: str) -> BusyThreadError:
    return BusyThreadError(f"thread {thread_id!r} expired or was deleted while it was being copied; the copy is not whole")


class _Copy:
    """A copy under way."""

    def __init__(self, context: Context, source: ThreadKeys, target: ThreadKeys) -> None:
        self._context = context
        self._source = source
        self._target = target
        self._begins = True
        self._copied: set[bytes] = set()

    def copy_set(self, read: bytes, written: bytes) -> Operation[None]:
        """Copy the checkpoints that a sorted set of the source names."""
        below_id, below_ns = b"", b""
        while True:
            left, cursor, checkpoints, values = yield Call(
                scripts.LIST,
                (read, self._source.channels, self._source.absent),
                (self._source.base, b"members", b"", below_id, below_ns, COPY_PAGE, PAGE_BYTES, 0, 1),
            )
            if below_id and left == _ABSENT:
                raise _vanished(self._source.thread_id)
            if checkpoints:
                yield from self._store(written, self._pack(checkpoints, values))
            if not cursor:
                return
            below_ns, below_id = keys.split_member(cursor)

    def _pack(self, checkpoints: Sequence[Sequence[Any]], values: Sequence[bytes | None]) -> list[bytes | int]:
        """The page as copy.lua takes it, without the values that an earlier page brought."""
        fresh: list[bytes] = []
        hashes: list[bytes | int] = []
        for member, *found in checkpoints:
            at = of_member(self._source.thread_id, member)
            if not found:
                raise records.missing_checkpoint(at)
            flat: Sequence[bytes] = found[0]
            places: Sequence[int] = found[1]
            hashes += member, len(flat), *flat
            listing = dict(records.pairs(flat)).get(b"channels", b"")
            stored = (listed for listed in records.parse_listing(listing) if listed.is_stored)
            for listed, place in zip(stored, places, strict=True):
                fresh += self._fresh(at, listed, listed.field(keys.split_member(member)[0]), values[place])
        return [len(fresh), *fresh, *hashes]

    def _fresh(self, at: Address, listed: records.ListedChannel, field: bytes, value: bytes | None) -> Sequence[bytes]:
        """Field and value, if they are still to be copied."""
        if value is None and listed.is_required:
            raise records.missing_value(at, keys.from_part(listed.channel))
        if value is None or field in self._copied:
            return ()
        self._copied.add(field)
        return field, value

    def _store(self, members: bytes, page: list[bytes | int]) -> Operation[None]:
        target, expiry = self._target, self._context.expiry
        least = expiry.least
        while True:
            (status,) = yield Call(
                scripts.COPY,
                (target.index, members, target.channels, target.absent),
                (target.base, expiry.lifetime, least, int(self._begins), *page),
            )
            if status == b"gone":
                raise _vanished(target.thread_id)
            if status == b"stored":
                self._begins = False
                return
            yield from move(target, expiry.lifetime, due=expiry.least)
            least = 0
