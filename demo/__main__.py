"""The tour: turns, a human in the loop, history, a fork, a delta channel, expiry. On an embedded server, or `REDIS_URL`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

import redis
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from demo.agent import Chat, chat_agent, logging_agent
from langgraph.checkpoint.fastredis import RedisSaver
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = f"fastredis-demo-{uuid4().hex[:8]}"
TTL = timedelta(hours=1)


def main() -> None:
    """Walk through it all, and leave nothing behind."""
    with server_url() as url, RedisSaver.from_conn_string(url, prefix=PREFIX, ttl=TTL) as saver, redis.from_url(url) as client:
        saver.setup()
        try:
            turns(saver)
            human_in_the_loop(saver, url)
            time_travel(saver)
            delta_channel(saver, client)
            expiry(saver, client)
        finally:
            for thread in list(saver.list_threads()):
                saver.delete_thread(thread.thread_id)


@contextmanager
def server_url() -> Iterator[str]:
    """The server of `REDIS_URL`, or a private one from a wheel."""
    if url := os.environ.get("REDIS_URL"):
        say("Server", "the one of REDIS_URL", f"under the prefix {PREFIX}, which is cleaned up")
        yield url
    else:
        with EmbeddedServer() as server:
            say("Server", f"embedded, {server.url}")
            yield server.url


def turns(saver: RedisSaver) -> None:
    """A short conversation, each turn timed."""
    agent = chat_agent(saver)
    milliseconds = []
    for at in range(20):
        start = time.perf_counter()
        agent.invoke(user(f"hello {at}"), thread("chat"))
        milliseconds.append(1000 * (time.perf_counter() - start))
    messages = agent.get_state(thread("chat")).values["messages"]
    say("Turns", f"{len(milliseconds)} turns, {len(messages)} messages, the last {messages[-1].text!r}")
    say("", f"median {median(milliseconds):.1f} ms a turn, first {milliseconds[0]:.1f} ms, last {milliseconds[-1]:.1f} ms")


def human_in_the_loop(saver: RedisSaver, url: str) -> None:
    """A tool call waits for a human; another process has the answer."""
    agent = chat_agent(saver)
    paused = agent.invoke(user("I want a refund"), thread("refund"))
    say("Interrupt", f"the agent waits: {paused['__interrupt__'][0].value!r}")
    subprocess.run([sys.executable, "-m", "demo.resume", url, PREFIX, "refund"], check=True)  # noqa: S603
    say("", f"resumed: {agent.get_state(thread('refund')).values['messages'][-1].text!r}")


def time_travel(saver: RedisSaver) -> None:
    """The past of a conversation, and another future for it."""
    agent = chat_agent(saver)
    history = list(agent.get_state_history(thread("refund")))
    say("History", f"{len(history)} checkpoints, newest first:")
    for state in history:
        said = state.values["messages"][-1].text if state.values.get("messages") else ""
        print(f"  step {step_of(state):>2}  next {', '.join(state.next) or '-':<9}  {said!r}")
    before_the_tool = next(state for state in history if state.next == ("use_tool",))
    fork = agent.update_state(before_the_tool.config, user("Never mind, thanks."), as_node="use_tool")
    answer = agent.invoke(None, fork)["messages"][-1].text
    say("Fork", f"from step {step_of(before_the_tool)}, without the tool: {answer!r}")
    after = list(agent.get_state_history(thread("refund")))
    unchanged = [state for state in after if state in history] == history
    say("", f"now {len(after)} checkpoints; the {len(history)} old ones are {'as they were' if unchanged else 'CHANGED'}")


def delta_channel(saver: RedisSaver, client: redis.Redis) -> None:
    """A channel of which each step stores only what it adds."""
    agent = logging_agent(saver)
    for _ in range(120):
        agent.invoke({"lines": []}, thread("log"))
    lines = agent.get_state(thread("log")).values["lines"]
    stored = sum(client.memory_usage(key, samples=0) or 0 for key in keys(client, "{log}"))  # samples of a few would differ
    whole = sum(1000 * (at + 1) for at in range(120))
    say(
        "Delta channel",
        f"{len(lines)} lines rebuilt; {stored / 1e6:.1f} MB stored, the whole log at each turn is {whole / 1e6:.1f} MB",
    )
    saver.prune(["log"])
    same = agent.get_state(thread("log")).values["lines"] == lines
    say(
        "",
        f"pruned to {len([*agent.get_state_history(thread('log'))])} checkpoint; the log is {'the same' if same else 'LOST'}",
    )


def expiry(saver: RedisSaver, client: redis.Redis) -> None:
    """A thread lives and dies as one."""
    threads = sorted(saver.list_threads(), key=lambda info: info.thread_id)
    say(
        "Expiry",
        *(f"thread {one.thread_id!r}: {one.checkpoints} checkpoints, expires in {one.expires_in}" for one in threads),
    )
    for info in threads:
        saver.expire_thread(info.thread_id, timedelta(milliseconds=100))
    start = time.perf_counter()
    while stored := keys(client):
        time.sleep(0.01)
    say("", f"told to expire in 0.1 s; {time.perf_counter() - start:.1f} s later the server holds {len(stored)} keys of ours")


def step_of(state: StateSnapshot) -> int:
    """How far a conversation had got."""
    return (state.metadata or {}).get("step", -1)


def user(text: str) -> Chat:
    """A turn of the user's."""
    return {"messages": [HumanMessage(text)]}


def thread(thread_id: str) -> RunnableConfig:
    """The config of a conversation."""
    return {"configurable": {"thread_id": thread_id}}


def keys(client: redis.Redis, part: str = "") -> list[bytes]:
    """The keys that the demo has stored."""
    return list(client.scan_iter(match=f"{PREFIX}:{part}*", count=1000))


def say(topic: str, *lines: str) -> None:
    """Print a line or more under a topic."""
    for line in lines:
        print(f"{topic:<14} {line}")
        topic = ""


if __name__ == "__main__":
    main()
