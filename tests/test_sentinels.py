"""Servers that sentinels watch: savers find the primary, and the next one when it dies or is demoted."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio.sentinel
import redis.sentinel

from langgraph.checkpoint.fastredis import AsyncRedisSaver, NotConfirmedError, RedisSaver, Wait
from tests import servers
from tests.build import Chain, config_of, id_of, listed
from tests.conftest import KINDS
from tests.sentinels import SERVICE, Sentinels
from tests.shapes import AsyncShape
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@pytest.fixture(scope="module", params=[name for name in servers.REAL if name in {"valkey-9", "redis-6.2"}])
def sentinels(request: pytest.FixtureRequest) -> Iterator[Sentinels]:
    """Three servers and three sentinels, the newest and the oldest there are."""
    with Sentinels(servers.binary(request.param)) as sentinels:
        yield sentinels


class SentinelSavers:
    """Makes savers of both kinds, on clients of their own and on clients handed in."""

    def __init__(self, sentinels: Sentinels, prefix: str) -> None:
        self.sentinels = sentinels
        self.prefix = prefix
        self.stack = AsyncExitStack()

    async def own(self, kind: str, **options: Any) -> Any:
        """A saver on a client of its own, to be spoken to by its `a*` methods."""
        options = {"prefix": self.prefix, **options}
        if kind == "sync":
            return AsyncShape(self.stack.enter_context(RedisSaver.from_conn_string(self.sentinels.url, **options)))
        return await self.stack.enter_async_context(AsyncRedisSaver.from_conn_string(self.sentinels.url, **options))

    def handed(self, kind: str) -> Any:
        """A saver on a client that is handed in."""
        hosts = [("127.0.0.1", one.port) for one in self.sentinels.sentinels]
        if kind == "sync":
            manager = redis.sentinel.Sentinel(hosts)
            client = manager.master_for(SERVICE)
            for one in (client, *manager.sentinels):
                self.stack.callback(one.close)
            return AsyncShape(RedisSaver(client, prefix=self.prefix))
        amanager = redis.asyncio.sentinel.Sentinel(hosts)
        aclient = amanager.master_for(SERVICE)
        for aone in (aclient, *amanager.sentinels):
            self.stack.push_async_callback(aone.aclose)
        return AsyncRedisSaver(aclient, prefix=self.prefix)


@pytest.fixture
async def make_savers(sentinels: Sentinels, prefix: str) -> AsyncIterator[SentinelSavers]:
    """Makes savers; afterwards every thread is deleted through one, and nothing may be left on any server."""
    savers = SentinelSavers(sentinels, prefix)
    yield savers
    saver = await savers.own("sync")
    async for thread in saver.alist_threads():
        await saver.adelete_thread(thread.thread_id)
    await savers.stack.aclose()
    await eventually(lambda: not any(node.client.keys(f"{prefix}:*") for node in sentinels.live()))


async def saved(savers: list[Any]) -> list[Chain]:
    """A thread of each saver."""
    chains = [Chain(saver, f"{at}") for at, saver in enumerate(savers)]
    for chain in chains:
        for step in range(3):
            await chain.put({"a": [step] * 20})
            await chain.write(("a", step))
    return chains


async def keep_saving(chains: list[Chain], happening: Callable[[], object]) -> set[str]:
    """Save to each thread while something happens, and perhaps fail; the ids that were acknowledged."""
    acknowledged: set[str] = set()
    task = asyncio.create_task(asyncio.to_thread(happening))
    while not task.done():
        for chain in chains:
            with contextlib.suppress(redis.exceptions.RedisError, OSError, NotConfirmedError):
                acknowledged.add(id_of(await chain.put({"a": [len(acknowledged)] * 20})))
        await asyncio.sleep(0)
    await task
    return acknowledged


async def ids_and_values(chain: Chain) -> dict[str, Any]:
    """The thread as it is stored."""
    return {
        id_of(one.config): (one.checkpoint, one.pending_writes) for one in await listed(chain.saver, config_of(chain.thread_id))
    }


async def check_whole(chain: Chain, before: dict[str, Any]) -> None:
    """What was there is there, and the thread goes on."""
    await chain.put({"b": ["after"] * 20})
    after = await ids_and_values(chain)
    assert before.items() <= after.items()
    found = await chain.latest()
    assert found is not None
    assert found.config == chain.config
    assert found.checkpoint["channel_values"].keys() == {"a", "b"}


async def test_a_primary_that_was_demoted_behind_their_back_is_left(make_savers: SentinelSavers, sentinels: Sentinels) -> None:
    """By connections that are still open to it; also where Redis 6.2 hides that it is a replica in an error of the script."""
    chains = await saved([await make_savers.own(kind) for kind in KINDS])
    sentinels.wait_until_replicated()
    sentinels.replace_primary()
    sentinels.wait_until_ok()
    for chain in chains:
        await check_whole(chain, {})
        assert len(await listed(chain.saver, config_of(chain.thread_id))) == 4


async def test_a_primary_that_its_replicas_have_left_is_left(make_savers: SentinelSavers, sentinels: Sentinels) -> None:
    """It refuses a save, where it is set up to (min-replicas-to-write); the next save goes to the new one."""
    chains = await saved([await make_savers.own(kind) for kind in KINDS])
    sentinels.wait_until_replicated()
    old = sentinels.replace_primary(knows=False)
    for chain in chains:
        with pytest.raises(redis.exceptions.ResponseError, match="NOREPLICAS"):
            await chain.put({"a": 1})
        await check_whole(chain, {})
        assert len(await listed(chain.saver, config_of(chain.thread_id))) == 4
    await asyncio.to_thread(sentinels.follow, old)


async def test_a_failover_by_hand_loses_nothing_that_replicas_have(make_savers: SentinelSavers, sentinels: Sentinels) -> None:
    """I13: SENTINEL FAILOVER; and nothing at all that `wait=` for all replicas has acknowledged.

    For ten seconds the old primary goes on taking saves from whoever is connected to it, and then forgets them.
    """
    chains = await saved([await make_savers.own(kind) for kind in KINDS])
    before = [await ids_and_values(chain) for chain in chains]
    sentinels.wait_until_replicated()
    wait = Wait(replicas=2, timeout=timedelta(milliseconds=50))
    plain = [chain.saver for chain in chains]
    for chain, kind in zip(chains, KINDS, strict=True):
        chain.saver = await make_savers.own(kind, wait=wait)

    def demote() -> None:
        sentinels.demote_primary()
        sentinels.wait_until_ok()

    acknowledged = await keep_saving(chains, demote)
    for chain, saver, known in zip(chains, plain, before, strict=True):
        chain.saver = saver
        await check_whole(chain, known)
    assert acknowledged <= {one for chain in chains for one in await ids_and_values(chain)}


async def test_a_replica_becomes_primary_when_that_dies(make_savers: SentinelSavers, sentinels: Sentinels) -> None:
    """I13: until then calls fail with errors of Redis' own; after that all threads are whole, and go on."""
    chains = await saved([*[await make_savers.own(kind) for kind in KINDS], *map(make_savers.handed, KINDS)])
    before = [await ids_and_values(chain) for chain in chains]
    sentinels.wait_until_replicated()
    killed = sentinels.kill_primary()
    await keep_saving(chains, sentinels.wait_until_ok)
    for chain, known in zip(chains, before, strict=True):
        await check_whole(chain, known)
    await asyncio.to_thread(sentinels.restart, killed)
