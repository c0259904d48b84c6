"""How long others wait for the server while a saver works on a very long thread."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from time import monotonic, sleep
from typing import Any, TypeAlias
from uuid import uuid4

import redis

from benchmarks.samples import SMALL_PAYLOAD, address, chat, log, store
from benchmarks.stage import clear
from langgraph.checkpoint.fastredis import RedisSaver

Work: TypeAlias = Iterator[tuple[str, Callable[[], Any]]]

SNAPSHOT_EVERY = 5000
"""Supersteps between snapshots of the delta channel: LangGraph's own upper bound, so that a pruned thread keeps the most."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a neighbour saw during an operation. All times in milliseconds."""

    operation: str
    took: float
    pings: int
    median: float
    most: float
    """The 99.9th percentile."""
    longest: float
    script: float | None
    """The longest command in the server's slow log, where it logged one."""


def watch(url: str, checkpoints: int, seconds: float) -> list[Wait]:
    """Ping the server while threads of that many checkpoints are worked on, each operation in turn.

    Args:
        url: The server.
        checkpoints: How many the threads have.
        seconds: How long to ping for each of the two figures to compare with.
    """
    with redis.Redis.from_url(url) as client:
        prefix = f"bench-{uuid4().hex}"
        saver = RedisSaver(client, prefix=prefix)
        try:
            store(client, prefix, timedelta(hours=1), islice(chat("plain", SMALL_PAYLOAD), checkpoints))
            store(client, prefix, None, islice(log("delta", snapshot_every=SNAPSHOT_EVERY), checkpoints))
            return [_watch(url, client, name, work) for name, work in (*_quiet(saver, seconds), *_operations(saver))]
        finally:
            clear(client, prefix)


def _quiet(saver: RedisSaver, seconds: float) -> Work:
    """What the operations are to be compared with: no load, and a load of short calls."""

    def read() -> None:
        deadline = monotonic() + seconds
        while monotonic() < deadline:
            saver.get_tuple(address("plain"))

    yield "nothing", lambda: sleep(seconds)
    yield "get_tuple, again and again", read


def _operations(saver: RedisSaver) -> Work:
    """Each operation on a long thread."""
    yield "list", lambda: sum(1 for _ in saver.list(address("plain")))
    yield "expire_thread, later", lambda: saver.expire_thread("plain", timedelta(hours=2))
    yield "expire_thread, sooner", lambda: saver.expire_thread("plain", timedelta(hours=1))
    yield "copy_thread", lambda: saver.copy_thread("plain", "copied")
    yield "prune", lambda: saver.prune(["copied"])
    yield "prune, delta channel", lambda: saver.prune(["delta"])
    yield "delete_thread", lambda: saver.delete_thread("plain")


def _watch(url: str, client: redis.Redis, name: str, work: Callable[[], Any]) -> Wait:
    client.slowlog_reset()
    command = [sys.executable, "-m", "benchmarks.ping", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as neighbour:  # noqa: S603 our own module
        if neighbour.stdout is None or neighbour.stdout.readline() != b"ready\n":
            message = "the neighbour process did not start"
            raise RuntimeError(message)
        start = monotonic()
        work()
        took = monotonic() - start
        reply, _ = neighbour.communicate()
    waits = sorted(array("d", reply))
    slow: list[dict[str, Any]] = client.slowlog_get(1000)
    return Wait(
        operation=name,
        took=took * 1e3,
        pings=len(waits),
        median=waits[len(waits) // 2] * 1e3,
        most=waits[len(waits) * 999 // 1000] * 1e3,
        longest=waits[-1] * 1e3,
        script=max((entry["duration"] / 1e3 for entry in slow), default=None),
    )
