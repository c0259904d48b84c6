"""A LangGraph checkpoint saver for plain Redis and Valkey."""

from langgraph.checkpoint.fastredis.aio import AsyncRedisSaver
from langgraph.checkpoint.fastredis.errors import (
    BrokenHistoryError,
    BusyThreadError,
    FastRedisError,
    IncompleteCheckpointError,
    SaverClosedError,
    UnsupportedFormatError,
)
from langgraph.checkpoint.fastredis.expiry import TTLConfig
from langgraph.checkpoint.fastredis.saver import RedisSaver
from langgraph.checkpoint.fastredis.threads import ThreadInfo

__all__ = [
    "AsyncRedisSaver",
    "BrokenHistoryError",
    "BusyThreadError",
    "FastRedisError",
    "IncompleteCheckpointError",
    "RedisSaver",
    "SaverClosedError",
    "TTLConfig",
    "ThreadInfo",
    "UnsupportedFormatError",
]
