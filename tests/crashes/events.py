"""What a worker reports while it lives: the steps it runs, and what is stored for certain. Lines of JSON in a pipe.

Each is one `write` of less than `PIPE_BUF` bytes: whatever was reported before a kill can be read after it, and is whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Began:
    """A graph is about to be invoked: whatever an earlier invocation of this life did has returned."""

    thread: str


@dataclass(frozen=True, slots=True)
class Ran:
    """A node has begun to run: the side effect that must not be repeated without need."""

    thread: str
    step: str
    """Which step of the agent's plan it is, the same in each attempt."""
    chain: tuple[tuple[str, str], ...]
    """Namespace and id of the checkpoint that the superstep began with; for a node of a subgraph, those above it first."""
    task: str
    """LangGraph's id of the task: made from that checkpoint, so another one where the superstep begins anew."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The saver has returned from `put`, or has returned this checkpoint from a read."""

    thread: str
    namespace: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The saver has returned from `put_writes` of a task's output, or has returned it from a read."""

    thread: str
    task: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The same of a task's interrupt."""

    thread: str
    task: str


Event: TypeAlias = "Began | Ran | Stored | Finished | Asked"
Report: TypeAlias = "Callable[[Event], object]"
KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in (Began, Ran, Stored, Finished, Asked)}


def encode(event: Event) -> bytes:
    """A line."""
    return json.dumps({"event": type(event).__name__, **asdict(event)}).encode() + b"\n"


def decode(line: bytes) -> Event:
    """The event of a line."""
    given = json.loads(line)
    kind = KINDS[given.pop("event")]
    if "chain" in given:
        given["chain"] = tuple((namespace, checkpoint) for namespace, checkpoint in given["chain"])
    return kind(**given)
