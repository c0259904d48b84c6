"""`wait=`: a mutation returns once replicas, or disks, have it. What is sent for that, and what the answers mean.

WAIT and WAITAOF wait for what their connection wrote last, so they travel behind the script, on its connection and in the
same round trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from langgraph.checkpoint.fastredis import scripts
from langgraph.checkpoint.fastredis.call import Command, Together
from langgraph.checkpoint.fastredis.errors import NotConfirmedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langgraph.checkpoint.fastredis.call import Call, Operation
    from langgraph.checkpoint.fastredis.scripts import Script

_ATTEMPTS = 4
# What comes of asking one node of a cluster while slots move or nodes fail over; its client knows what to do then.
AT_NO_NODE = (RedisConnectionError, RedisTimeoutError, SlotNotCoveredError)
_ELSEWHERE = (MovedError, AskError, TryAgainError, ClusterDownError, *AT_NO_NODE)


@dataclass(frozen=True, slots=True)
class Wait:
    """Where a mutation must have arrived before it returns.

    It has happened on the server by then, whatever comes: an error says only that it is not known to be anywhere else.
    """

    replicas: int = 0
    """How many replicas must have it."""
    on_disk: bool = False
    """Whether it must be in the append-only file: the server's and, where `replicas` is given, theirs (from Redis 7.2 on)."""
    timeout: timedelta = timedelta(seconds=1)
    """How long to wait at most. The client's `socket_timeout` must be longer."""

    def __post_init__(self) -> None:
        """Refuse what waits for nothing or for ever.

        Raises:
            TypeError: `timeout` is no `timedelta`, or `replicas` no integer.
            ValueError: there is nothing to wait for, or no end of it.
        """
        if not isinstance(self.timeout, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            message = f"timeout={self.timeout!r} does not say its unit; use timedelta(milliseconds=500)"
            raise TypeError(message)
        if not isinstance(self.replicas, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"replicas={self.replicas!r} must be a number of replicas"
            raise TypeError(message)
        if self.replicas < 0 or not (self.replicas or self.on_disk):
            message = f"{self} waits for nothing; use Wait(replicas=1), Wait(on_disk=True) or both"
            raise ValueError(message)
        if self.timeout < timedelta(milliseconds=1):
            message = f"timeout={self.timeout!r} must be at least a millisecond"
            raise ValueError(message)

    def _command(self) -> Command:
        milliseconds = self.timeout // timedelta(milliseconds=1)
        if self.on_disk:
            return "WAITAOF", 1, self.replicas, milliseconds
        return "WAIT", self.replicas, milliseconds

    def together(self, call: Call, *, by_hash: bool) -> Together:
        """A call, a mark behind it, and the command that waits."""

        def run(script: Script, keys: Sequence[bytes], *arguments: bytes | int) -> Command:
            return "EVALSHA" if by_hash else "EVAL", script.sha if by_hash else script.source, len(keys), *keys, *arguments

        index = call.keys[0]
        return Together(index, (run(call.script, call.keys, *call.arguments), run(scripts.MARK, (index,)), self._command()))

    def check(self, waited: Any, what: str) -> None:
        """Look at the answer of the command that waits for `what`.

        Raises:
            NotConfirmedError: too few have it, or the server cannot tell.
        """
        if isinstance(waited, RedisError):
            message = f"{what} is on the server, which cannot promise {self}: {waited}"
            raise NotConfirmedError(message) from waited
        disk, replicas = waited if self.on_disk else (None, waited)
        if replicas < self.replicas or disk == 0:
            missing = [f"{self.replicas - replicas} of {self.replicas} replicas"] if replicas < self.replicas else []
            missing += ["the server's disk"] if disk == 0 else []
            message = (
                f"{what} is on the server, but after {self.timeout} not known to be on {' and '.join(missing)}; repeating the"
                " call is harmless. Look at the replicas (INFO replication) and at appendfsync, or allow more time"
            )
            raise NotConfirmedError(message)


def confirm(call: Call, wait: Wait) -> Operation[Any]:
    """Run a call and wait for it.

    Raises:
        NotConfirmedError: it has happened, but is not known to be where it should be.
    """
    by_hash = True
    what = f"what was done to the thread of {call.keys[0].decode()!r}"
    error: Any = None
    for _ in range(_ATTEMPTS):
        replies: list[Any] = yield wait.together(call, by_hash=by_hash)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            by_hash = False
            continue
        error = next((reply for reply in replies if isinstance(reply, _ELSEWHERE)), None)
        if error is None:
            return _outcome(wait, what, *replies)
        yield call
    message = f"{what} is on the server, but not known to be anywhere else: its place in the cluster kept moving ({error})"
    raise NotConfirmedError(message) from error


def _outcome(wait: Wait, what: str, reply: Any, mark: Any, waited: Any) -> Any:
    if isinstance(reply, RedisError):
        raise reply
    # A full server takes no mark. What this call wrote is waited for all the same.
    if isinstance(mark, ResponseError) and "OOM" not in str(mark):
        raise mark
    wait.check(waited, what)
    return reply
