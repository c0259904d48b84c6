"""How often the clients that savers make themselves repeat what failed: so often, however it is nested.

redis-py repeats a call, within it the opening of a connection, and within that the check of its health, each by the same
`Retry`: with five repetitions a server that does not answer would be tried 36 times, and over Unix sockets for ever.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import redis.asyncio.retry
import redis.retry
from redis.backoff import NoBackoff

_is_inside: ContextVar[bool] = ContextVar("_is_inside", default=False)
_ONCE = redis.retry.Retry(NoBackoff(), 0)
_ASYNC_ONCE = redis.asyncio.retry.Retry(NoBackoff(), 0)


class Retry(redis.retry.Retry):
    """redis-py's, which within another attempt makes one of its own."""

    def call_with_retry(self, *args: Any, **options: Any) -> Any:
        """As redis-py's."""
        if _is_inside.get():
            return _ONCE.call_with_retry(*args, **options)
        token = _is_inside.set(True)
        try:
            return super().call_with_retry(*args, **options)
        finally:
            _is_inside.reset(token)


class AsyncRetry(redis.asyncio.retry.Retry):
    """The same for async clients."""

    async def call_with_retry(self, *args: Any, **options: Any) -> Any:
        """As redis-py's."""
        if _is_inside.get():
            return await _ASYNC_ONCE.call_with_retry(*args, **options)
        token = _is_inside.set(True)
        try:
            return await super().call_with_retry(*args, **options)
        finally:
            _is_inside.reset(token)
