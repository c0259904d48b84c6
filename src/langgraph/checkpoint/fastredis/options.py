"""The options that both savers take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from datetime import timedelta

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph.checkpoint.fastredis.expiry import TTLConfig
    from langgraph.checkpoint.fastredis.wait import Wait


class SaverOptions(TypedDict, total=False):
    """Keyword arguments of both savers, however they are made."""

    prefix: str
    """What every key begins with (default: `langgraph`); savers with different prefixes do not see each other's threads."""
    ttl: timedelta | TTLConfig | None
    """How long a thread lives after its last write: a `timedelta`, or LangGraph's mapping in minutes. Default: for ever."""
    serde: SerializerProtocol | None
    """The serializer of all values; LangGraph's own by default."""
    wait: Wait | None
    """Where each mutation must have arrived before it returns: replicas, or disks. Default: on the server is enough."""
    guard: bool
    """Refuse (`ConcurrentRunError`) the first checkpoint of a run that another run has overtaken: one that has saved since this
    one read the latest checkpoint. By default both are kept, and the one with the larger id leads."""
    read_only: bool
    """Only read, with commands that a replica takes (`EVALSHA_RO`, from Redis 7 on): what writes raises `ReadOnlySaverError`,
    and reading moves no deadline; `ttl` and `wait` mean nothing then. A replica may lag behind: this is for looking, not for
    running agents."""


def split(options: dict[str, Any]) -> tuple[SaverOptions, dict[str, Any]]:
    """The saver's options, and those of its client."""
    own = {name: value for name, value in options.items() if name in SaverOptions.__annotations__}
    return cast("SaverOptions", own), {name: value for name, value in options.items() if name not in own}
