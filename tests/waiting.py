"""Polling in place of sleeping."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PAUSE = 0.01  # seconds between two looks


async def eventually(condition: Callable[[], bool], *, seconds: float = 5, pause: float = PAUSE) -> None:
    """Return once the condition holds, or fail when the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        await asyncio.sleep(pause)


def wait_until(condition: Callable[[], bool], *, seconds: float = 5) -> None:
    """The same where no event loop runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(PAUSE)
