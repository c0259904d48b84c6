"""What the measured savers are given: the supersteps of a chat and of a delta channel, and how they are stored in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langgraph.checkpoint.fastredis import saving, scripts
from langgraph.checkpoint.fastredis.context import Context
from langgraph.checkpoint.fastredis.expiry import parse_ttl
from langgraph.checkpoint.fastredis.keys import Keyspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta

    import redis
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint

    from langgraph.checkpoint.fastredis.call import Call, Operation

Writes: TypeAlias = list[tuple[str, Any]]

DELTA_CHANNEL = "log"
SERDE = JsonPlusSerializer()
_STORED_AT_ONCE = 250  # checkpoints in a pipeline
_TEXT = "The quick brown fox jumps over the lazy dog. " * 9


def message(number: int) -> dict[str, str]:
    """A message that takes about 430 bytes when serialized."""
    return {"role": "assistant", "id": f"{number:036}", "content": _TEXT[:342]}


PAYLOAD = [message(number) for number in range(30)]
"""The value that a channel gets in the timed calls: about 12.7 kB when serialized."""
SMALL_PAYLOAD = PAYLOAD[:2]
"""The same where a thread is very long: about 0.8 kB."""


def size(*values: object) -> int:
    """Bytes that values take when serialized."""
    return sum(len(SERDE.dumps_typed(value)[1]) for value in values)


@dataclass(frozen=True, slots=True)
class Step:
    """What a saver is given for one superstep."""

    config: RunnableConfig
    """Names the parent."""
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    new_versions: dict[str, str | int | float]
    writes: Writes
    """Pending on the checkpoint, all by one task."""

    @property
    def thread_id(self) -> str:
        """The thread that it belongs to."""
        return str(self.config["configurable"]["thread_id"])

    @property
    def saved(self) -> RunnableConfig:
        """Names the checkpoint itself."""
        return address(self.thread_id, self.checkpoint["id"])


def address(thread_id: str, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config of a checkpoint in the root namespace, or of the latest."""
    named = {"checkpoint_id": checkpoint_id} if checkpoint_id else {}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **named}}


def chat(thread_id: str, value: object = PAYLOAD, *, after: Step | None = None) -> Iterator[Step]:
    """The supersteps of a chat without end: of its eight channels, `messages` gets the value anew at each.

    Two of the others hold text of some hundred bytes, four a scalar, and `__start__` nothing, since it is used up.
    """
    values: dict[str, Any] = {
        "messages": value,
        "summary": _TEXT,
        "context": {"user": _TEXT[:200], "locale": "en", "tools": ["search", "calculator", "browser"]},
        "title": "A chat about foxes",
        "turn": 7,
        "remaining_steps": 20,
        "branch:to:agent": None,
    }
    versions: dict[str, str | int | float] = dict(after.checkpoint["channel_versions"]) if after else {}
    parent = after.checkpoint["id"] if after else None
    step = int(versions.get("messages", 0))
    while True:
        step += 1
        changed = ["messages"] if versions else [*values, "__start__"]
        new: dict[str, str | int | float] = dict.fromkeys(changed, step + 0.123456789012345)
        versions = {**versions, **new}
        checkpoint = _checkpoint(values, versions)
        yield Step(address(thread_id, parent), checkpoint, {"source": "loop", "step": step, "parents": {}}, new, [])
        parent = checkpoint["id"]


def log(thread_id: str, *, snapshot_every: int) -> Iterator[Step]:
    """The supersteps of a graph with one delta channel, which gets a message at each and rarely stores a snapshot."""
    parent = None
    step = 0
    while True:
        values: dict[str, Any] = {"branch:to:agent": None}
        if step % snapshot_every == 0:
            values[DELTA_CHANNEL] = _DeltaSnapshot([message(step)])
        version = step + 1.123456789012345
        new: dict[str, str | int | float] = {DELTA_CHANNEL: version, "branch:to:agent": version}
        checkpoint = _checkpoint(values, new)
        metadata: CheckpointMetadata = {"source": "loop", "step": step, "parents": {}}
        if since := step % snapshot_every:
            metadata["counters_since_delta_snapshot"] = {DELTA_CHANNEL: (since, since)}
        writes: Writes = [(DELTA_CHANNEL, [message(step)]), ("branch:to:agent", None)]
        yield Step(address(thread_id, parent), checkpoint, metadata, new, writes)
        parent = checkpoint["id"]
        step += 1


def _checkpoint(values: dict[str, Any], versions: dict[str, str | int | float]) -> Checkpoint:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = dict(values)
    checkpoint["channel_versions"] = dict(versions)
    checkpoint["versions_seen"] = {
        "__input__": {},
        "__start__": {"__start__": 1.123456789012345},
        "agent": {"branch:to:agent": versions["branch:to:agent"]},
        "tools": {"branch:to:agent": versions["branch:to:agent"]},
    }
    return checkpoint


def store(client: redis.Redis, prefix: str, ttl: timedelta | None, steps: Iterable[Step]) -> None:
    """Store supersteps as a saver with this prefix and `ttl` would, but many in a trip."""
    context = Context(Keyspace(prefix), parse_ttl(ttl), SERDE)
    for script in (scripts.PUT, scripts.PUT_WRITES):
        client.script_load(script.source)
    left = iter(steps)
    while page := list(islice(left, _STORED_AT_ONCE)):
        pipeline = client.pipeline(transaction=False)
        for step in page:
            _add(pipeline, saving.put(context, step.config, step.checkpoint, step.metadata, step.new_versions))
            if step.writes:
                _add(pipeline, saving.put_writes(context, step.saved, step.writes, step.checkpoint["id"], ""))
        if any(reply != [b"stored"] for reply in pipeline.execute()):
            message = "the server did not store the sample"
            raise RuntimeError(message)


def _add(pipeline: Any, operation: Operation[Any]) -> None:
    call: Call = next(operation)  # type: ignore[assignment]
    pipeline.evalsha(call.script.sha, len(call.keys), *call.keys, *call.arguments)
