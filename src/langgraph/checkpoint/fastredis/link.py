"""What a saver and its copies share: the client, whether it is theirs to close, and whether it is closed."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from langgraph.checkpoint.fastredis.errors import SaverClosedError

if TYPE_CHECKING:
    import asyncio

    from redis.exceptions import ConnectionError as RedisConnectionError

    from langgraph.checkpoint.fastredis.embedded import EmbeddedServer

Client = TypeVar("Client")


@dataclass(slots=True)
class Link(Generic[Client]):
    """A saver's way to its server."""

    client: Client
    is_owned: bool = False
    server: EmbeddedServer | None = None
    is_closed: bool = False
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop that an async client was last used on: its connections belong to it."""

    def open_client(self) -> Client:
        """The client.

        Raises:
            SaverClosedError: it was closed.
        """
        if self.is_closed:
            message = "this saver is closed; use it inside its `with` block, or make a new one"
            raise SaverClosedError(message)
        return self.client

    def close(self) -> bool:
        """Mark what is owned as closed; whether the client is to be closed now."""
        closes = self.is_owned and not self.is_closed
        self.is_closed = self.is_closed or self.is_owned
        return closes


def check_client(client: Any, *, asynchronous: bool) -> None:
    """Refuse a client that cannot work, before it is used.

    Raises:
        TypeError: it is of the other kind, sync or async.
        ValueError: it decodes replies to text.
    """
    if inspect.iscoroutinefunction(client.execute_command) is not asynchronous:
        wanted, other = ("redis.asyncio", "RedisSaver") if asynchronous else ("redis", "AsyncRedisSaver")
        message = f"this saver needs a client of the package `{wanted}`, not {type(client)!r}; that one may suit {other}"
        raise TypeError(message)
    if client.get_encoder().decode_responses:
        message = "the client has decode_responses=True, which turns stored bytes into text; make one for the saver without it"
        raise ValueError(message)


def advise(error: RedisConnectionError) -> None:
    """Say in Redis' own error what to do about it; its type and what it said stay."""
    if str(error).startswith("Too many connections"):  # a class of its own only from redis-py 6 on
        advice = "Give the client a BlockingConnectionPool, which waits for a free one, or let the saver make it: from_url does"
    else:
        advice = "Is the server running, and are host, port, user and password right?"
    error.args = (f"{error}. {advice}",)
