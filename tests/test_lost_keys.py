"""A full server, and keys that are taken away one by one (cases E8, E9, I14)."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import redis

from langgraph.checkpoint.fastredis import BrokenHistoryError, IncompleteCheckpointError, RedisSaver, history
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests.build import Chain, config_of, delta_chain, listed
from tests.conftest import keys_under
from tests.recording import MeasuringSaver
from tests.servers import REAL, binary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Savers
    from tests.servers import Backend

LOST = (IncompleteCheckpointError, BrokenHistoryError)


@pytest.fixture(params=REAL)
def full_server(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client of a server of its own, which a test may fill."""
    with EmbeddedServer(binary=binary(request.param)) as server, redis.Redis.from_url(server.url) as client:
        yield client


async def test_a_full_server_refuses_a_save_whole_and_still_reads_and_deletes(full_server: redis.Redis) -> None:
    """E8: under `noeviction`; the state before is still there, a copy is refused too, and room can be made."""
    saver = RedisSaver(full_server, prefix="p")
    chain = await delta_chain(saver, 6, thread_id="t")
    before = await listed(saver, None), sorted(full_server.keys())
    before_history = saver.get_delta_channel_history(config=chain.config, channels=["items"])
    full_server.config_set("maxmemory", 1)
    for save in (
        lambda: chain.put({"plain": [0] * 20}),
        lambda: chain.write(("plain", 1)),
        lambda: saver.acopy_thread("t", "copy"),
    ):
        with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
            await save()
        assert (await listed(saver, None), sorted(full_server.keys())) == before
    assert saver.get_delta_channel_history(config=chain.config, channels=["items"]) == before_history
    saver.delete_thread("t")
    assert full_server.keys() == []


async def test_a_full_server_lets_old_checkpoints_be_pruned(full_server: redis.Redis) -> None:
    """E8: that is when it is needed most; only ancestors that delta channels need must be recorded first."""
    saver = RedisSaver(full_server, prefix="p")
    chain = Chain(saver, "t")
    for step in range(5):
        await chain.put({"a": [step] * 20})
    full_server.config_set("maxmemory", 1)
    saver.prune(["t"])
    assert [found.config for found in saver.list(config_of("t"))] == [chain.config]
    assert saver.expire_thread("t", timedelta(minutes=1))


async def reads(saver: Any, chain: Chain) -> list[Any]:
    """The result of each kind of read of a thread, or the error that it raises."""
    history_of = lambda config: saver.aget_delta_channel_history(config=config, channels=["items"])  # noqa: E731
    calls = [
        lambda: saver.aget_tuple(config_of(chain.thread_id)),
        *(lambda config=config: saver.aget_tuple(config) for config in chain.configs),
        lambda: listed(saver, config_of(chain.thread_id)),
        lambda: listed(saver, config_of(chain.thread_id), filter={"source": "loop"}),
        *(lambda config=config: history_of(config) for config in chain.configs),
        lambda: history_of(config_of(chain.thread_id)),
    ]
    found = []
    for call in calls:
        try:
            found.append(await call())
        except LOST as error:
            found.append(error)
    assert all(chain.thread_id in str(one) for one in found if isinstance(one, LOST))
    return found


async def test_a_lost_key_is_an_error_for_each_read_that_needs_it(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """E9: each key taken away in turn: the same answer as before, an error, or (without the index) nothing; never another."""
    saver = make_saver()
    chain = await delta_chain(saver, 5, seed_at=1)
    whole = await reads(saver, chain)
    assert not any(isinstance(one, LOST) for one in whole)
    for key in keys_under(client, prefix):
        client.rename(key, b"taken:" + key)
        found = await reads(saver, chain)
        client.rename(b"taken:" + key, key)
        if key.endswith(b":index"):
            for one, other in zip(found, whole, strict=True):
                assert one in (None, [], {"items": {"writes": []}}) or one == other
            continue
        assert any(isinstance(one, LOST) for one in found), key
        assert all(isinstance(one, LOST) or one == other for one, other in zip(found, whole, strict=True)), key


async def test_a_lost_ancestor_of_a_pruned_thread_is_an_error(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """E9: those that are no longer listed are needed as much."""
    saver = make_saver()
    chain = await delta_chain(saver, 6, seed_at=1)
    await saver.aprune([chain.thread_id])
    whole = await saver.aget_delta_channel_history(config=chain.config, channels=["items"])
    assert [write[2] for write in whole["items"]["writes"]] == [f"write-{step}" for step in range(1, 5)]
    ancestors = [key for key in keys_under(client, prefix) if b":checkpoint:" in key][:-1]
    assert len(ancestors) == 4
    for key in ancestors:
        client.rename(key, b"taken:" + key)
        with pytest.raises(LOST):
            await saver.aget_delta_channel_history(config=chain.config, channels=["items"])
        client.rename(b"taken:" + key, key)


async def test_parents_that_go_round_in_a_circle_end_in_an_error(saver: Any) -> None:
    """A checkpoint put again as its own parent."""
    chain = Chain(saver)
    await chain.put(cleared=["items"])
    await saver.aput(chain.config, chain.checkpoint(chain.config["configurable"]["checkpoint_id"]), {}, {})
    with pytest.raises(BrokenHistoryError):
        await saver.aget_delta_channel_history(config=chain.config, channels=["items"])


async def test_a_large_circle_is_found_in_a_few_rounds(
    real_backend: Backend, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pages that have nothing in common with its length."""
    monkeypatch.setattr(history, "PAGE", 7)
    with real_backend.client() as client:
        saver = MeasuringSaver(client, prefix=prefix)
        ids = [f"{at:03}" for at in range(300)]
        for parent, own in itertools.pairwise((ids[-1], *ids)):
            saver.put(config_of("t", "", parent), Chain(saver).checkpoint(own), {}, {})
        saver.trips = 0
        with pytest.raises(BrokenHistoryError, match="lead back"):
            saver.get_delta_channel_history(config=config_of("t"), channels=["items"])
        assert saver.trips <= 3 * 300 / 7 + 1
        saver.delete_thread("t")


def test_a_server_that_is_down_is_an_error_not_an_empty_thread() -> None:
    """I14: or a graph would start the conversation afresh. Redis' own error says what to look at."""
    server = EmbeddedServer()
    with RedisSaver.from_conn_string(server.url) as saver:
        saver.setup()
        server.close()
        with pytest.raises(redis.exceptions.ConnectionError, match=r"Is the server running"):
            saver.get_tuple(config_of("t"))
