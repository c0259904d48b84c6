"""One shape for both savers, so that a test is written once: it awaits the `a*` methods of whatever it is given."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from langgraph.checkpoint.base import BaseCheckpointSaver

ITERATORS = {"alist", "alist_threads"}


class AsyncShape:
    """A saver whose `a*` methods call the sync ones, on the spot. Other attributes are the saver's own."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self.saver = saver

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.saver, name[1:], None) if name.startswith("a") else None
        if not inspect.ismethod(method):
            return getattr(self.saver, name)
        return _iterating(method) if name in ITERATORS else _awaitable(method)


def _awaitable(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return call


def _iterating(method: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    async def each(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        for item in method(*args, **kwargs):
            yield item

    return each
