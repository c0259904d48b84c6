"""The server to measure: one of the test suite's, started for the run, or any at a URL."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.servers import binary

from langgraph.checkpoint.fastredis.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = {"valkey": "valkey-9", "redis8": "redis-8.2", "redis6": "redis-6.2"}
"""What `--server` may be, beside a URL, and what the test suite calls it."""

SLOW = 500
"""Microseconds from which on our servers log a command as slow."""


@contextmanager
def serve(name: str, *, unix: bool) -> Iterator[str]:
    """The URL of a server, which is stopped afterwards if it was started here.

    Args:
        name: A key of `NAMES`, or a URL.
        unix: Talk to it through its Unix socket; else by loopback TCP, as most users do.
    """
    if "://" in name:
        yield name
        return
    port = _free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--slowlog-log-slower-than", str(SLOW), "--slowlog-max-len", "1000"]
    with EmbeddedServer(binary=binary(NAMES[name]), options=options) as server:
        yield server.url if unix else f"redis://127.0.0.1:{port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
