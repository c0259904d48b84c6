"""Clusters of several nodes: threads on all of them, slots on the move, primaries that die."""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests import agents, servers
from tests.build import Chain, config_of, delta_chain, listed
from tests.clusters import Cluster, slot_of
from tests.conftest import KINDS, assert_deadlines_agree
from tests.drivers import Thread, Twins, all_answered
from tests.shapes import AsyncShape
from tests.waiting import eventually, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from typing_extensions import Self

    from tests.agents import Agent
    from tests.clusters import ClusterNode
    from tests.drivers import Given

REDIS_OWN = (redis.exceptions.RedisError, OSError)


@pytest.fixture(scope="module", params=servers.REAL)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three primaries with a replica each, of each server in turn."""
    with Cluster(servers.binary(request.param)) as cluster:
        yield cluster


class ClusterSavers:
    """Makes savers on a cluster under the test's prefix, of both kinds, on clients of their own and on clients handed in."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix
        self.stack = AsyncExitStack()
        self.handed_in: Any = None

    async def __call__(self, kind: str, origin: str, **options: Any) -> Any:
        """A saver as it is."""
        options = {"prefix": self.prefix, **options}
        if kind == "sync":
            if origin == "url":
                return self.stack.enter_context(RedisSaver.from_conn_string(self.cluster.url, **options))
            self.handed_in = self.client()
            return RedisSaver(self.handed_in, **options)
        if origin == "url":
            return await self.stack.enter_async_context(AsyncRedisSaver.from_conn_string(self.cluster.url, **options))
        self.handed_in = redis.asyncio.RedisCluster(host="127.0.0.1", port=self.cluster.nodes[0].port)
        self.stack.push_async_callback(self.handed_in.aclose)
        return AsyncRedisSaver(self.handed_in, **options)

    def client(self) -> redis.RedisCluster:
        """A client of the cluster."""
        client = redis.RedisCluster(host="127.0.0.1", port=self.cluster.nodes[0].port)
        self.stack.callback(client.close)
        return client


@pytest.fixture
async def make_saver(cluster: Cluster, prefix: str) -> AsyncIterator[ClusterSavers]:
    """Makes savers; afterwards every thread is deleted through one, and nothing may be left on any node."""
    savers = ClusterSavers(cluster, prefix)
    yield savers
    saver = await savers("sync", "client")
    for thread in list(saver.list_threads()):
        saver.delete_thread(thread.thread_id)
    await savers.stack.aclose()
    await eventually(lambda: cluster.keys(prefix) == [])


def shaped(saver: Any) -> Any:
    """A saver to be spoken to by its `a*` methods."""
    return AsyncShape(saver) if isinstance(saver, RedisSaver) else saver


def ids_on(node: ClusterNode, count: int) -> list[str]:
    """Thread ids whose slots a node owns, each in another slot."""
    slots = node.places()[node.id].slots
    return list(itertools.islice((name for name in map(str, itertools.count()) if slot_of(name) in slots), count))


def ids_in(slot: int, count: int) -> list[str]:
    """Thread ids in a slot."""
    return list(itertools.islice((name for name in map(str, itertools.count()) if slot_of(name) == slot), count))


@pytest.mark.parametrize("origin", ["url", "client"])
async def test_everything_works_across_slots_and_nodes(
    make_saver: ClusterSavers, cluster: Cluster, kind: str, origin: str
) -> None:
    """I5, I12: threads on every primary, in two slots each."""
    saver = shaped(await make_saver(kind, origin))
    await saver.asetup()
    names = [name for node in cluster.primaries() for name in ids_on(node, 2)]
    assert len(names) == 6
    chains = [await delta_chain(saver, 4, thread_id=name) for name in names]
    assert all(len(node.client.keys(f"{make_saver.prefix}:*")) == 12 for node in cluster.primaries())
    for chain in chains:
        await chain.put({"plain": "last"}, run_id="run")
    assert len(await listed(saver, None)) == 30
    assert {one.thread_id async for one in saver.alist_threads()} == set(names)
    for source, target in itertools.pairwise(names):
        await saver.acopy_thread(source, f"copy of {source}")
        await saver.adelete_thread(target)
        await saver.acopy_thread(source, target)
    first = await listed(saver, config_of(names[0]))
    for name in names[1:]:
        assert [one.checkpoint for one in await listed(saver, config_of(name))] == [one.checkpoint for one in first]
    await saver.adelete_for_runs(["run"])
    assert len(await listed(saver, None)) == 4 * 11
    before = await history(saver, names[0])
    await saver.aprune(names)
    for name in names:
        assert len(await listed(saver, config_of(name))) == 1
        assert await history(saver, name) == before
    assert len(await listed(saver, None, filter={"step": 3})) == 11


async def test_threads_expire_on_every_node(make_saver: ClusterSavers, cluster: Cluster, kind: str) -> None:
    """E1: the keys of each together."""
    saver = shaped(await make_saver(kind, "url", ttl=timedelta(hours=1)))
    names = [name for node in cluster.primaries() for name in ids_on(node, 1)]
    for name in names:
        await delta_chain(saver, 3, thread_id=name)
    client: Any = make_saver.client()
    assert_deadlines_agree(client, make_saver.prefix)
    assert await saver.apersist_thread(names[0])
    assert await saver.aexpire_thread(names[1], timedelta(minutes=1))
    assert_deadlines_agree(client, make_saver.prefix)
    left = {one.thread_id: one.expires_in async for one in saver.alist_threads()}
    assert left[names[0]] is None
    assert left[names[1]] <= timedelta(minutes=1) < left[names[2]]
    for name in names:
        assert await saver.aexpire_thread(name, timedelta(milliseconds=1))
    await eventually(lambda: cluster.keys(make_saver.prefix) == [])


async def history(saver: Any, thread_id: str) -> Any:
    """The delta channel of a thread that `delta_chain` built."""
    return await saver.aget_delta_channel_history(config=config_of(thread_id), channels=["items"])


async def tended_chain(saver: Any, thread_id: str) -> None:
    """A thread with keys of every kind: two checkpoints are listed, which lean on five others."""
    chain = await delta_chain(saver, 6, thread_id=thread_id)
    await saver.aprune([thread_id])
    await chain.put({"plain": ["after"] * 20}, cleared=["items"], counters_since_delta_snapshot={"items": (6, 6)})


async def attempt(call: Coroutine[Any, Any, Any], errors: list[Exception]) -> None:
    """Do what may fail with an error of Redis' own, and no other."""
    try:
        await call
    except REDIS_OWN as error:
        errors.append(error)


async def test_a_slot_between_two_nodes_never_looks_like_a_loss(make_saver: ClusterSavers, cluster: Cluster, kind: str) -> None:
    """Redis refuses what it cannot do now; what it does, it does to the whole thread."""
    saver = shaped(await make_saver(kind, "client"))
    make_saver.handed_in.RedisClusterRequestTTL = 2  # to hear at once of what is refused
    slot = slot_of("t")
    kept, pruned, deleted, target = ids_in(slot, 4)
    for name in (kept, pruned, deleted):
        await tended_chain(saver, name)

    async def read() -> list[Any]:
        everything = [*await listed(saver, config_of(kept)), *await listed(saver, config_of(kept), filter={"source": "loop"})]
        return [await saver.aget_tuple(config_of(kept)), await history(saver, kept), *everything]

    async def check() -> None:
        assert await read() == before

    async def change() -> None:
        await attempt(check(), errors)
        for call in (saver.aprune([pruned]), saver.adelete_thread(deleted), saver.acopy_thread(kept, target)):
            await attempt(call, errors)

    before = await read()
    errors: list[Exception] = []
    loop = asyncio.get_running_loop()
    to = cluster.other(slot)
    await asyncio.to_thread(
        cluster.move_slot, slot, to, batch=8, between=lambda: asyncio.run_coroutine_threadsafe(change(), loop).result()
    )
    assert errors
    await check()
    assert len(await history(saver, pruned)) == 1
    assert await saver.aget_tuple(config_of(pruned))


class Moves:
    """Moves a slot from node to node, each time the agents have done something since."""

    def __init__(self, cluster: Cluster, slot: int, runs: list[str]) -> None:
        self.cluster = cluster
        self.slot = slot
        self.runs = runs
        self.count = 0
        self.stopped = False

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(1)
        self.moving = self.pool.submit(self.run)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stopped = True
        self.moving.result()
        self.pool.shutdown()

    def run(self) -> None:
        """Until stopped."""
        while not self.stopped:
            seen = len(self.runs)
            self.cluster.move_slot(self.slot, self.cluster.other(self.slot), batch=1)
            self.count += 1
            wait_until(lambda seen=seen: self.stopped or len(self.runs) > seen, seconds=60)  # type: ignore[misc]


@pytest.mark.newest
async def test_agents_run_on_while_their_slot_moves_back_and_forth(
    make_saver: ClusterSavers, cluster: Cluster, kind: str
) -> None:
    """Their threads are, at each step, those of the same agents on `InMemorySaver`."""
    saver = await make_saver(kind, "url")
    script: list[tuple[Agent, list[Given]]] = [
        (agents.approvals, [{"log": ["go"]}, *(Command(resume=answer) for answer in "123")]),
        (agents.fan_out(12, 3), [{"log": ["go"]}, all_answered()]),
        (agents.nested, [{"log": ["go"]}, all_answered()]),
        (agents.chat, [{"messages": [("user", f"turn {turn}")]} for turn in range(4)]),
    ]
    slot = slot_of("agents")
    runs: list[str] = []
    with Moves(cluster, slot, runs) as moves:
        for thread_id, (agent, steps) in zip(ids_in(slot, len(script)), script, strict=True):
            ours = Thread(agent, saver, kind, thread_id=thread_id)
            twins = Twins(ours, Thread(agent, InMemorySaver(), kind, thread_id=thread_id))
            for given in steps:
                await twins.invoke(given)
                runs.append(thread_id)
    assert moves.count > 4


@pytest.mark.newest  # redis-py 5 forgets nodes with open connections, each time, and warnings are errors here
async def test_tasks_whose_connections_are_closed_by_the_client_hear_it_from_redis(
    make_saver: ClusterSavers, cluster: Cluster
) -> None:
    """Its async cluster client does so under way, here at every call that went to the wrong node."""
    async with redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port, reinitialize_steps=1) as client:
        saver = AsyncRedisSaver(client, prefix=make_saver.prefix)
        slot = slot_of("t")
        chains = [Chain(saver, name) for name in ids_in(slot, 30)]
        for chain in chains:
            await chain.put({"a": [1] * 20})
        errors: list[Exception] = []
        for _ in range(5):
            await asyncio.to_thread(cluster.move_slot, slot, cluster.other(slot), batch=100)
            await asyncio.gather(*(attempt(chain.put({"a": [2] * 20}), errors) for chain in chains))
        for chain in chains:
            assert await chain.latest() == (await listed(saver, config_of(chain.thread_id)))[0]


async def test_a_replica_takes_over_when_its_primary_dies(make_saver: ClusterSavers, cluster: Cluster) -> None:
    """I13: until then calls fail with errors of Redis' own; after that all threads are whole, and go on."""
    savers = [shaped(await make_saver(kind, origin)) for kind in KINDS for origin in ("url", "client")]
    victim = cluster.primaries()[0]
    names = [*ids_on(victim, 3), *ids_on(cluster.primaries()[1], 1)]
    chains = [Chain(saver, f"{name}") for saver, name in zip(savers, names, strict=True)]
    for chain in chains:
        for step in range(3):
            await chain.put({"a": [step] * 20})
            await chain.write(("a", step))
    before = {chain.thread_id: await listed(chain.saver, config_of(chain.thread_id)) for chain in chains}
    cluster.wait_until_replicated(victim)
    cluster.kill(victim)
    errors: list[Exception] = []
    recovering = asyncio.create_task(asyncio.to_thread(cluster.wait_until_ok))
    while not recovering.done():
        for chain in chains:
            await attempt(chain.put({"a": [len(errors)] * 20}), errors)
            await attempt(chain.latest(), errors)
        await asyncio.sleep(0)
    await recovering
    for chain in chains:
        await chain.put({"b": ["after"] * 20})
        after = await listed(chain.saver, config_of(chain.thread_id))
        assert after[-3:] == before[chain.thread_id]
        assert (await chain.latest()) == after[0]
        assert after[0].checkpoint["channel_values"]["b"] == ["after"] * 20
    await asyncio.to_thread(cluster.restart, victim)
    await asyncio.to_thread(cluster.wait_until_ok)


async def test_a_plain_client_of_one_node_is_told_where_a_thread_is(cluster: Cluster, kind: str, prefix: str) -> None:
    """Redis' own error; the node that has the slot is served."""
    slot = slot_of("t")
    for node in (cluster.owner(slot), cluster.other(slot)):
        async with AsyncExitStack() as stack:
            saver: Any
            url = f"redis://{node.address}"
            if kind == "sync":
                saver = shaped(stack.enter_context(RedisSaver.from_conn_string(url, prefix=prefix)))
            else:
                saver = await stack.enter_async_context(AsyncRedisSaver.from_conn_string(url, prefix=prefix))
            if node == cluster.owner(slot):
                await Chain(saver, "t").put({"a": 1})
                await saver.adelete_thread("t")
                continue
            for call in (saver.aget_tuple(config_of("t")), Chain(saver, "t").put({"a": 1}), saver.adelete_thread("t")):
                with pytest.raises(redis.exceptions.ResponseError, match=f"{slot} {cluster.owner(slot).address}"):
                    await call
