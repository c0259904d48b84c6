"""The public methods of both savers, each in its two forms: they forward to the operations."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph.checkpoint.fastredis import address, checks, history, lifetime, reading, retention, saving, threads
from langgraph.checkpoint.fastredis.context import Context
from langgraph.checkpoint.fastredis.expiry import Expiry, TTLConfig, parse_ttl
from langgraph.checkpoint.fastredis.guard import Guard
from langgraph.checkpoint.fastredis.keys import Keyspace
from langgraph.checkpoint.fastredis.terms import Terms
from langgraph.checkpoint.fastredis.versions import next_version, note_type
from langgraph.checkpoint.fastredis.wait import Wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from datetime import timedelta

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from langgraph.checkpoint.fastredis.call import Operation
    from langgraph.checkpoint.fastredis.threads import ThreadInfo

R = TypeVar("R")


class SaverMethods(BaseCheckpointSaver[float]):
    """What `RedisSaver` and `AsyncRedisSaver` share: everything but how a request travels.

    Methods without a docstring here do what `BaseCheckpointSaver` says of them.
    """

    def __init__(  # noqa: PLR0913 see SaverOptions
        self,
        *,
        prefix: str = "langgraph",
        ttl: timedelta | TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        wait: Wait | None = None,
        guard: bool = False,
        read_only: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        if wait is not None and not isinstance(wait, Wait):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            message = f"wait={wait!r} does not say what to wait for; use wait=Wait(replicas=1)"
            raise TypeError(message)
        self._keyspace = Keyspace(prefix)
        expiry = parse_ttl(ttl)
        self._expiry = Expiry() if read_only else expiry
        self._terms = Terms(wait, read_only=read_only)
        self._guard = Guard() if guard else None

    @property
    def _context(self) -> Context:
        # Not kept: `with_allowlist` copies a saver and gives the copy another serializer.
        return Context(self._keyspace, self._expiry, self.serde, self._guard)

    def _begin(self, config: RunnableConfig, found: CheckpointTuple | None) -> CheckpointTuple | None:
        """Remember, in this context, what those who save after this read need to know of it."""
        if self._guard:
            self._guard.note(address.parse(config), found)
        return note_type(found)

    @abstractmethod
    def _run(self, operation: Operation[R]) -> R:
        """Run an operation to its end."""

    @abstractmethod
    async def _arun(self, operation: Operation[R]) -> R:
        """Run an operation to its end; what it packs is packed before the first await."""

    def _items(self, pages: Iterator[Operation[list[R]]]) -> Iterator[R]:
        for page in pages:
            yield from self._run(page)

    async def _aitems(self, pages: Iterator[Operation[list[R]]]) -> AsyncIterator[R]:
        for page in pages:
            for item in await self._arun(page):
                yield item

    def get_next_version(self, current: float | None, channel: None) -> float:
        """The version after `current`, of the same type: a float, unless the thread began with another saver's."""
        del channel
        return next_version(current)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._begin(config, self._run(reading.get_tuple(self._context, config)))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._begin(config, await self._arun(reading.get_tuple(self._context, config)))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return self._items(reading.list_checkpoints(self._context, config, filter, before, limit))

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        return self._aitems(reading.list_checkpoints(self._context, config, filter, before, limit))

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return self._run(saving.put(self._context, config, checkpoint, metadata, new_versions))

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        return await self._arun(saving.put(self._context, config, checkpoint, metadata, new_versions))

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        self._run(saving.put_writes(self._context, config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._arun(saving.put_writes(self._context, config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        self._run(retention.delete_thread(self._context, thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._arun(retention.delete_thread(self._context, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._run(retention.delete_for_runs(self._context, run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._arun(retention.delete_for_runs(self._context, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._run(retention.copy_thread(self._context, source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._arun(retention.copy_thread(self._context, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._run(retention.prune(self._context, thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._arun(retention.prune(self._context, thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._run(history.get_delta_channel_history(self._context, config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._arun(history.get_delta_channel_history(self._context, config, channels))

    def list_threads(self) -> Iterator[ThreadInfo]:
        """Each thread stored under the saver's prefix, in no particular order."""
        return self._items(threads.list_threads(self._context))

    def alist_threads(self) -> AsyncIterator[ThreadInfo]:
        """Async version of `list_threads`."""
        return self._aitems(threads.list_threads(self._context))

    def expire_thread(self, thread_id: str, ttl: timedelta) -> bool:
        """Let a thread expire `ttl` from now, whatever its deadline was.

        Returns:
            Whether there is such a thread.
        """
        return self._run(lifetime.expire_thread(self._context, thread_id, ttl))

    async def aexpire_thread(self, thread_id: str, ttl: timedelta) -> bool:
        """Async version of `expire_thread`."""
        return await self._arun(lifetime.expire_thread(self._context, thread_id, ttl))

    def persist_thread(self, thread_id: str) -> bool:
        """Pin a thread: it loses its deadline, and later saves do not bring one back. `expire_thread` does.

        Returns:
            Whether there is such a thread.
        """
        return self._run(lifetime.persist_thread(self._context, thread_id))

    async def apersist_thread(self, thread_id: str) -> bool:
        """Async version of `persist_thread`."""
        return await self._arun(lifetime.persist_thread(self._context, thread_id))

    def setup(self) -> None:
        """Check that the server can be reached and lets this user do all that the saver does.

        Optional: there is nothing to create. Saves, reads, expires and deletes a small thread of its own (a saver that only
        reads just reads). Warns (`ServerWarning`), where it may ask, of a server that evicts keys, that has known faults in its
        Lua interpreter, or that is older than those that we support.

        Raises:
            redis.exceptions.RedisError: what the server, or the way to it, has against it.
        """
        self._run(checks.setup(self._context, read_only=self._terms.read_only))

    async def asetup(self) -> None:
        """Async version of `setup`."""
        await self._arun(checks.setup(self._context, read_only=self._terms.read_only))
