"""TLS in front of a server that has none: a proxy on a loopback port that ends it and passes on what is in it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Self


class TLSProxy:
    """Takes TLS connections on `port` and leads them to a Unix socket, until the end of the `with` block."""

    def __init__(self, socket: str, context: ssl.SSLContext) -> None:
        self._socket = socket
        self._context = context
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._take, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stop.wait()
        server.close()
        await asyncio.gather(*self._connections)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(self._socket)
        await asyncio.gather(_pass_on(reader, ours), _pass_on(theirs, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
