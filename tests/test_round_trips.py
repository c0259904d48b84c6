"""What each operation costs, read off the server's own counters: round trips, and the commands of its script."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.build import Chain, config_of, delta_chain, listed
from tests.servers import REAL, backend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

    from tests.conftest import Savers

# Commands that come from a client and not from a script: each is a round trip.
SENT = {"evalsha", "eval", "scan", "script|flush", "ping"}
OWN = {"info", "config", "config|resetstat"}
# What redis-py says when it opens a connection.
GREETING = {"hello", "client", "client|setinfo", "select", "auth"}


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest) -> Any:
    """Each real server."""
    return backend(request.param)


@pytest.fixture(name="backend")
def _backend(real: Any) -> Any:
    return real


async def counted(client: redis.Redis, call: Callable[[], Awaitable[Any]]) -> tuple[int, dict[str, int]]:
    """Round trips, and calls per command inside scripts."""
    client.config_resetstat()
    await call()
    stats: dict[str, Any] = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()}
    inside = {name: count for name, count in calls.items() if name not in SENT | OWN | GREETING}
    return sum(count for name, count in calls.items() if name in SENT), inside


async def warm(saver: Any) -> None:
    """Have each script cached and each connection open."""
    chain = await delta_chain(saver, 3)
    await read_all(saver, chain)
    await saver.aprune([chain.thread_id])
    await saver.adelete_thread(chain.thread_id)


async def read_all(saver: Any, chain: Chain) -> None:
    """Each kind of read."""
    await chain.latest()
    await listed(saver, config_of(chain.thread_id), filter={"step": 1})
    await listed(saver, config_of(chain.thread_id))
    await saver.aget_delta_channel_history(config=chain.config, channels=["items"])


PUT = {"hexists": 1, "pttl": 1, "hset": 2, "hdel": 1, "zadd": 1, "zrem": 1}


@pytest.mark.parametrize("length", [10, 500])
@pytest.mark.parametrize("ttl", [None, timedelta(minutes=1)])
async def test_a_save_costs_the_same_however_long_the_thread(
    make_saver: Savers, client: redis.Redis, length: int, ttl: timedelta | None
) -> None:
    """One round trip; as many commands as channels that changed, cleared or stayed need."""
    saver = make_saver(ttl=ttl)
    await warm(saver)
    chain = Chain(saver)
    await chain.put({"a": [1] * 20, "b": [1] * 20, "small": 1, "gone": [1] * 20})
    for step in range(length):
        await chain.put({"a": [step] * 20})
    trips, inside = await counted(client, lambda: chain.put({"a": [2] * 20, "small": 2}, cleared=["gone"]))
    holding = {"persist": 2} if ttl is None else {"time": 1, "pexpireat": 2}
    assert (trips, inside) == (1, {**PUT, **holding})
    trips, inside = await counted(client, lambda: chain.write(("a", 1), ("b", 2), ("__error__", 3)))
    holding = {"persist": 1} if ttl is None else {"time": 1, "pexpireat": 1}
    assert (trips, inside) == (1, {"pttl": 1, "hsetnx": 2, "hset": 1, "zscore": 1, "zadd": 1, **holding})


@pytest.mark.parametrize("length", [10, 500])
async def test_a_read_costs_the_same_however_long_the_thread(make_saver: Savers, client: redis.Redis, length: int) -> None:
    """One round trip for the latest and by id; history and list one a page."""
    saver = make_saver()
    await warm(saver)
    chain = Chain(saver)
    for step in range(length):
        await chain.put({"a": [step] * 20, "b": step})
    for config, finding in (
        (config_of(chain.thread_id), {"zrevrangebylex": 1, "hexists": 1}),
        (chain.config, {"zscore": 1}),
    ):
        trips, inside = await counted(client, partial(saver.aget_tuple, config))
        assert (trips, inside) == (1, {"pttl": 1, "hgetall": 1, "hmget": 1, **finding})
    trips, inside = await counted(client, lambda: listed(saver, config_of(chain.thread_id), limit=5))
    assert (trips, inside) == (1, {"pttl": 1, "zrevrangebylex": 1, "hgetall": 5, "hmget": 5})


async def test_a_history_takes_a_round_trip_a_page(make_saver: Savers, client: redis.Redis) -> None:
    """Of 250 ancestors; and three commands for each."""
    saver = make_saver()
    await warm(saver)
    chain = await delta_chain(saver, 501)
    trips, inside = await counted(client, lambda: saver.aget_delta_channel_history(config=chain.config, channels=["items"]))
    assert trips == 2
    assert sum(inside.values()) <= 3 * 500 + 5


async def test_a_checkpoint_takes_two_keys_of_its_thread_and_one_of_its_own(make_saver: Savers, client: redis.Redis) -> None:
    """Index and channels are shared by all checkpoints; writes live in the checkpoint's hash."""
    chain = Chain(make_saver(), "t")
    for step in range(10):
        await chain.put({"a": [step] * 20, "b": step})
        await chain.write(("a", 1), ("__error__", 2))
    assert len(list(client.scan_iter(match=f"{make_saver.prefix}:*"))) == 12
    assert client.hlen(f"{make_saver.prefix}:{{t}}:channels") == 10


async def test_deletion_takes_a_round_trip_a_page(make_saver: Savers, client: redis.Redis) -> None:
    """Of 500 checkpoints."""
    saver = make_saver()
    await warm(saver)
    chain = Chain(saver)
    for step in range(501):
        await chain.put({"a": step})
    trips, inside = await counted(client, lambda: saver.adelete_thread(chain.thread_id))
    assert trips == 2
    assert inside["unlink"] <= 501 + 6
