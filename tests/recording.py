"""Savers that keep what they send, or measure it."""

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


class MeasuringSaver(RecordingSaver):
    """Counts its round trips, and measures each by the server's counters."""

    trips = 0
    most_commands = 0
    most_bytes = 0

    def _send(self, request: Request) -> Any:
        self.trips += 1
        client = self._link.client
        client.config_resetstat()
        reply = super()._send(request)
        stats = client.info("commandstats")
        inside = sum(one["calls"] for name, one in stats.items() if name != "cmdstat_evalsha")
        self.most_commands = max(self.most_commands, inside)
        arguments = sum(len(one) for one in getattr(request, "arguments", ()) if isinstance(one, bytes))
        self.most_bytes = max(self.most_bytes, size(reply), arguments)
        self.sent.clear()
        self.received.clear()
        self.performed.clear()
        return reply


def size(reply: Any) -> int:
    """Bytes in a reply."""
    return sum(map(size, reply)) if isinstance(reply, list) else len(reply) if isinstance(reply, bytes) else 8
