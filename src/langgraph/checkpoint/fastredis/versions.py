"""Channel versions: floats, or what a thread that came from another saver began with."""

from __future__ import annotations

import random
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

# LangGraph reads a checkpoint before it counts on from it, in the same context. It needs to be known there, because the first
# version of a channel is asked for without any other at hand, and LangGraph compares versions of different channels.
_type_in_use: ContextVar[type[float | str]] = ContextVar("_type_in_use", default=float)


def note_type(found: CheckpointTuple | None) -> CheckpointTuple | None:
    """Remember, for what follows in this context, the type of the versions in a checkpoint just read."""
    versions = found.checkpoint["channel_versions"] if found else {}
    _type_in_use.set(type(next(iter(versions.values()), 0.0)))
    return found


def next_version(current: float | str | None) -> float:
    """The version after `current`, of the same type; without one, the first of the type in use.

    Floats take nine bytes in msgpack, increase, and have a random fraction, so that two forks of a thread never give one
    version to two values. Text and integers are what other savers count in; integers skip a random number for the same reason.
    """
    if current is None:
        current = _type_in_use.get()()
    if isinstance(current, str):
        text = f"{int(current.partition('.')[0] or 0) + 1:032}.{random.random():016}"  # noqa: S311 it need not be hard to guess
        return cast("float", text)
    if isinstance(current, int):
        return current + 1 + random.randrange(1 << 20)  # noqa: S311 it need not be hard to guess
    return int(current) + 1 + random.random()  # noqa: S311 it need not be hard to guess
