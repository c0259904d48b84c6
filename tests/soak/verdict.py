"""What must hold once all is quiet: threads equal their twins on `InMemorySaver`, and the servers hold nothing but them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import redis
from langgraph.checkpoint.memory import InMemorySaver

from tests.conftest import assert_deadlines_agree, keys_under
from tests.delta_agents import extend
from tests.names import id_of
from tests.soak.acts import run
from tests.soak.driving import Driver
from tests.soak.tending import assert_same, shown
from tests.soak.trouble import PATIENCE
from tests.waiting import wait_until

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

    from langgraph.checkpoint.fastredis import RedisSaver
    from tests.clusters import Cluster, ClusterNode
    from tests.soak.driving import Thread


def compare_with_twin(driver: Driver, thread: Thread, *, is_pruned: bool) -> int:
    """Let a thread's twin do the same in peace, and compare; returns the thread's supersteps."""
    twin = _twin(driver, thread)
    look = latest if is_pruned else history
    ours, theirs = look(driver.graph(thread), thread), look(twin.graph(thread), thread)
    if thread.durability == "exit" and not is_pruned:
        steady = replace(thread, durability="sync")
        passed = [*theirs, *history(_twin(driver, steady).graph(steady), steady)]
        # A run that ends with an error saves where it was, so it may have saved more of what it passed through.
        ours = [one for one in ours if one in theirs or one not in passed]
    assert_same(ours, theirs, thread.thread_id)
    assert_same(rebuilt(driver.saver, thread), rebuilt(twin.saver, thread), thread.thread_id)
    return int(theirs[0]["step"])


def _twin(driver: Driver, thread: Thread) -> Driver:
    twin = Driver(InMemorySaver(), replace(driver.clock, pace=0), driver.figures, driver.rng)
    run(twin.converse(thread))
    return twin


def latest(graph: Any, thread: Thread) -> list[dict[str, Any]]:
    """The latest state."""
    return [shown(graph.get_state(thread.config))]


def history(graph: Any, thread: Thread) -> list[dict[str, Any]]:
    """What has led to the latest state, newest first; checkpoints of runs that failed may lie beside it."""
    found: dict[str, StateSnapshot] = {id_of(one.config): one for one in graph.get_state_history(thread.config)}
    state: StateSnapshot | None = graph.get_state(thread.config)
    leading: list[dict[str, Any]] = []
    while state is not None:
        leading.append(shown(state))
        state = found[id_of(state.parent_config)] if state.parent_config else None
    return leading


def rebuilt(saver: Any, thread: Thread) -> Any:
    """The value of the delta channel, as its history has it."""
    found = saver.get_tuple(thread.config)
    stored = found.checkpoint["channel_values"].get("notes")
    if stored is not None:
        return stored.value
    part = saver.get_delta_channel_history(config=found.config, channels=["notes"])["notes"]
    seed = part.get("seed")
    return extend(seed.value if seed else [], [value for _, _, value in part["writes"]])


def check_servers(cluster: Cluster, saver: RedisSaver, threads: list[Thread]) -> None:
    """Every key is one of a thread, expires with it, and is the same on its replica; and all can be deleted."""
    prefix = saver._keyspace.prefix  # noqa: SLF001
    for node in cluster.primaries():
        cluster.wait_until_replicated(node, seconds=PATIENCE)
        assert_deadlines_agree(node.client, prefix)
        contents = contents_of(node, prefix)
        stems = {key[: key.index(b"}") + 1] for key in contents}
        assert [stem for stem in stems if stem + b":index" not in contents] == []
        for replica in cluster.replicas(node):
            assert contents_of(replica, prefix) == contents
    known = {one.thread_id: one.expires_in is not None for one in saver.list_threads()}
    assert known == {thread.thread_id: thread.expires for thread in threads}
    for thread in threads:
        saver.delete_thread(thread.thread_id)
    wait_until(lambda: cluster.keys(prefix) == [], seconds=PATIENCE)


def contents_of(node: ClusterNode, prefix: str) -> dict[bytes, Any]:
    """What a node stores, be it a primary or a replica."""
    assert node.server
    with redis.Redis.from_url(node.server.url, single_connection_client=True) as client:
        client.readonly()
        return {key: _value(client, key) for key in keys_under(client, prefix)}


def _value(client: redis.Redis, key: bytes) -> Any:
    value: Any = client.hgetall(key) if client.type(key) == b"hash" else client.zrange(key, 0, -1)
    return value
