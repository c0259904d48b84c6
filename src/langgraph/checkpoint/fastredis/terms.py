"""The terms on which a saver's requests are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langgraph.checkpoint.fastredis.call import Call
from langgraph.checkpoint.fastredis.errors import ReadOnlySaverError

if TYPE_CHECKING:
    from langgraph.checkpoint.fastredis.call import Request
    from langgraph.checkpoint.fastredis.wait import Wait


@dataclass(frozen=True, slots=True)
class Terms:
    """What a saver's user asked for."""

    wait: Wait | None
    """Where mutations must have arrived before they return."""
    read_only: bool
    """Whether nothing is to be written, so that replicas can be read from."""

    def wait_for(self, request: Request) -> Wait | None:
        """What to wait for after a request.

        Raises:
            ReadOnlySaverError: it must not be sent.
        """
        if not isinstance(request, Call) or not request.script.writes:
            return None
        if self.read_only:
            message = "this saver was made with read_only=True and writes nothing; make another one for that"
            raise ReadOnlySaverError(message)
        return self.wait
