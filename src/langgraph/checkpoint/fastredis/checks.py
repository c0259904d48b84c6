"""The operation behind `setup`: proves that the server lets this user do all that the savers do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.fastredis.lifetime import expire_thread
from langgraph.checkpoint.fastredis.reading import get_tuple
from langgraph.checkpoint.fastredis.retention import delete_thread
from langgraph.checkpoint.fastredis.saving import put, put_writes

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langgraph.checkpoint.fastredis.call import Operation
    from langgraph.checkpoint.fastredis.context import Context


def setup(context: Context) -> Operation[None]:
    """Save, read, expire and delete a thread of its own.

    Nothing needs to be created on a server, so calling this is optional, and calling it again harmless.
    """
    thread_id = f"setup-{uuid4()}"
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
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
