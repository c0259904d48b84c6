"""Savers that keep what they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from langgraph.checkpoint.fastredis.call import Call

if TYPE_CHECKING:
    from langgraph.checkpoint.fastredis.call import Request


class RecordingSaver(RedisSaver):
    """The same, with each request of an operation in `sent`, its reply in `received`, what the client got in `performed`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[Request] = []
        self.received: list[Any] = []
        self.performed: list[Any] = []

    def _send(self, request: Request) -> Any:
        self.sent.append(request)
        self.received.append(super()._send(request))
        return self.received[-1]

    def _perform(self, request: Request) -> Any:
        self.performed.append(request)
        return super()._perform(request)

    def calls(self) -> list[Call]:
        """The script calls since the last time."""
        found = [request for request in self.sent if isinstance(request, Call)]
        self.sent.clear()
        self.received.clear()
        self.performed.clear()
        return found


class AsyncRecordingSaver(AsyncRedisSaver):
    """An async saver that keeps every request in `sent`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[Request] = []

    async def _asend(self, request: Request) -> Any:
        self.sent.append(request)
        return await super()._asend(request)
