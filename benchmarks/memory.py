"""What the server stores for a checkpoint: threads of a real graph that appends a message at each superstep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import redis
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from benchmarks.samples import message
from benchmarks.stage import clear
from langgraph.checkpoint.fastredis import RedisSaver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

THREADS = 20
SUPERSTEPS = 50


class Conversation(TypedDict):
    """The graph's state."""

    messages: Annotated[list[AnyMessage], add_messages]


@dataclass(frozen=True, slots=True)
class Stored:
    """What all threads take. Sizes in bytes."""

    checkpoints: int
    keys: int
    usage: int
    """MEMORY USAGE of all keys, summed up."""
    used: int
    """By how much the server's used_memory grew."""
    serialized: int
    """What `InMemorySaver` holds for the same threads, without any overhead: the least that can be stored."""


def measure(url: str, threads: int) -> Stored:
    """Run the graph in that many threads, and see what is stored for them; nothing else should use the server."""
    with redis.Redis.from_url(url) as client:
        prefix = f"bench-{uuid4().hex}"
        saver = RedisSaver(client, prefix=prefix)
        saver.setup()
        try:
            before = client.info("memory")["used_memory"]
            _converse(saver, threads)
            used = client.info("memory")["used_memory"] - before
            keys = list(client.scan_iter(match=f"{prefix}:*", count=1000))
            usage = sum(client.memory_usage(key, samples=0) or 0 for key in keys)
            checkpoints = sum(thread.checkpoints for thread in saver.list_threads())
            return Stored(checkpoints, len(keys), usage, used, _serialized(threads))
        finally:
            clear(client, prefix)


def _converse(saver: BaseCheckpointSaver[Any], threads: int) -> None:
    """Let each thread grow by a message at each superstep."""

    def answer(state: Conversation) -> dict[str, list[AIMessage]]:
        said = message(len(state["messages"]))
        return {"messages": [AIMessage(said["content"], id=said["id"])]}

    def proceed(state: Conversation) -> str:
        return "answer" if len(state["messages"]) < SUPERSTEPS else END

    builder = StateGraph(Conversation)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_conditional_edges("answer", proceed)
    graph = builder.compile(checkpointer=saver)
    for number in range(threads):
        config: RunnableConfig = {"configurable": {"thread_id": str(number)}, "recursion_limit": SUPERSTEPS + 5}
        graph.invoke({"messages": []}, config)


def _serialized(threads: int) -> int:
    memory = InMemorySaver()
    _converse(memory, threads)
    bodies = (
        len(packed)
        for spaces in memory.storage.values()
        for saved in spaces.values()
        for checkpoint, metadata, _ in saved.values()
        for _, packed in (checkpoint, metadata)
    )
    writes = (len(packed) for pending in memory.writes.values() for _, _, (_, packed), _ in pending.values())
    return sum(bodies) + sum(writes) + sum(len(packed) for _, packed in memory.blobs.values())
