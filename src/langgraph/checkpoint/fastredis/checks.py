"""The operation behind `setup`: proves that the server lets this user do all that the saver does, and warns of what it is."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.fastredis.call import Info
from langgraph.checkpoint.fastredis.errors import ServerWarning
from langgraph.checkpoint.fastredis.expiry import Expiry
from langgraph.checkpoint.fastredis.lifetime import expire_thread
from langgraph.checkpoint.fastredis.reading import get_tuple
from langgraph.checkpoint.fastredis.retention import delete_thread
from langgraph.checkpoint.fastredis.saving import put, put_writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from langchain_core.runnables import RunnableConfig

    from langgraph.checkpoint.fastredis.call import Operation
    from langgraph.checkpoint.fastredis.context import Context


_LIFETIME = 60_000  # milliseconds that the thread lives of which all this is tried
_OLDEST = (6, 2)
# The first release of each line in which the Lua interpreter's holes of October 2025 (CVE-2025-49844 and its kin) are closed.
_REDIS_FIXED = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
_VALKEY_FIXED = {(7, 2): 11, (8, 0): 6, (8, 1): 4}


def setup(context: Context, *, read_only: bool) -> Operation[None]:
    """Save, read, expire and delete a thread of its own, and look at what the server says about itself.

    Nothing needs to be created on a server, so calling this is optional, and calling it again harmless.
    """
    thread_id = f"setup-{uuid4()}"
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    yield from get_tuple(context, config)
    if not read_only:
        # Cut short, it must not stay for ever, whatever the saver's own threads do.
        yield from _use(replace(context, expiry=Expiry(_LIFETIME)), config, thread_id)
    said: Mapping[str, Any] = yield Info()
    # A cluster's client answers for each node.
    nodes: list[Mapping[str, Any]] = [*said.values()] if all(isinstance(one, dict) for one in said.values()) else [said]
    for finding in dict.fromkeys(finding for node in nodes for finding in findings(node)):
        warnings.warn(finding, ServerWarning, stacklevel=2)


def _use(context: Context, config: RunnableConfig, thread_id: str) -> Operation[None]:
    checkpoint = empty_checkpoint()
    checkpoint["channel_versions"] = {"probe": 1}
    checkpoint["channel_values"] = {"probe": [thread_id]}
    saved = yield from put(context, config, checkpoint, {}, {"probe": 1})
    yield from expire_thread(context, thread_id, timedelta(minutes=1))
    yield from put_writes(context, saved, [("probe", thread_id)], "setup", "")
    found: Any = yield from get_tuple(context, config)
    yield from delete_thread(context, thread_id)
    if found is None or found.checkpoint["channel_values"] != checkpoint["channel_values"]:
        message = "the server did not give back what was just stored; is it a writable Redis or Valkey, not a replica or cache?"
        raise RuntimeError(message)


def findings(server: Mapping[str, Any]) -> Iterator[str]:
    """What a server's INFO has in it that its users should know."""
    policy = server.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and server.get("maxmemory"):
        yield (
            f"the server evicts keys when its memory is full (maxmemory-policy {policy}): threads then lose single checkpoints,"
            " and reading them raises IncompleteCheckpointError; set maxmemory-policy noeviction"
        )
    if "dragonfly_version" in server:  # whose redis_version is that of a Redis which it resembles
        return
    name = "Valkey" if "valkey_version" in server else "Redis"
    text = str(server.get("valkey_version") or server.get("redis_version") or "")
    version = tuple(int(part) for part in text.split(".") if part.isdecimal())
    if not version:
        return
    if version < _OLDEST:
        yield f"the server is {name} {text}; the oldest that this package is tested with is Redis 6.2"
    if _has_lua_faults(version, _VALKEY_FIXED if name == "Valkey" else _REDIS_FIXED):
        yield (
            f"the server is {name} {text}, whose Lua interpreter has known vulnerabilities (CVE-2025-49844 and others), unless"
            " your distribution has mended them: update it"
        )


def _has_lua_faults(version: tuple[int, ...], fixed: Mapping[tuple[int, int], int]) -> bool:
    line = version[0], version[1] if len(version) > 1 else 0
    return version[2:] < (fixed[line],) if line in fixed else line < max(fixed)
