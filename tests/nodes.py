"""Servers on loopback ports that can be killed and started again: the parts of clusters and of what sentinels watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from langgraph.checkpoint.fastredis.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Sequence


class Node:
    """A server with a port, and clients of the test's own on its Unix socket."""

    def __init__(self, binary: str, port: int, settings: Sequence[str]) -> None:
        self.binary = binary
        self.port = port
        self.settings = ["--bind", "127.0.0.1", "--port", str(port), *settings]
        self.server: EmbeddedServer | None = None
        self.start()

    def start(self) -> None:
        """Start the server, with nothing in it."""
        self.server = EmbeddedServer(binary=self.binary, options=self.settings)
        self.client = _client(self.server.url)
        self._asking = _client(self.server.url, decode_responses=True)
        self._asking.response_callbacks.clear()  # which make of some replies what fits redis-py's own methods

    def stop(self) -> None:
        """Kill the server: nothing of it is saved."""
        if self.server:
            self.client.close()
            self._asking.close()
            self.server.close()  # by SIGKILL
            self.server = None

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.port}"

    def ask(self, command: str, *args: str | int) -> str:
        """What it answers to a command, as text."""
        return str(self._asking.execute_command(*command.split(), *args))

    def info(self, command: str) -> dict[str, str]:
        """What `INFO …` or `CLUSTER INFO` lists."""
        return dict(line.split(":", 1) for line in self.ask(command).splitlines() if ":" in line)


def _client(url: str, **options: Any) -> redis.Redis:
    """One that comes back when sentinels have cut it off, as they do to all clients of a server that they demote."""
    client: redis.Redis = redis.Redis.from_url(
        url, retry=Retry(NoBackoff(), 3), retry_on_error=[redis.exceptions.ConnectionError], **options
    )
    return client
