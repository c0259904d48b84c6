"""The operations that go through all threads under a prefix."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from langgraph.checkpoint.fastredis import scripts
from langgraph.checkpoint.fastredis.call import Call, Operation, Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from langgraph.checkpoint.fastredis.context import Context

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A stored thread."""

    thread_id: str
    checkpoints: int
    """How many checkpoints of it are listed, in all namespaces."""
    expires_in: timedelta | None
    """Time until it expires; `None`: never."""


class ThreadScan:
    """The ids of all stored threads, a page at a time; what is created or deleted meanwhile may be among them or not."""

    def __init__(self, context: Context) -> None:
        self._keyspace = context.keyspace
        self._scan = Scan(context.keyspace.index_pattern())
        self._seen: set[bytes] = set()

    def page(self) -> Operation[list[str] | None]:
        """The next ids, each once; `None` at the end."""
        page: list[bytes] | None = yield self._scan
        if page is None:
            return None
        new = [key for key in dict.fromkeys(page) if key not in self._seen]
        self._seen.update(new)
        found = (self._keyspace.thread_id(key) for key in new)
        return [thread_id for thread_id in found if thread_id is not None]


def each_thread(context: Context, visit: Callable[[str], Iterator[Operation[list[T]]]]) -> Iterator[Operation[list[T]]]:
    """What `visit` yields for each stored thread, in between operations that find the threads and bring nothing else."""
    scan = ThreadScan(context)
    found: list[list[str] | None] = []

    def find() -> Operation[list[T]]:
        found.append((yield from scan.page()))
        return []

    while True:
        yield find()
        thread_ids = found.pop()
        if thread_ids is None:
            return
        for thread_id in thread_ids:
            yield from visit(thread_id)


def list_threads(context: Context) -> Iterator[Operation[list[ThreadInfo]]]:
    """Describe each thread that has not expired, in no particular order."""

    def describe(thread_id: str) -> Operation[list[ThreadInfo]]:
        checkpoints, left = yield Call(scripts.DESCRIBE, (context.keyspace.thread(thread_id).index,), ())
        if not checkpoints:
            return []
        return [ThreadInfo(thread_id, checkpoints, None if left < 0 else timedelta(milliseconds=left))]

    yield from each_thread(context, lambda thread_id: iter([describe(thread_id)]))
