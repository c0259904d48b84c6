"""How often a client that a saver has made tries a server that says nothing."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import RedisError

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from langgraph.checkpoint.fastredis.connect import RETRIES
from tests.build import config_of
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self


class Silent:
    """Takes connections, and says nothing on them."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.taken = 0
        self._thread = threading.Thread(target=self._take)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _take(self) -> None:
        with ExitStack() as connections:
            while True:
                try:
                    connections.enter_context(self._listener.accept()[0])
                except OSError:
                    return
                self.taken += 1


@pytest.fixture(params=["tcp", "unix"])
def silent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Silent, str]]:
    """A silent server, and its URL."""
    if request.param == "unix":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        url = f"unix://{tmp_path / 's'}"
    else:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}"
    listener.listen(100)
    with Silent(listener) as server:
        yield server, url


async def test_a_silent_server_is_tried_a_few_times_and_no_more(silent: tuple[Silent, str], kind: str) -> None:
    """redis-py repeats a call, in it the opening of a connection, and in that a check of its health."""
    server, url = silent
    options: dict[str, Any] = {"socket_timeout": 0.05, "socket_connect_timeout": 0.05}
    if kind == "sync":
        with RedisSaver.from_conn_string(url, **options) as sync, pytest.raises(RedisError):
            await AsyncShape(sync).aget_tuple(config_of("t"))
    else:
        async with AsyncRedisSaver.from_conn_string(url, **options) as saver:
            with pytest.raises(RedisError):
                await saver.aget_tuple(config_of("t"))
    assert server.taken == RETRIES + 1
