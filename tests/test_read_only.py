"""`read_only=`: a saver that looks and does not touch, on a replica too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from langgraph.checkpoint.fastredis import AsyncRedisSaver, ReadOnlySaverError, RedisSaver, TTLConfig, Wait
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests import agents
from tests.build import Chain, config_of, delta_chain, listed
from tests.clusters import Cluster
from tests.ports import free_port
from tests.servers import REAL, backend, binary
from tests.shapes import AsyncShape
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.servers import Backend

# EVALSHA_RO came with Redis 7.
KNOWING = [name for name in REAL if name != "redis-6.2"]


@pytest.fixture(params=KNOWING)
def server(request: pytest.FixtureRequest) -> Backend:
    """Each server that can."""
    return backend(request.param)


@pytest.fixture
async def look(kind: str) -> AsyncIterator[Callable[..., Any]]:
    """Makes savers that only read, of each kind."""
    opened: list[Any] = []

    def look(url: str, **options: Any) -> Any:
        cls = RedisSaver if kind == "sync" else AsyncRedisSaver
        saver = cls.from_url(url, read_only=True, **options)
        opened.append(saver)
        return AsyncShape(saver) if isinstance(saver, RedisSaver) else saver

    yield look
    for saver in opened:
        if isinstance(saver, AsyncRedisSaver):
            await saver.aclose()
        else:
            saver.close()


@pytest.fixture(params=KNOWING)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    """A server and its replica."""
    port, program = free_port(), binary(request.param)
    options = ["--port", str(port), "--repl-diskless-sync-delay", "0"]
    with (
        EmbeddedServer(binary=program, options=options) as primary,
        EmbeddedServer(binary=program, options=["--replicaof", "127.0.0.1", str(port)]) as replica,
    ):
        yield primary, replica


async def reads(saver: Any, chain: Chain) -> list[Any]:
    """What each read says."""
    return [
        await saver.aget_tuple(config_of(chain.thread_id)),
        await saver.aget_tuple(chain.configs[1]),
        await listed(saver, None),
        await listed(saver, config_of(chain.thread_id), filter={"step": 1}),
        await saver.aget_delta_channel_history(config=chain.config, channels=["items"]),
        [one.thread_id async for one in saver.alist_threads()],
    ]


async def test_a_replica_is_read_from(pair: tuple[EmbeddedServer, EmbeddedServer], look: Callable[..., Any]) -> None:
    """Every read; also when the replica does not know the scripts yet."""
    with RedisSaver.from_conn_string(pair[0].url) as saver, redis.Redis.from_url(pair[1].url) as there:
        chain = await delta_chain(AsyncShape(saver), 4, seed_at=1)
        latest = saver.get_tuple(chain.config)
        looking = look(pair[1].url)
        await eventually(lambda: bool(there.keys()), seconds=20)
        await eventually(lambda: RedisSaver(there, read_only=True).get_tuple(chain.config) == latest)
        there.script_flush()
        assert await reads(looking, chain) == await reads(AsyncShape(saver), chain)
        await looking.asetup()
        with pytest.raises(redis.exceptions.ReadOnlyError):
            RedisSaver(there).put(config_of("t"), Chain(saver).checkpoint("1"), {}, {})


async def test_nothing_is_written(server: Backend, look: Callable[..., Any], prefix: str) -> None:
    """Each mutation is refused by name; reads move no deadline, and no command but reading ones has come to the server."""
    ttl = TTLConfig(default_ttl=60, refresh_on_read=True)
    with server.client() as client:
        saver = RedisSaver(client, prefix=prefix)
        chain = await delta_chain(AsyncShape(saver), 3)
        saver.expire_thread(chain.thread_id, timedelta(minutes=1))
        looking = look(server.url, prefix=prefix, ttl=ttl)
        assert await reads(looking, chain)
        thread = chain.thread_id
        client.config_resetstat()
        for call in (
            looking.aput(chain.config, chain.checkpoint(), {}, {}),
            looking.aput_writes(chain.config, [("a", 1)], "task"),
            looking.adelete_thread(thread),
            looking.aprune([thread]),
            looking.acopy_thread(thread, "copy"),
            looking.aexpire_thread(thread, timedelta(hours=1)),
            looking.apersist_thread(thread),
        ):
            with pytest.raises(ReadOnlySaverError, match="read_only"):
                await call
        await looking.adelete_for_runs(["no such run"])
        stats: dict[str, Any] = client.info("commandstats")
        assert not {f"cmdstat_{name}" for name in ("hset", "unlink", "pexpireat", "persist", "evalsha", "eval")} & set(stats)
        assert 0 < client.pttl(saver._keyspace.thread(thread).index) <= 60_000  # noqa: SLF001
        saver.delete_thread(thread)


async def test_a_graph_shows_its_state_through_it(server: Backend, look: Callable[..., Any], prefix: str) -> None:
    """What it is for: a dashboard beside the agents."""
    with server.client() as client:
        saver = RedisSaver(client, prefix=prefix)
        builder = agents.approvals([])
        config: Any = config_of("t")
        builder.compile(checkpointer=saver).invoke({"log": ["go"]}, config)
        agent = builder.compile(checkpointer=saver)
        shape = look(server.url, prefix=prefix)
        looking = builder.compile(checkpointer=getattr(shape, "saver", shape))
        state = await looking.aget_state(config)
        assert state == agent.get_state(config)
        saver.delete_thread("t")


async def test_replicas_of_a_cluster_are_read_from(look: Callable[..., Any], prefix: str) -> None:
    """By the client's own routing, which knows EVALSHA_RO as a reading command; setup asks every node."""
    with Cluster(binary("valkey-9"), primaries=1, replicas=1) as cluster:
        with RedisSaver.from_conn_string(
            cluster.url, prefix=prefix, wait=Wait(replicas=1, timeout=timedelta(seconds=5))
        ) as saver:
            saver.setup()
            chain = await delta_chain(AsyncShape(saver), 4, seed_at=1)
            expected = await reads(AsyncShape(saver), chain)
        looking = look(cluster.url, prefix=prefix)
        await looking.asetup()
        primary = cluster.primaries()[0]
        replica = cluster.replicas(primary)[0]
        for _ in range(4):
            assert await reads(looking, chain) == expected
        assert "cmdstat_evalsha_ro" in replica.info("INFO commandstats")
        assert "cmdstat_evalsha" not in replica.info("INFO commandstats")
