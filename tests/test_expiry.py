"""Threads live and die as one (cases E1 to E7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from redis.exceptions import ResponseError

from langgraph.checkpoint.fastredis import RedisSaver, TTLConfig, lifetime
from tests.build import Chain, config_of, delta_chain, listed
from tests.conftest import keys_under
from tests.waiting import eventually

if TYPE_CHECKING:
    import redis

    from tests.conftest import Savers
    from tests.servers import Backend

MINUTE = timedelta(minutes=1)


def deadlines(client: redis.Redis, prefix: str) -> dict[bytes, int]:
    """Milliseconds left of each key."""
    return {key: int(client.pttl(key)) for key in keys_under(client, prefix)}


async def save_everything(saver: Any, thread_id: str) -> None:
    """Each way to save, and each other call that may touch keys."""
    for ns in ("", "child:1"):
        chain = Chain(saver, thread_id, ns)
        await saver.aput_writes(config_of(thread_id, ns, "early"), [("a", 1)], "task")
        await chain.put({"a": [1] * 20, "b": None})
        await chain.write(("__error__", "failed"), ("a", [2]))
        await chain.put({"a": [2] * 20}, cleared=["b"])
        await chain.latest()
    await delta_chain(saver, 4, thread_id=thread_id)
    await saver.aprune([thread_id])
    await saver.acopy_thread(thread_id, f"{thread_id}-copy")
    await saver.adelete_for_runs(["no such run"])


@pytest.mark.parametrize("refresh_on_read", [False, True])
async def test_no_key_of_a_thread_with_a_ttl_lacks_one(
    make_saver: Savers, client: redis.Redis, prefix: str, refresh_on_read: bool
) -> None:
    """E1: that a thread's keys agree is checked after every test."""
    await save_everything(make_saver(ttl=TTLConfig(default_ttl=1, refresh_on_read=refresh_on_read)), "t")
    left = deadlines(client, prefix)
    assert len(left) > 10
    assert all(60_000 < ms <= 67_000 for ms in left.values()), left


async def test_a_saver_without_ttl_does_not_take_a_deadline_away(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """E1: two processes with different settings share a thread."""
    await Chain(make_saver(ttl=MINUTE), "t").put({"a": [1] * 20})
    await save_everything(make_saver(), "t")
    left = deadlines(client, prefix)
    assert all(ms > 0 for key, ms in left.items() if b"{t}" in key), left


async def test_a_thread_without_ttl_gets_none_from_a_saver_with_one(
    make_saver: Savers, client: redis.Redis, prefix: str
) -> None:
    """A thread without expiry stays so until told otherwise."""
    await Chain(make_saver(), "t").put({"a": [1] * 20})
    chain = Chain(make_saver(ttl=MINUTE), "t")
    await chain.put({"a": [2] * 20})
    await chain.write(("a", 1))
    assert set(deadlines(client, prefix).values()) == {-1}


async def test_saves_expire_where_the_server_refuses_expire_from_the_user(real_backend: Backend, prefix: str) -> None:
    """E3: neither a command of our own nor one in a script is an `EXPIRE` or `PEXPIRE`."""
    with real_backend.client() as admin:
        admin.execute_command("ACL", "SETUSER", "noexpire", "on", ">secret", "~*", "+@all", "-expire", "-pexpire")
        with real_backend.client(username="noexpire", password="secret") as client:
            with pytest.raises(ResponseError, match=r"(?i)permission"):
                client.expire("key", 1)
            saver = RedisSaver(client, prefix=prefix, ttl=timedelta(milliseconds=300))
            await save_everything(saver, "t")
            assert all(ms > 0 for ms in deadlines(admin, prefix).values())
            await eventually(lambda: keys_under(admin, prefix) == [], seconds=5)
        admin.execute_command("ACL", "DELUSER", "noexpire")


async def test_an_expired_thread_is_gone_whole_and_listed_nowhere(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """E7: and the server is empty a second later."""
    saver = make_saver(ttl=timedelta(milliseconds=200))
    chain = await delta_chain(saver, 3)
    await eventually(lambda: client.exists(f"{prefix}:{{{chain.thread_id}}}:index") == 0)
    assert await chain.latest() is None
    assert await listed(saver, None) == []
    assert [thread async for thread in saver.alist_threads()] == []
    assert await saver.aget_delta_channel_history(config=config_of(chain.thread_id), channels=["items"]) == {
        "items": {"writes": []}
    }
    await eventually(lambda: keys_under(client, prefix) == [])


async def test_a_thread_never_expires_sooner_than_its_ttl_after_a_write(
    make_saver: Savers, client: redis.Redis, prefix: str
) -> None:
    """Nor later than 1.1 times; and a write with enough left moves nothing but what it touched."""
    chain = Chain(make_saver(ttl=MINUTE), "t")
    index = f"{prefix}:{{t}}:index"
    await chain.put({"a": [1] * 20})
    assert 65_000 < client.pttl(index) <= 66_000
    client.pexpire(index, 61_000)
    for key in keys_under(client, prefix):
        client.pexpire(key, 61_000 if key.endswith(b":index") else 62_000)
    await chain.put({"a": [2] * 20})
    assert 60_000 < client.pttl(index) <= 61_000
    for key in keys_under(client, prefix):
        client.pexpire(key, 59_000 if key.endswith(b":index") else 60_000)
    await chain.write(("a", 1))
    assert 65_000 < client.pttl(index) <= 66_000


async def test_a_read_counts_as_a_write_only_where_asked_for(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """By id, latest, list and history alike."""
    quiet, refreshing = make_saver(ttl=MINUTE), make_saver(ttl=TTLConfig(default_ttl=1, refresh_on_read=True))
    chain = await delta_chain(quiet, 3, thread_id="t")
    index = f"{prefix}:{{t}}:index"

    async def after(read: Any) -> bool:
        for key in keys_under(client, prefix):
            client.pexpire(key, 30_000 if key.endswith(b":index") else 31_000)
        await read
        return int(client.pttl(index)) > 60_000

    for saver, refreshes in ((quiet, False), (refreshing, True)):
        assert await after(saver.aget_tuple(config_of("t"))) is refreshes
        assert await after(saver.aget_tuple(chain.config)) is refreshes
        assert await after(listed(saver, config_of("t"))) is refreshes
        assert await after(listed(saver, config_of("t"), filter={"step": 1})) is refreshes
        assert await after(listed(saver, None)) is refreshes
        assert await after(saver.aget_delta_channel_history(config=chain.config, channels=["items"])) is refreshes


async def test_a_pinned_thread_stays_until_it_is_unpinned(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """E6: root and subgraphs, and the next save does not bring the deadline back."""
    saver = make_saver(ttl=MINUTE)
    chain, child = Chain(saver, "t"), Chain(saver, "t", "child:1")
    await chain.put({"a": [1] * 20})
    await child.put({"a": [1] * 20})
    assert await saver.apersist_thread("t") is True
    await chain.put({"a": [2] * 20})
    await child.write(("a", 1))
    assert set(deadlines(client, prefix).values()) == {-1}
    assert await saver.aexpire_thread("t", timedelta(minutes=2)) is True
    left = deadlines(client, prefix)
    assert all(110_000 < ms <= 121_000 for ms in left.values()), left


async def test_pinning_what_is_not_there_says_so(saver: Any) -> None:
    """And creates nothing."""
    assert await saver.apersist_thread("nobody") is False
    assert await saver.aexpire_thread("nobody", MINUTE) is False


async def test_a_long_thread_moves_its_deadline_in_pages(
    make_saver: Savers, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the save that needs it, so that a move cut short breaks no promise."""
    monkeypatch.setattr(lifetime, "PAGE", 4)
    saver = make_saver(ttl=MINUTE)
    chain = await delta_chain(saver, 11, thread_id="t", seed_at=4)
    await saver.aprune(["t"])
    await Chain(saver, "t", "child:1").put({"a": [1] * 20})
    for move in (
        lambda: chain.put({"plain": [0] * 20}),
        lambda: saver.aexpire_thread("t", timedelta(minutes=1.05)),
        lambda: saver.aexpire_thread("t", timedelta(seconds=61)),
    ):
        for key in keys_under(client, prefix):
            client.pexpire(key, 50_000 if key.endswith(b":index") else 51_000)
        await move()
        left = deadlines(client, prefix)
        assert len(left) > 9
        assert all(60_000 < ms <= 67_000 for ms in left.values()), left
    await saver.apersist_thread("t")
    assert set(deadlines(client, prefix).values()) == {-1}
    await saver.aexpire_thread("t", MINUTE)
    assert all(50_000 < ms <= 61_000 for ms in deadlines(client, prefix).values())


@pytest.mark.parametrize("cut", range(1, 8))
async def test_a_move_cut_short_loses_no_part_before_the_thread(
    make_saver: Savers, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """No data key may expire before the index that names it."""
    monkeypatch.setattr(lifetime, "PAGE", 2)
    saver = make_saver(ttl=MINUTE)
    chain = Chain(saver, "t")
    for step in range(6):
        await chain.put({"a": [step] * 20})
    move = lifetime.move(make_saver.sync()._context.keyspace.thread("t"), 120_000)  # noqa: SLF001
    sender = make_saver.sync()
    request = next(move)
    for _ in range(cut):
        try:
            request = move.send(sender._send(request))  # noqa: SLF001
        except StopIteration:
            break
    left = deadlines(client, prefix)
    index = left.pop(f"{prefix}:{{t}}:index".encode())
    assert min(left.values()) >= index
    await saver.aexpire_thread("t", timedelta(minutes=2))


@pytest.mark.parametrize("call", ["aput", "aput_writes"])
async def test_a_cancelled_save_leaves_the_old_state_or_the_new_one(
    make_saver: Savers, client: redis.Redis, prefix: str, call: str
) -> None:
    """E2: cancelled after each number of steps of the event loop, until it gets through."""
    saver = make_saver.asynchronous(ttl=MINUTE)
    for steps in range(200):
        chain = Chain(saver)
        await chain.put({"a": [0] * 20})
        old = await chain.latest()
        again = Chain(saver, chain.thread_id)
        again.config, again.versions = chain.config, dict(chain.versions)
        save = again.put({"a": [1] * 20}) if call == "aput" else again.write(("a", 1), ("b", 2))
        task = asyncio.ensure_future(save)
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = task.cancel()
        await asyncio.wait([task])
        found = await chain.latest()
        assert old is not None
        assert found is not None
        if call == "aput":
            assert found == old or found.checkpoint["channel_values"] == {"a": [1] * 20}
        else:
            assert [write[1:] for write in found.pending_writes or ()] in ([], [("a", 1), ("b", 2)])
        assert all(ms > 0 for ms in deadlines(client, prefix).values())
        if not cancelled:
            return
    pytest.fail("the save never got through")
