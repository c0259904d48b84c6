"""A LangGraph checkpoint saver for plain Redis and Valkey."""

from langgraph.checkpoint.fastredis.aio import AsyncRedisSaver
from langgraph.checkpoint.fastredis.errors import (
    BrokenHistoryError,
    BusyThreadError,
    ConcurrentRunError,
    FastRedisError,
    IncompleteCheckpointError,
    NotConfirmedError,
    ReadOnlySaverError,
    SaverClosedError,
    ServerWarning,
    UnsupportedFormatError,
)
from langgraph.checkpoint.fastredis.expiry import TTLConfig
from langgraph.checkpoint.fastredis.saver import RedisSaver
from langgraph.checkpoint.fastredis.threads import ThreadInfo
from langgraph.checkpoint.fastredis.wait import Wait

__all__ = [
    "AsyncRedisSaver",
    "BrokenHistoryError",
    "BusyThreadError",
    "ConcurrentRunError",
    "FastRedisError",
    "IncompleteCheckpointError",
    "NotConfirmedError",
    "ReadOnlySaverError",
    "RedisSaver",
    "SaverClosedError",
    "ServerWarning",
    "TTLConfig",
    "ThreadInfo",
    "UnsupportedFormatError",
    "Wait",
]
