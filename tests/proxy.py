"""A proxy between clients and a server on a Unix socket, which disturbs them at the command that it is told to.

It reads RESP, so that it counts commands, not packets. Each connection has a thread, which takes one command at a time: on to
the server, the whole reply back, then the next. Those by which redis-py opens and tends a connection are counted apart.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from langgraph.checkpoint.fastredis import scripts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

OPENING = {"HELLO", "AUTH", "SELECT", "CLIENT", "PING"}
_NAMES = {one.sha: one.name for one in vars(scripts).values() if isinstance(one, scripts.Script)}
# Types of RESP items that say a size: of what follows, or how many items do.
_SIZED = b"$=!"
_LISTS = {b"*": 1, b"~": 1, b">": 1, b"%": 2, b"|": 2}
_PATIENCE = 10.0  # seconds, after which a test that forgot to release something goes on and fails

Action: TypeAlias = "Callable[[Connection], object]"
"""What is done at a command, in the thread of its connection."""


class Cut(Exception):  # noqa: N818 an order
    """Raised by an action: the connection ends here."""


def cut(_connection: Connection) -> None:
    """End the connection that the command came on."""
    raise Cut


def delay(seconds: float) -> Action:
    """Go on later."""
    return lambda _: time.sleep(seconds)


class Hold:
    """Goes on when released."""

    def __init__(self) -> None:
        self.holds = threading.Event()
        """Whether something was met."""
        self._is_released = threading.Event()

    def __call__(self, _connection: Connection) -> None:
        """Hold, as an action."""
        self.holds.set()
        self._is_released.wait(_PATIENCE)

    def release(self) -> None:
        """Let go of what is held, and hold nothing any more."""
        self._is_released.set()


class Stray(Hold):
    """The same, but the client learns at once that its connection has ended: what is released comes when none waits for it."""

    def __call__(self, connection: Connection) -> None:
        """Hang up and hold, as an action."""
        connection.hang_up()
        super().__call__(connection)


class Proxy:
    """A proxy on a socket of its own.

    Args:
        upstream: Path of the server's socket. A restart is another path, and `cut_all()`.

    Attributes:
        path: Path of the proxy's socket.
        commands: What has passed since the last `arm()`: `GET`, or the script's name, `EVALSHA put`.
        openings: The same for commands that open and tend connections.
        fired: Whether the armed command has come.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self._directory = Path(tempfile.mkdtemp(prefix="proxy-"))
        self.path = str(self._directory / "socket")
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._is_closing = False
        self.arm(0)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def arm(
        self, number: int, *, before: Action | None = None, after: Action | None = None, opening: bool = False, times: int = 1
    ) -> None:
        """Begin to count anew, and do something at the command of that number, counted from 1; 0: let all pass.

        Args:
            number: Which command.
            before: To do before the server gets it.
            after: To do after the server has answered, before the client knows.
            opening: Count those that open connections instead.
            times: Do it to so many commands in a row.
        """
        with self._lock:
            self.commands: list[str] = []
            self.openings: list[str] = []
            self.fired = False
            self._armed = range(number, number + times if number else 0)
            self._counts_openings = opening
            self._actions = before, after

    def cut_all(self) -> None:
        """End all connections now."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.end()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse new connections inside the `with` block."""
        away = f"{self.path}.away"
        Path(self.path).rename(away)
        try:
            yield
        finally:
            Path(away).rename(self.path)

    def is_quiet(self) -> bool:
        """Whether nothing that was sent, nor the end of a client, waits to be looked at or answered."""
        with self._lock:
            return all(connection.is_quiet() for connection in self._connections)

    def close(self) -> None:
        """End all connections and threads; the socket is gone."""
        self._is_closing = True
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
            knock.connect(self.path)
        self._thread.join()
        self._listener.close()
        shutil.rmtree(self._directory)
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.end()
            connection.thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._is_closing:
                client.close()
                return
            connection = Connection(self, client)
            with self._lock:
                self._connections.add(connection)
            connection.thread.start()

    def actions(self, arguments: list[bytes]) -> tuple[Action | None, Action | None]:
        """Count a command; what is to be done before and after it."""
        name = arguments[0].decode().upper()
        is_opening = name in OPENING
        if name == "EVALSHA":
            name = f"EVALSHA {_NAMES.get(arguments[1].decode(), '?')}"
        with self._lock:
            passed = self.openings if is_opening else self.commands
            passed.append(name)
            if is_opening is not self._counts_openings or len(passed) not in self._armed:
                return None, None
            self.fired = True
            return self._actions

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        with self._lock:
            self._connections.discard(connection)


class Connection:
    """A client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = socket.socket(socket.AF_UNIX)
        self._is_busy = True
        self.thread = threading.Thread(target=self._run, daemon=True)

    def is_quiet(self) -> bool:
        """Whether all that came is answered, and the client is still there."""
        # Busy is set while what came can still be seen in the socket: one of the two shows it.
        return not _has_something(self._client) and not self._is_busy

    def hang_up(self) -> None:
        """End the client's part only."""
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Wake the thread, with nothing more to do."""
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            with self._client, self._server, contextlib.suppress(OSError, EOFError, Cut):
                self._server.connect(self._proxy.upstream)
                self._pass_on(_Reader(self._client), _Reader(self._server))
        finally:
            self._proxy.forget(self)

    def _pass_on(self, commands: _Reader, replies: _Reader) -> None:
        while True:
            if not commands.has_more():
                self._is_busy = False
                select.select([self._client], [], [])
                self._is_busy = True
            command = commands.item()
            before, after = self._proxy.actions(commands.strings(command))
            if before:
                before(self)
            self._server.sendall(command)
            reply = replies.item()
            if after:
                after(self)
            self._client.sendall(reply)


def _has_something(one: socket.socket) -> bool:
    try:
        return bool(select.select([one], [], [], 0)[0])
    except (OSError, ValueError):  # it was closed meanwhile, and will be forgotten at once
        return True


class _Reader:
    """Reads RESP items, of version 2 or 3, as they are."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._data = bytearray()
        self._at = 0

    def has_more(self) -> bool:
        """Whether something came after the last item."""
        return len(self._data) > self._at

    def item(self) -> bytes:
        """The next item; a push or an attribute together with what follows it."""
        del self._data[: self._at]
        self._at = 0
        while self._skip() in b">|":
            pass
        return bytes(self._data[: self._at])

    @staticmethod
    def strings(item: bytes) -> list[bytes]:
        """The first two strings of a command, or the only one."""
        lines = item.split(b"\r\n", 5)
        return lines[2:6:2] if len(lines) > 5 else lines[2:3]

    def _skip(self) -> bytes:
        """Pass over an item; returns its type."""
        line = self._line()
        kind, size = line[:1], line[1:]
        if kind in _LISTS:
            for _ in range(int(size) * _LISTS[kind]):
                self._skip()
        elif kind in _SIZED and int(size) >= 0:
            self._need(int(size) + 2)
            self._at += int(size) + 2
        return kind

    def _line(self) -> bytes:
        while (end := self._data.find(b"\r\n", self._at)) < 0:
            self._receive()
        line = bytes(self._data[self._at : end])
        self._at = end + 2
        return line

    def _need(self, size: int) -> None:
        while len(self._data) < self._at + size:
            self._receive()

    def _receive(self) -> None:
        received = self._source.recv(1 << 16)
        if not received:
            raise EOFError
        self._data += received
