"""Waiting for a turn, for clients whose pools refuse what they have no connection for: those of clusters."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError

_NONE_FREE = "No connection available."


class Limit(NamedTuple):
    """How many calls there may be at once, and how many seconds another waits; `None`: for ever."""

    most: int
    patience: float | None


class Turns:
    """Lets so many threads in at once, and the others wait."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._free = threading.Semaphore(self._limit.most)

    def __enter__(self) -> None:
        if self._owner != os.getpid():  # The threads whose turn it was did not come along into the fork.
            self._begin()
        if not self._free.acquire(timeout=self._limit.patience):
            raise RedisConnectionError(_NONE_FREE)

    def __exit__(self, *_: object) -> None:
        self._free.release()


class AsyncTurns:
    """The same for tasks of one event loop."""

    def __init__(self, limit: Limit) -> None:
        self._patience = limit.patience
        self._free = asyncio.Semaphore(limit.most)

    async def __aenter__(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            await asyncio.wait_for(self._free.acquire(), self._patience)
        except asyncio.TimeoutError:
            raise RedisConnectionError(_NONE_FREE) from None

    async def __aexit__(self, *_: object) -> None:
        self._free.release()
