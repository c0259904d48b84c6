"""The savers under test, each reporting what is stored for certain: what it has acknowledged, and what it has read."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests.crashes.events import Asked, Finished, Report, Stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

SAVERS = ("RedisSaver", "AsyncRedisSaver", "SqliteSaver", "AsyncSqliteSaver")
TTL = timedelta(hours=1)


class Witness(BaseCheckpointSaver[Any]):
    """Goes in front of a saver's class."""

    report: Report

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Save, then report."""
        return self._stored(super().put(config, checkpoint, metadata, new_versions))

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Save, then report."""
        return self._stored(await super().aput(config, checkpoint, metadata, new_versions))

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Save, then report."""
        super().put_writes(config, writes, task_id, task_path)
        self._wrote(config, task_id, writes)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save, then report."""
        await super().aput_writes(config, writes, task_id, task_path)
        self._wrote(config, task_id, writes)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read, then report."""
        return self._found(super().get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read, then report."""
        return self._found(await super().aget_tuple(config))

    def _stored(self, saved: RunnableConfig) -> RunnableConfig:
        place = saved["configurable"]
        self.report(Stored(place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]))
        return saved

    def _wrote(self, config: RunnableConfig, task: str, writes: Sequence[tuple[str, Any]]) -> None:
        thread = config["configurable"]["thread_id"]
        channels = {channel for channel, _ in writes}
        # LangGraph takes a task for finished if it has any write that does not just tell of an interrupt or an error.
        if channels - WRITES_IDX_MAP.keys():
            self.report(Finished(thread, task))
        elif "__interrupt__" in channels:
            self.report(Asked(thread, task))

    def _found(self, found: CheckpointTuple | None) -> CheckpointTuple | None:
        if found:
            self._stored(found.config)
            for task, channel, value in found.pending_writes or ():
                self._wrote(found.config, task, [(channel, value)])
        return found


class WitnessedRedisSaver(Witness, RedisSaver):
    """`RedisSaver`."""


class WitnessedAsyncRedisSaver(Witness, AsyncRedisSaver):
    """`AsyncRedisSaver`."""


class WitnessedSqliteSaver(Witness, SqliteSaver):
    """`SqliteSaver`."""


class WitnessedAsyncSqliteSaver(Witness, AsyncSqliteSaver):
    """`AsyncSqliteSaver`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where threads are stored, and by which saver."""

    saver: str
    """The name of its class."""
    address: str
    """The URL of a server, or the path of a file."""
    prefix: str = ""
    """Of the keys on a server."""

    @property
    def is_async(self) -> bool:
        """Whether agents are to be run by `ainvoke`."""
        return self.saver.startswith("Async")

    @contextmanager
    def open(self, report: Report) -> Iterator[Witness]:
        """The sync saver."""
        if self.saver == "RedisSaver":
            with WitnessedRedisSaver.from_url(self.address, prefix=self.prefix, ttl=TTL) as redis_saver:
                redis_saver.report = report
                yield redis_saver
        else:
            with WitnessedSqliteSaver.from_conn_string(self.address) as sqlite_saver:
                assert isinstance(sqlite_saver, WitnessedSqliteSaver)
                sqlite_saver.report = report
                yield sqlite_saver

    @asynccontextmanager
    async def aopen(self, report: Report) -> AsyncIterator[Witness]:
        """The async saver."""
        if self.saver == "AsyncRedisSaver":
            async with WitnessedAsyncRedisSaver.from_url(self.address, prefix=self.prefix, ttl=TTL) as redis_saver:
                redis_saver.report = report
                yield redis_saver
        else:
            async with WitnessedAsyncSqliteSaver.from_conn_string(self.address) as sqlite_saver:
                assert isinstance(sqlite_saver, WitnessedAsyncSqliteSaver)
                sqlite_saver.report = report
                yield sqlite_saver
