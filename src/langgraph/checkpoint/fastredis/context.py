"""What every operation needs to know about its saver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph.checkpoint.fastredis.expiry import Expiry
    from langgraph.checkpoint.fastredis.guard import Guard
    from langgraph.checkpoint.fastredis.keys import Keyspace


@dataclass(frozen=True, slots=True)
class Context:
    """Where a saver keeps its keys, how long they live, how values are serialized, and who may save."""

    keyspace: Keyspace
    expiry: Expiry
    serde: SerializerProtocol
    guard: Guard | None = None
