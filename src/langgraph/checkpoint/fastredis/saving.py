"""The operations that save: checkpoints, and the writes pending on them. Each is one script call, all of it or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.fastredis import address, guard, keys, records, scripts
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.lifetime import move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata

    from langgraph.checkpoint.fastredis.context import Context
    from langgraph.checkpoint.fastredis.keys import ThreadKeys


def put(
    context: Context,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> Operation[RunnableConfig]:
    """Store a checkpoint; returns the config that names it.

    The script is sent again in three cases: with values that should be stored already and are not (a thread that expired in
    the middle of a run), after the deadline of a thread that had too little left was moved, and where what overtook this save
    was another of the same run.

    Raises:
        ConcurrentRunError: with a guard, another run has saved into the thread since this one read it.
    """
    above = address.parse(config)
    saved = above._replace(namespace=above.namespace or "", checkpoint_id=address.to_text(checkpoint["id"], "checkpoint['id']"))
    if not saved.checkpoint_id:
        message = f"a checkpoint of thread {saved.thread_id!r} has an empty id, under which it could not be read again"
        raise ValueError(message)
    ns, own_id = keys.to_part(saved.namespace or ""), keys.to_id(saved.checkpoint_id)
    parent_id = keys.to_id(above.checkpoint_id or "")
    thread = context.keyspace.thread(saved.thread_id)
    own = thread.checkpoint(ns, own_id)
    involved = (
        thread.index,
        own,
        thread.checkpoint(ns, parent_id) if parent_id else own,
        thread.channels,
        thread.retained,
    )
    packed = records.PackedCheckpoint(context.serde, ns, checkpoint, new_versions)
    body = records.pack_body(context.serde, config, checkpoint, metadata, parent_id)
    least = context.expiry.least
    run = guard.run_on(context.guard, above)
    if run:
        run.own.add(saved.checkpoint_id)
    while True:
        allowed = guard.allowed(run, ns)
        sizes = (len(body), len(packed.values), len(packed.relied), len(packed.cleared), len(allowed))
        status, *found = yield Call(
            scripts.PUT,
            involved,
            (
                *(keys.member(ns, own_id), context.expiry.lifetime, least, packed.listing, *sizes),
                *(*body, *packed.values, *packed.relied, *packed.cleared, *allowed, *packed.carried),
            ),
        )
        if status == b"stored":
            guard.note_stored(run)
            return saved.config()
        if status == b"missing":
            packed.send_relied(found)
        else:
            least = yield from _make_way(context, thread, run, status, found)


def _make_way(
    context: Context, thread: ThreadKeys, run: guard.Run | None, status: bytes, found: Sequence[bytes]
) -> Operation[int]:
    """Do what a script asked for before it saves; returns the time that the thread must have left when it is asked again."""
    if run and status == b"overtaken":
        guard.check(run, *found)
        return context.expiry.least
    yield from move(thread, context.expiry.lifetime, due=context.expiry.least)
    return 0


def put_writes(
    context: Context, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> Operation[None]:
    """Store the writes of a task against a checkpoint, which may arrive later.

    Raises:
        ConcurrentRunError: as for `put`.
    """
    at = address.parse(config)
    if at.checkpoint_id is None:
        message = f"writes to thread {at.thread_id!r} need the checkpoint_id of the checkpoint they belong to"
        raise ValueError(message)
    if not writes:
        return
    ns, encoded_id = keys.to_part(at.namespace or ""), keys.to_id(at.checkpoint_id)
    thread = context.keyspace.thread(at.thread_id)
    regular, special = records.pack_writes(context.serde, writes, task_id, task_path)
    least = context.expiry.least
    run = guard.run_on(context.guard, at)
    while True:
        allowed = guard.allowed(run, ns)
        sizes = len(regular), len(allowed)
        status, *found = yield Call(
            scripts.PUT_WRITES,
            (thread.index, thread.checkpoint(ns, encoded_id), thread.retained),
            (keys.member(ns, encoded_id), context.expiry.lifetime, least, *sizes, *regular, *allowed, *special),
        )
        if status == b"stored":
            return
        least = yield from _make_way(context, thread, run, status, found)
