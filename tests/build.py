"""Builds threads as LangGraph does: every value handed with each checkpoint, `new_versions` naming those that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, empty_checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig


def config_of(thread_id: object, ns: object = "", checkpoint_id: str | None = None) -> RunnableConfig:
    """A config that names a thread and namespace, and perhaps a checkpoint."""
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ns}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def id_of(config: RunnableConfig) -> str:
    """The checkpoint id that a config names."""
    return str(config["configurable"]["checkpoint_id"])


class Chain:
    """A thread's checkpoints in one namespace, each the child of the one before."""

    def __init__(self, saver: Any, thread_id: str | None = None, ns: str = "") -> None:
        self.saver = saver
        self.thread_id = thread_id if thread_id is not None else f"thread-{uuid4()}"
        self.ns = ns
        self.config = config_of(self.thread_id, ns)
        self.values: dict[str, Any] = {}
        self.versions: dict[str, Any] = {}
        self.configs: list[RunnableConfig] = []

    async def put(
        self,
        changed: dict[str, Any] | None = None,
        *,
        cleared: Sequence[str] = (),
        checkpoint_id: str | None = None,
        **metadata: Any,
    ) -> RunnableConfig:
        """Save the next checkpoint; cleared channels change and have no value (as a delta channel that was written)."""
        changed = changed or {}
        new = {name: self.saver.get_next_version(self.versions.get(name), None) for name in (*changed, *cleared)}
        self.versions |= new
        self.values = {name: value for name, value in (self.values | changed).items() if name not in cleared}
        checkpoint = self.checkpoint(checkpoint_id)
        saved: RunnableConfig = await self.saver.aput(
            self.config, checkpoint, {"source": "loop", "step": len(self.configs), "parents": {}, **metadata}, new
        )
        self.config = saved
        self.configs.append(saved)
        return saved

    def checkpoint(self, checkpoint_id: str | None = None) -> Checkpoint:
        """The state as a checkpoint."""
        checkpoint = empty_checkpoint()
        checkpoint["id"] = checkpoint_id or checkpoint["id"]
        checkpoint["channel_values"] = dict(self.values)
        checkpoint["channel_versions"] = dict(self.versions)
        return checkpoint

    async def write(self, *writes: tuple[str, Any], task: str = "task", path: str = "") -> None:
        """Save pending writes on the latest checkpoint."""
        await self.saver.aput_writes(self.config, list(writes), task, path)

    async def latest(self) -> CheckpointTuple | None:
        """The latest checkpoint of the namespace, as the saver reads it."""
        found: CheckpointTuple | None = await self.saver.aget_tuple(config_of(self.thread_id, self.ns))
        return found


async def delta_chain(saver: Any, steps: int, *, seed_at: int = 0, thread_id: str | None = None) -> Chain:
    """A chain with a delta channel `items`: a value stored at one step, written at every other; and a plain one."""
    chain = Chain(saver, thread_id)
    for step in range(steps):
        plain = {"plain": [step] * 20}
        if step == seed_at:
            await chain.put({**plain, "items": ["seed"]})
            del chain.values["items"]
        elif step > seed_at:
            counters = {"items": (step - seed_at, step - seed_at)}
            await chain.put(plain, cleared=["items"], counters_since_delta_snapshot=counters)
        else:
            await chain.put(plain)
        await chain.write(("items", f"write-{step}"), task=f"task-{step}")
    return chain


async def listed(saver: Any, config: RunnableConfig | None, **options: Any) -> list[CheckpointTuple]:
    """All that `alist` yields."""
    return [found async for found in saver.alist(config, **options)]
