"""What a soak measures: how long each call of a saver takes, what fails, and how."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver

if TYPE_CHECKING:
    from langgraph.checkpoint.fastredis.call import Request


@dataclass
class Figures:
    """All that is counted while a soak runs; threads may add to it at once."""

    took: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    """Seconds of each call that succeeded, in quiet and in trouble."""
    failed: Counter[str] = field(default_factory=Counter[str])
    """Calls that did not, by error."""
    errors: Counter[str] = field(default_factory=Counter[str])
    """Errors that reached an agent or a housekeeper."""
    done: Counter[str] = field(default_factory=Counter[str])
    """What was done: turns, kinds of trouble, other operations."""
    takeovers: list[float] = field(default_factory=list[float])
    """Seconds from the end of a primary until the cluster was whole again, without it."""
    is_in_trouble: bool = False

    def met(self, error: Exception) -> None:
        """An agent has met an error."""
        self.errors[type(error).__name__] += 1

    def called(self, began: float, error: BaseException | None = None) -> None:
        """A call has ended."""
        if error is None:
            self.took[self.is_in_trouble].append(time.perf_counter() - began)
        else:
            self.failed[type(error).__name__] += 1

    def percentile(self, share: float, *, in_trouble: bool) -> float:
        """How many milliseconds that share of the calls took at most."""
        ordered = sorted(self.took[in_trouble])
        return 1000 * ordered[int(share * (len(ordered) - 1))] if ordered else 0.0


class TimedSaver(RedisSaver):
    """A saver whose calls are timed."""

    figures: Figures

    def _send(self, request: Request) -> Any:
        began = time.perf_counter()
        try:
            reply = super()._send(request)
        except BaseException as error:
            self.figures.called(began, error)
            raise
        self.figures.called(began)
        return reply


class AsyncTimedSaver(AsyncRedisSaver):
    """The same for async code."""

    figures: Figures

    async def _asend(self, request: Request) -> Any:
        began = time.perf_counter()
        try:
            reply = await super()._asend(request)
        except BaseException as error:
            self.figures.called(began, error)
            raise
        self.figures.called(began)
        return reply
