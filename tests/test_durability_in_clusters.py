"""`wait=` in a cluster, whose client is told which node to ask, while slots move and nodes die."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from langgraph.checkpoint.fastredis import AsyncRedisSaver, NotConfirmedError, RedisSaver, Wait
from tests.build import Chain, config_of, listed
from tests.clusters import Cluster, slot_of
from tests.conftest import keys_under
from tests.servers import binary
from tests.shapes import AsyncShape
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

WAIT = Wait(replicas=1, timeout=timedelta(seconds=5))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two primaries, with a replica each."""
    with Cluster(binary("valkey-9"), primaries=2, replicas=2) as cluster:
        yield cluster


@asynccontextmanager
async def saver_on(cluster: Cluster, kind: str, **options: Any) -> AsyncIterator[Any]:
    """A saver with a client of its own."""
    if kind == "sync":
        with RedisSaver.from_conn_string(cluster.url, **options) as sync:
            yield AsyncShape(sync)
    else:
        async with AsyncRedisSaver.from_conn_string(cluster.url, **options) as saver:
            yield saver


async def test_what_has_returned_is_on_a_replica(cluster: Cluster, kind: str, prefix: str) -> None:
    """Whatever node the thread lies on, and after a move that the client has not heard of."""
    async with saver_on(cluster, kind, prefix=prefix, wait=WAIT) as saver:
        for at in range(8):
            chain = Chain(saver, f"{at}")
            await chain.put({"a": [1] * 20})
            slot = slot_of(f"{{{at}}}")
            for _ in range(2):
                replica = cluster.replicas(cluster.owner(slot))[0]
                here = [key for key in keys_under(replica.client, prefix) if f"{{{at}}}".encode() in key]
                assert len(here) == 3
                cluster.move_slot(slot, cluster.other(slot))
                await chain.write(("a", 1))
                await chain.put({"a": [2] * 20})
                replica = cluster.replicas(cluster.owner(slot))[0]
                assert len([key for key in keys_under(replica.client, prefix) if f"{{{at}}}:ch".encode() in key]) >= 2
                await saver.adelete_thread(f"{at}")
                chain = Chain(saver, f"{at}")
                await chain.put({"a": [1] * 20})
            await saver.adelete_thread(f"{at}")
        assert cluster.keys(prefix) == []


@pytest.mark.parametrize("wait", [None, WAIT])
async def test_a_save_in_the_middle_of_a_move_is_done_when_the_slot_has_arrived(
    cluster: Cluster, kind: str, prefix: str, wait: Wait | None
) -> None:
    """Its keys are here and there meanwhile: whoever needs them waits, some seconds."""
    async with saver_on(cluster, kind, prefix=prefix, wait=wait) as saver:
        chain = Chain(saver, "moving")
        await chain.put({"a": [1] * 20})
        slot = slot_of("{moving}")
        source, target = cluster.owner(slot), cluster.other(slot)
        target.ask("CLUSTER SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER SETSLOT", slot, "MIGRATING", target.id)
        keys = source.client.cluster("GETKEYSINSLOT", slot, 100)
        source.client.migrate("127.0.0.1", target.port, keys, 0, 5000)

        def arrive() -> None:
            for node in (target, source):
                node.ask("CLUSTER SETSLOT", slot, "NODE", target.id)

        timer = threading.Timer(1, arrive)  # longer than redis-py would ask by itself
        timer.start()
        await chain.write(("a", 1))
        timer.join()
        assert (await chain.latest()).pending_writes == [("task", "a", 1)]  # type: ignore[union-attr]
        await saver.adelete_thread("moving")


async def test_more_callers_than_connections_wait(cluster: Cluster, prefix: str) -> None:
    """I15: redis-py's cluster clients refuse them."""
    async with saver_on(cluster, "async", prefix=prefix, max_connections=3) as saver:
        await asyncio.gather(*(Chain(saver, f"{at}").put({"a": at}) for at in range(150)))
        nodes = saver._link.client_here().get_nodes()  # noqa: SLF001
        assert all(len(node._connections) <= 4 for node in nodes)  # noqa: SLF001
        with (
            RedisSaver.from_conn_string(cluster.url, prefix=prefix, max_connections=3) as sync,
            ThreadPoolExecutor(30) as pool,
        ):
            found = list(pool.map(lambda at: sync.get_tuple(config_of(f"{at}")), range(150)))
            assert [one.checkpoint["channel_values"] for one in found if one] == [{"a": at} for at in range(150)]
            list(pool.map(lambda at: sync.delete_thread(f"{at}"), range(150)))
        assert await listed(saver, None) == []


def test_a_client_that_gives_up_before_its_wait_is_refused(cluster: Cluster, prefix: str) -> None:
    """Sync cluster clients keep their options elsewhere than others."""
    with pytest.raises(ValueError, match="socket_timeout"):
        RedisSaver.from_url(cluster.url, prefix=prefix, wait=WAIT, socket_timeout=1)
    with pytest.raises(ValueError, match="socket_timeout"):
        AsyncRedisSaver.from_url(cluster.url, prefix=prefix, wait=WAIT, socket_timeout=1)


async def test_a_dead_primary_is_replaced(kind: str, prefix: str) -> None:
    """What was confirmed is there when its replica has taken over; without a replica left nothing is confirmed any more."""
    with Cluster(binary("valkey-9"), primaries=3, replicas=3) as cluster:
        async with saver_on(cluster, kind, prefix=prefix, wait=WAIT) as saver, saver_on(cluster, kind, prefix=prefix) as plain:
            chains = [Chain(saver, f"{at}") for at in range(12)]
            for chain in chains:
                await chain.put({"a": [1] * 20})
            victim = cluster.primaries()[0]
            owned = victim.places()[victim.id].slots
            cluster.kill(victim)
            cluster.wait_until_ok()
            for chain in chains:
                found = await plain.aget_tuple(chain.config)
                assert found is not None
                assert found.checkpoint["channel_values"] == {"a": [1] * 20}
            orphan = next(chain for chain in chains if slot_of(f"{{{chain.thread_id}}}") in owned)
            impatient = Wait(replicas=1, timeout=timedelta(milliseconds=100))
            async with saver_on(cluster, kind, prefix=prefix, wait=impatient) as hasty:
                with pytest.raises(NotConfirmedError, match="1 of 1 replicas"):
                    await hasty.aput_writes(orphan.config, [("a", 1)], "task")
            cluster.restart(victim)
            cluster.wait_until_ok()
            await eventually(lambda: bool(cluster.replicas(cluster.owner(slot_of(f"{{{orphan.thread_id}}}")))), seconds=20)
            await saver.aput_writes(orphan.config, [("a", 1)], "task")
            for chain in chains:
                await saver.adelete_thread(chain.thread_id)
