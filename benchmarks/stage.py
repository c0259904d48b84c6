"""The stage for the timed calls: clients, savers, and the threads that are read or added to."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import redis
import redis.asyncio
from langgraph.checkpoint.memory import InMemorySaver

from benchmarks.samples import Step, chat, log, store
from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver

if TYPE_CHECKING:
    from collections.abc import Iterable

TTL = timedelta(hours=1)
SHORT, LONG, LISTED, ANCESTORS = 10, 5000, 100, 500
"""Checkpoints in the threads that are timed."""


class Fresh(NamedTuple):
    """A thread made for one round."""

    stored: list[Step]
    coming: list[Step]


class Stage:
    """One server, our savers on it, and `InMemorySaver` with the same threads.

    Args:
        url: The server.
        long: Checkpoints in the long threads.

    Attributes:
        memory: Holds what is read. Of a long thread it has as much as of a short one, because its own reads slow down with
            length, and the limit must not.
        scratch: Takes what is written, and forgets it with `tidy`.
    """

    def __init__(self, url: str, long: int) -> None:
        self.prefix = f"bench-{uuid4().hex}"
        self.client = redis.Redis.from_url(url)
        self.async_client = redis.asyncio.Redis.from_url(url)
        self.memory, self.scratch = InMemorySaver(), InMemorySaver()
        self.lengths = {"short": SHORT, "long": long, "listed": LISTED, "log": ANCESTORS + 1}
        self._last: dict[str, Step] = {}
        self._known: dict[str, Step] = {}
        self._fresh: list[str] = []

    def set_up(self) -> None:
        """Store the threads that are there throughout."""
        for ttl in (None, TTL):
            for name in self.lengths:
                self._set_up(name, ttl)

    def _set_up(self, name: str, ttl: timedelta | None) -> None:
        length, thread_id = self.lengths[name], self.thread_id(name, ttl)
        source = log(thread_id, snapshot_every=length) if name == "log" else chat(thread_id)
        steps = list(islice(source, length))
        store(self.client, self.prefix, ttl, steps)
        remember(self.memory, [steps[0], *steps[1 - SHORT :]] if name == "long" else steps)
        self._known[thread_id] = self._last[thread_id] = steps[-1]

    @staticmethod
    def thread_id(name: str, ttl: timedelta | None) -> str:
        """The id of a thread that is there throughout."""
        return f"{name}-{'expiring' if ttl else 'kept'}"

    def known(self, name: str, ttl: timedelta | None) -> Step:
        """A checkpoint of such a thread that `memory` has too."""
        return self._known[self.thread_id(name, ttl)]

    def fresh(self, ttl: timedelta | None, count: int) -> Fresh:
        """A short thread of its own, and `count` supersteps that come next."""
        source = chat(uuid4().hex)
        stored = list(islice(source, SHORT))
        store(self.client, self.prefix, ttl, stored)
        self._fresh.append(stored[0].thread_id)
        return Fresh(stored, list(islice(source, count)))

    def extend(self, name: str, ttl: timedelta | None, count: int) -> list[Step]:
        """The supersteps that come next in a thread that is there throughout; it grows by them."""
        thread_id = self.thread_id(name, ttl)
        steps = list(islice(chat(thread_id, after=self._last[thread_id]), count))
        self._last[thread_id] = steps[-1]
        return steps

    def saver(self, kind: str, ttl: timedelta | None) -> RedisSaver | AsyncRedisSaver:
        """A saver of ours, `sync` or `async`."""
        if kind == "sync":
            return RedisSaver(self.client, prefix=self.prefix, ttl=ttl)
        return AsyncRedisSaver(self.async_client, prefix=self.prefix, ttl=ttl)

    def tidy(self) -> None:
        """Forget what a round wrote into threads of its own."""
        while self._fresh:
            RedisSaver(self.client, prefix=self.prefix).delete_thread(self._fresh.pop())
        for kept in (self.scratch.storage, self.scratch.writes, self.scratch.blobs):
            kept.clear()

    async def aclose(self) -> None:
        """Delete all that is stored, and close the clients."""
        clear(self.client, self.prefix)
        self.client.close()
        await self.async_client.aclose()


def remember(memory: InMemorySaver, steps: Iterable[Step]) -> None:
    """Give `InMemorySaver` what `store` gives a server."""
    for step in steps:
        memory.put(step.config, step.checkpoint, step.metadata, step.new_versions)
        if step.writes:
            memory.put_writes(step.saved, step.writes, step.checkpoint["id"])


def clear(client: redis.Redis, prefix: str) -> None:
    """Delete all threads under a prefix, and what the raw commands stored."""
    saver = RedisSaver(client, prefix=prefix)
    for thread in list(saver.list_threads()):
        saver.delete_thread(thread.thread_id)
    for key in client.scan_iter(match=f"{prefix}:*", count=1000):
        client.unlink(key)
