"""The requests that operations make of the network: nothing else crosses that border.

An operation is a generator. It yields a request, receives the reply and returns its result; it knows neither how a request
travels nor whether somebody awaits it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from langgraph.checkpoint.fastredis.scripts import Script

Argument: TypeAlias = bytes | int
Command: TypeAlias = tuple[str | bytes | int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a script, in one round trip. All keys lie in one slot."""

    script: Script
    keys: Sequence[bytes]
    arguments: Sequence[Argument]


SCAN_PAGE = 1000
"""Keys in a page of a `Scan`."""


@dataclass(slots=True, eq=False)
class Scan:
    """The keys that match a glob, on all nodes. Yielded again and again, it brings a page each time, and `None` at the end."""

    pattern: bytes
    keys: Any = None
    """The client's own iterator, once there is one."""
    home: Any = None
    """Where that iterator lives: an event loop."""


@dataclass(frozen=True, slots=True)
class Together:
    """Commands about one key, sent at once on one connection to the server that has it.

    The reply is a list of theirs; an error is among them as it is, and alone where nothing came back from a cluster's node.
    """

    key: bytes
    commands: Sequence[Command]


@dataclass(frozen=True, slots=True)
class Info:
    """What each server says about itself in INFO; nothing where the user may not ask."""


Result = TypeVar("Result")
Request: TypeAlias = Call | Scan | Together | Info
# A script's reply is what the server sent: integers, bytes, `None` and lists of them, in the shape the script's header gives.
Operation: TypeAlias = Generator[Request, Any, Result]


def drive(operation: Operation[Result], send: Callable[[Request], Any], request: Request | None = None) -> Result:
    """Run an operation to its end; from `request` on, where it was begun elsewhere and that is what it yielded."""
    try:
        request = request or next(operation)
        while True:
            request = operation.send(send(request))
    except StopIteration as finished:
        result: Result = finished.value
        return result


async def adrive(operation: Operation[Result], send: Callable[[Request], Awaitable[Any]]) -> Result:
    """Run an operation to its end, awaiting the replies."""
    try:
        request = next(operation)
        while True:
            request = operation.send(await send(request))
    except StopIteration as finished:
        result: Result = finished.value
        return result
