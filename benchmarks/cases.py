"""The timed calls: ours, and the two that make up its limit.

Those are the raw command with the same bytes, and `InMemorySaver`'s call with the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from benchmarks.samples import DELTA_CHANNEL, PAYLOAD, SMALL_PAYLOAD, address, size
from benchmarks.stage import ANCESTORS, LISTED, TTL, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

Arguments: TypeAlias = dict[str, Any]
BATCH = 5
"""Calls of each variant in a round."""
KINDS = ("sync", "async")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on one of the stage's threads."""

    name: str
    method: str
    thread: str
    inputs: Callable[[Stage, str, timedelta | None], list[Arguments]]
    """The arguments of each call of a round, the same for our saver and for `InMemorySaver`."""
    size: Callable[[Stage, Arguments], int]
    """Bytes that such a call writes or reads, as `InMemorySaver` serializes them."""
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """An operation on one of our savers; `variants` are `ours`, `raw` and `memory`."""

    operation: str
    checkpoints: int
    kind: str
    expires: bool
    bytes: int
    inputs: Callable[[], list[Arguments]]
    variants: Mapping[str, Callable[..., Any]]


def _puts(stage: Stage, thread: str, ttl: timedelta | None) -> list[Arguments]:
    steps = stage.fresh(ttl, BATCH).coming if thread == "short" else stage.extend(thread, ttl, BATCH)
    return [
        {
            "config": step.config,
            "checkpoint": step.checkpoint,
            "metadata": step.metadata,
            "new_versions": step.new_versions,
        }
        for step in steps
    ]


def _put_size(_: Stage, call: Arguments) -> int:
    new = {channel: call["checkpoint"]["channel_values"][channel] for channel in call["new_versions"]}
    return size({**call["checkpoint"], "channel_values": new}, call["metadata"])


def _writes(*values: object) -> Callable[[Stage, str, timedelta | None], list[Arguments]]:
    def inputs(stage: Stage, _: str, ttl: timedelta | None) -> list[Arguments]:
        writes = [("messages", value) for value in values]
        steps = stage.fresh(ttl, 0).stored[-BATCH:]
        return [{"config": step.saved, "writes": writes, "task_id": str(uuid4())} for step in steps]

    return inputs


def _writes_size(_: Stage, call: Arguments) -> int:
    return size(*(value for _, value in call["writes"]))


def _latest(stage: Stage, thread: str, ttl: timedelta | None) -> list[Arguments]:
    return [{"config": address(stage.thread_id(thread, ttl))}] * BATCH


def _whole(stage: Stage, thread: str, ttl: timedelta | None) -> list[Arguments]:
    return [{"config": address(stage.thread_id(thread, ttl))}]


def _by_id(stage: Stage, thread: str, ttl: timedelta | None) -> list[Arguments]:
    return [{"config": stage.known(thread, ttl).saved}] * BATCH


def _tuple_size(found: CheckpointTuple) -> int:
    return size(found.checkpoint, found.metadata, *(value for _, _, value in found.pending_writes or ()))


def _get_size(stage: Stage, call: Arguments) -> int:
    found = stage.memory.get_tuple(call["config"])
    return _tuple_size(found) if found else 0


def _list_size(stage: Stage, call: Arguments) -> int:
    return sum(map(_tuple_size, stage.memory.list(call["config"])))


def _history(stage: Stage, thread: str, ttl: timedelta | None) -> list[Arguments]:
    return [{"config": address(stage.thread_id(thread, ttl)), "channels": [DELTA_CHANNEL]}]


def _history_size(stage: Stage, call: Arguments) -> int:
    found = stage.memory.get_delta_channel_history(**call)[DELTA_CHANNEL]
    return size(found["seed"], *(value for _, _, value in found["writes"]))


OPERATIONS = (
    Operation("put", "put", "short", _puts, _put_size, writes=True),
    Operation("put", "put", "long", _puts, _put_size, writes=True),
    Operation("put_writes, one", "put_writes", "short", _writes(PAYLOAD), _writes_size, writes=True),
    Operation("put_writes, three small", "put_writes", "short", _writes(*[SMALL_PAYLOAD] * 3), _writes_size, writes=True),
    Operation("get_tuple, latest", "get_tuple", "short", _latest, _get_size),
    Operation("get_tuple, latest", "get_tuple", "long", _latest, _get_size),
    Operation("get_tuple, by id", "get_tuple", "short", _by_id, _get_size),
    Operation("get_tuple, by id", "get_tuple", "long", _by_id, _get_size),
    Operation(f"list of {LISTED}", "list", "listed", _whole, _list_size),
    Operation(f"delta history of {ANCESTORS}", "get_delta_channel_history", "log", _history, _history_size),
)


def all_cases(stage: Stage) -> list[Case]:
    """Each operation on both savers, with and without a time to live."""
    return [_case(stage, operation, kind, ttl) for operation in OPERATIONS for kind in KINDS for ttl in (None, TTL)]


def _case(stage: Stage, operation: Operation, kind: str, ttl: timedelta | None) -> Case:
    def inputs() -> list[Arguments]:
        return operation.inputs(stage, operation.thread, ttl)

    expected = operation.size(stage, inputs()[0])
    memory = stage.scratch if operation.writes else stage.memory
    return Case(
        operation=operation.name,
        checkpoints=stage.lengths[operation.thread],
        kind=kind,
        expires=ttl is not None,
        bytes=expected,
        inputs=inputs,
        variants={
            "ours": _call(stage.saver(kind, ttl), operation.method, kind),
            "raw": _raw(stage, kind, bytes(expected), writes=operation.writes),
            "memory": _call(memory, operation.method, kind),
        },
    )


def _call(saver: BaseCheckpointSaver[Any], name: str, kind: str) -> Callable[..., Any]:
    """A saver's method; what lists is run to its end."""
    method: Callable[..., Any] = getattr(saver, name if kind == "sync" else f"a{name}")
    if name != "list":
        return method
    if kind == "sync":
        return lambda **arguments: list(method(**arguments))

    async def collect(**arguments: Any) -> list[CheckpointTuple]:
        return [found async for found in method(**arguments)]

    return collect


def _raw(stage: Stage, kind: str, value: bytes, *, writes: bool) -> Callable[..., Any]:
    """`SET`, or `GET`, of that many bytes, whatever the arguments."""
    client: Any = stage.client if kind == "sync" else stage.async_client
    key = f"{stage.prefix}:raw:{len(value)}"
    if writes:
        return lambda **_: client.set(key, value)
    stage.client.set(key, value)
    return lambda **_: client.get(key)
