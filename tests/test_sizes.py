"""Large ids, large values, and very many channels and writes: they are like others, or are refused whole."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio.retry
import redis.retry
from redis.backoff import NoBackoff

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests import servers
from tests.build import listed
from tests.conftest import KINDS, keys_under
from tests.model import LEANING, config_of
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from tests.conftest import Savers

MANY = 10_000
LARGE = ["x"] * 20
on_real_servers = pytest.mark.parametrize(("backend", "kind"), [*zip(servers.REAL, cycle(KINDS), strict=False)], indirect=True)
"""Each real server; the savers take turns, for much data takes long."""
on_two_servers = pytest.mark.parametrize(("backend", "kind"), [*zip(servers.REAL, KINDS, strict=False)], indirect=True)


def body(own: str, values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None) -> Any:
    """A checkpoint."""
    channels = {"channel_values": values or {}, "channel_versions": versions or {}}
    return {"v": 4, "id": own, "ts": "", "versions_seen": {}, **channels}


@on_real_servers
@pytest.mark.parametrize("size", [10_000, 100_000])
async def test_an_id_may_be_of_any_length(make_saver: Savers, size: int) -> None:
    """I1: in every place at once, also where two of them differ in their last letter only."""
    text = "x:%{}*\1\2" * (size // 8)
    other = text + "é"
    saver = make_saver(prefix=make_saver.prefix + ":" + text)
    versions: Any = {text: text, other: other}
    first = await saver.aput(
        config_of(text, text), body(text, {text: LARGE, other: 1}, versions), {"run_id": text, text: text}, versions
    )
    await saver.aput_writes(first, [(text, 1), (other, 2)], text, text)
    found = await saver.aget_tuple(config_of(text, text))
    assert found.config == first == config_of(text, text, text)
    assert found.checkpoint["channel_values"] == {text: LARGE, other: 1}
    assert found.pending_writes == [(text, text, 1), (text, other, 2)]
    second = await saver.aput(first, body(other, {}, {}), {"run_id": other}, {})
    assert await listed(saver, None, filter={text: text}, before=second) == [found]
    history = await saver.aget_delta_channel_history(config=second, channels=[text, other])
    assert history == {text: {"writes": [(text, text, 1)], "seed": LARGE}, other: {"writes": [(text, other, 2)], "seed": 1}}
    await saver.acopy_thread(text, other)
    await saver.adelete_for_runs([other])
    await saver.aprune([text, other])
    threads = {thread.thread_id: thread.checkpoints async for thread in saver.alist_threads()}
    assert threads == {text: 1, other: 1}
    assert (await saver.aget_tuple(config_of(other, text))).checkpoint == found.checkpoint
    for thread in threads:
        await saver.adelete_thread(thread)
    assert [thread async for thread in saver.alist_threads()] == []


@on_real_servers
async def test_a_checkpoint_may_have_ten_thousand_channels(saver: Any) -> None:
    """V3, V4: small and large, new, relied on, carried, missing, cleared; read, listed, copied and pruned."""
    values = {f"channel {number}": LARGE if number % 2 else 1 for number in range(MANY)}
    versions = dict.fromkeys(values, 1.5)
    cleared: Any = dict.fromkeys(values, 2.5)
    await saver.aput(config_of("t"), body("1", values, versions), {}, versions)
    await saver.aput(config_of("t", "", "1"), body("2", values, versions), {}, {})
    await saver.aput(config_of("t", "", "2"), body("3", {}, versions), {}, {})
    await saver.aput(config_of("t", "", "3"), body("4", {}, cleared), {}, cleared)
    await saver.aput(config_of("u"), body("1", values, versions), {}, {})
    for at, expected in ("t1", values), ("t2", values), ("t3", values), ("t4", {}), ("u1", values):
        assert (await saver.aget_tuple(config_of(at[0], "", at[1]))).checkpoint["channel_values"] == expected
    await saver.acopy_thread("t", "u")
    assert [len(one.checkpoint["channel_values"]) for one in await listed(saver, config_of("u"))] == [0, MANY, MANY, MANY]
    history = await saver.aget_delta_channel_history(config=config_of("u"), channels=[*values])
    assert history == {channel: {"writes": [], "seed": value} for channel, value in values.items()}
    await saver.aprune(["t", "u"])
    assert [one.checkpoint["channel_values"] for one in await listed(saver, None)] == [{}, {}]


async def test_the_history_of_a_hundred_channels_is_that_of_each(saver: Any) -> None:
    """V6: found another way than that of a few; each ends at a seed of its own, small or large, or at none."""
    channels = [f"a:\1{number}\2%" for number in range(100)]
    parent = None
    for step in range(6):
        versions: Any = {channel: step + 0.5 for channel in channels if channel != channels[7]}
        values = {channel: LARGE if step % 2 else step for channel in channels[step:96:6] if channel in versions}
        await saver.aput(config_of("t", "", parent), body(str(step), values, versions), {}, versions)
        await saver.aput_writes(config_of("t", "", str(step)), [(channel, step) for channel in channels], "task")
        parent = str(step)
    alone = [await saver.aget_delta_channel_history(config=config_of("t"), channels=[channel]) for channel in channels]
    together = await saver.aget_delta_channel_history(config=config_of("t"), channels=channels)
    assert together == {channel: history[channel] for channel, history in zip(channels, alone, strict=True)}
    assert {len(history["writes"]) for history in together.values()} == {1, 2, 3, 4, 5}


@on_real_servers
async def test_a_checkpoint_may_have_ten_thousand_writes(saver: Any) -> None:
    """W3: of one task in one call, in their order; kept when they are sent again."""
    await saver.aput(config_of("t"), body("1"), {}, {})
    writes = [(f"channel {number % 7}", number) for number in range(MANY)]
    for given in (writes, [(channel, -1) for channel, _ in writes]):
        await saver.aput_writes(config_of("t", "", "1"), [*given, ("__error__", given[1])], "task")
    found = await saver.aget_tuple(config_of("t"))
    assert found.pending_writes == [("task", "__error__", ["channel 1", -1]), *(("task", *write) for write in writes)]
    await saver.acopy_thread("t", "u")
    await saver.aprune(["t", "u"])
    assert (await saver.aget_tuple(config_of("u"))).pending_writes == found.pending_writes


@pytest.mark.parametrize(("backend", "kind"), [(servers.REAL[0], "sync")], indirect=True)
async def test_a_checkpoint_may_have_the_writes_of_ten_thousand_tasks(saver: Any) -> None:
    """W1, W3: before it arrives; in the order of the tasks, whatever the order in which they came."""
    for number in reversed(range(MANY)):
        await saver.aput_writes(config_of("t", "", "1"), [("a", number)], f"task {number:05}")
    await saver.aput(config_of("t"), body("1"), {}, {})
    found = await saver.aget_tuple(config_of("t"))
    assert found.pending_writes == [(f"task {number:05}", "a", number) for number in range(MANY)]
    await saver.acopy_thread("t", "u")
    await saver.aprune(["t", "u"])
    assert (await saver.aget_tuple(config_of("u"))).pending_writes == found.pending_writes


@on_two_servers
async def test_a_value_may_be_of_64_megabytes(saver: Any) -> None:
    """V9: as a channel's and as a write; copied, pruned, and as the history of a delta channel."""
    value = bytes(range(256)) * (64 << 12)
    versions: Any = {"plain": 1.5, "delta": 1.5}
    await saver.aput(config_of("t"), body("1", {"plain": value}, versions), {}, versions)
    await saver.aput_writes(config_of("t", "", "1"), [("delta", value)], "task")
    await saver.aput(config_of("t", "", "1"), body("2", {"plain": value}, versions), {LEANING: {"delta": (1, 1)}}, {})
    await saver.acopy_thread("t", "u")
    await saver.adelete_thread("t")
    await saver.aprune(["u"])
    assert (await saver.aget_tuple(config_of("u"))).checkpoint["channel_values"] == {"plain": value}
    found = await saver.aget_delta_channel_history(config=config_of("u"), channels=["delta"])
    assert found == {"delta": {"writes": [("task", "delta", value)]}}


@on_real_servers
async def test_metadata_may_be_of_a_megabyte(saver: Any) -> None:
    """L5, L6: of each of several checkpoints, filtered too."""
    metadata: Any = {"large": "é" * (1 << 19)}
    for step in range(8):
        await saver.aput(config_of("t"), body(str(step)), {**metadata, "step": step}, {})
    found = await listed(saver, config_of("t"), filter=metadata)
    assert found == await listed(saver, config_of("t"))
    assert [one.metadata["step"] for one in found] == [*range(7, -1, -1)]


def with_little_patience(module: Any) -> dict[str, Any]:
    """Options of a client that sends what failed twice more, at once: Python 3.13.0 stumbles once after one was cut."""
    return {"retry": module.retry.Retry(NoBackoff(), 2), "socket_timeout": 2}


@pytest.mark.parametrize("name", servers.REAL)
async def test_a_value_beyond_what_a_server_takes_is_refused_whole(name: str) -> None:
    """E8: half a gigabyte, unless it is told otherwise, as here; it hangs up, and the state before is still there."""
    server = EmbeddedServer(binary=servers.binary(name))
    try:
        with redis.Redis(unix_socket_path=server.socket, **with_little_patience(redis)) as client:
            client.config_set("proto-max-bulk-len", 1 << 20)
            saver = RedisSaver(client)
            saver.put(config_of("t"), body("1", {"a": LARGE}, {"a": 1.5}), {}, {"a": 1.5})
            before = saver.get_tuple(config_of("t")), keys_under(client, "langgraph")
            async with redis.asyncio.Redis(unix_socket_path=server.socket, **with_little_patience(redis.asyncio)) as other:
                for one in (AsyncShape(saver), AsyncRedisSaver(other)):
                    await refuses(one)
                    found: Any = await one.aget_tuple(config_of("t"))
                    assert (found, keys_under(client, "langgraph")) == before
    finally:
        server.close()


async def refuses(saver: Any) -> None:
    """A value of two megabytes, and the write before such a one, are not stored.

    Whoever reads before the connection is gone hears why: a protocol error.
    """
    parent, large = config_of("t", "", "1"), b"x" * (2 << 20)
    refusals = (redis.exceptions.ConnectionError, redis.exceptions.ResponseError)
    with pytest.raises(refusals):
        await saver.aput(parent, body("2", {"a": large}, {"a": 2.5}), {}, {"a": 2.5})
    with pytest.raises(refusals):
        await saver.aput_writes(parent, [("a", 1), ("b", large)], "task")
