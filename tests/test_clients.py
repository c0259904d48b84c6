"""Ids, prefixes, clients and closing (cases I1 to I15)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
import redis
import redis.asyncio

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver, SaverClosedError
from tests.build import Chain, config_of, id_of, listed
from tests.conftest import keys_under

if TYPE_CHECKING:
    from tests.conftest import Savers
    from tests.servers import Backend

HOSTILE = (
    "",
    "None",
    "__empty__",
    "a:b",
    "a;b",
    "{t}",
    "{}",
    "}{",
    "%7Bt%7D",
    "%",
    "node:1|inner:2",
    "nul\0in",
    "\1\2",
    "*?[a]\\",
    "new\nline",
    "ünï → 🎈",
    "x" * 10_000,
)
NAMES = [repr(text)[:20] for text in HOSTILE]


@pytest.mark.parametrize("text", HOSTILE, ids=NAMES)
async def test_any_text_is_an_id_like_another(saver: Any, text: str) -> None:
    """I1, I2: as thread, namespace, checkpoint, channel, task, path, version, run and metadata key."""
    chain = Chain(saver, text, text)
    chain.versions[text] = f"{text}1"
    checkpoint = chain.checkpoint(text or "id")
    checkpoint["channel_values"][text] = [1] * 20
    saved = await saver.aput(chain.config, checkpoint, {"run_id": text, "key" + text: 1}, chain.versions)
    await saver.aput_writes(saved, [(text, "write")], text, text)
    found = await chain.latest()
    assert found is not None
    assert found.config == saved == config_of(text, text, text or "id")
    assert found.checkpoint["channel_values"] == {text: [1] * 20}
    assert found.pending_writes == [(text, text, "write")]
    assert await listed(saver, None, filter={"key" + text: 1}) == [found]
    assert [thread.thread_id async for thread in saver.alist_threads()] == [text]
    await saver.acopy_thread(text, "copy of " + text)
    await saver.aprune([text])
    assert await chain.latest() == found
    await saver.adelete_for_runs([text] if text else ["nothing"])
    assert await listed(saver, config_of(text)) == ([found] if not text else [])


async def test_no_two_ids_share_a_key(saver: Any) -> None:
    """I2: all hostile ids at once, in every place."""
    for at, thread_id in enumerate(HOSTILE):
        await Chain(saver, thread_id).put({"a": [at] * 20})
    for at, ns in enumerate(HOSTILE[1:]):
        await Chain(saver, "t", ns).put({"a": [at] * 20})
        await saver.aput(config_of("u"), {**Chain(saver).checkpoint(ns or "id")}, {"step": at}, {})
    for at, thread_id in enumerate(HOSTILE):
        found = await Chain(saver, thread_id).latest()
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": [at] * 20}
    for at, ns in enumerate(HOSTILE[1:]):
        found = await Chain(saver, "t", ns).latest()
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": [at] * 20}
        assert (await saver.aget_tuple(config_of("u", "", ns))).metadata["step"] == at
    order = [id_of(found.config) for found in await listed(saver, config_of("u"))]
    assert order == sorted(HOSTILE[1:], reverse=True)


@pytest.mark.parametrize("thread_id", [7, UUID(int=7)])
async def test_an_id_is_the_same_as_text(saver: Any, thread_id: object) -> None:
    """`1` and `"1"` are one thread."""
    await saver.aput(config_of(thread_id), Chain(saver).checkpoint("1"), {}, {})
    assert await saver.aget_tuple(config_of(thread_id)) == await saver.aget_tuple(config_of(str(thread_id)))
    await saver.adelete_thread(thread_id)
    assert await saver.aget_tuple(config_of(str(thread_id))) is None


async def test_an_absent_namespace_is_the_root(saver: Any) -> None:
    """I2: and no namespace of the name `None`."""
    at: Any = {"configurable": {"thread_id": "t"}}
    saved = await saver.aput(at, Chain(saver).checkpoint("1"), {}, {})
    assert saved == config_of("t", "", "1")
    assert (await saver.aget_tuple(at)).config == saved
    assert await saver.aget_tuple(config_of("t", "None")) is None


async def test_prefixes_are_worlds_of_their_own(backend: Backend, prefix: str) -> None:
    """I4: also where one looks like the beginning of another, or like a hash tag or glob."""
    with backend.client() as client:
        prefixes = [prefix + end for end in ("", ":b", "{b", "{b}", "{}", "%7Bb", "*", "?", "[x]", "^", ":{t}:index")]
        savers = [RedisSaver(client, prefix=one) for one in prefixes]
        for at, saver in enumerate(savers):
            saver.put(config_of("t"), Chain(saver).checkpoint("1"), {"step": at}, {})
        for at, saver in enumerate(savers):
            assert [found.metadata for found in saver.list(None)] == [{"step": at}]
            assert [thread.thread_id for thread in saver.list_threads()] == ["t"]
            saver.delete_thread("t")
        assert keys_under(client, prefix) == []


def test_every_key_of_a_call_lies_in_one_slot(real_backend: Backend, prefix: str) -> None:
    """I5: so that clusters, serverless endpoints and proxies that enforce slots take it."""
    from redis.crc import key_slot  # noqa: PLC0415

    with real_backend.client() as client:
        for one in (prefix, prefix + "{b}", prefix + "{}"):
            saver = RedisSaver(client, prefix=one)
            for thread_id in HOSTILE:
                saver.put(config_of(thread_id, "child:{1}"), Chain(saver).checkpoint("{1}"), {}, {"a": 1})
                saver.put_writes(config_of(thread_id, "", "1"), [("a", 1)], "task")
                thread = saver._keyspace.thread(thread_id)  # noqa: SLF001
                keys = [key for key in client.scan_iter(count=1000) if key.startswith(thread.index[:-5])]
                assert len(keys) == 3
                assert len({key_slot(key) for key in keys}) == 1
                saver.delete_thread(thread_id)


async def test_any_database_works(real_backend: Backend, kind: str, prefix: str) -> None:
    """I7: and what is in one is not in another."""
    with real_backend.client() as zero, real_backend.client(db=3) as three:
        if kind == "sync":
            with RedisSaver.from_conn_string(f"{real_backend.url}?db=3", prefix=prefix) as saver:
                saver.put(config_of("t"), Chain(saver).checkpoint("1"), {}, {})
        else:
            async with AsyncRedisSaver.from_conn_string(real_backend.url, prefix=prefix, db=3) as asaver:
                await asaver.aput(config_of("t"), Chain(asaver).checkpoint("1"), {}, {})
        assert keys_under(zero, prefix) == []
        assert len(keys_under(three, prefix)) == 2
        RedisSaver(three, prefix=prefix).delete_thread("t")


async def test_saves_and_reads_ask_the_server_for_nothing_else(real_backend: Backend, prefix: str) -> None:
    """I6: the user has no right to `INFO`, `CONFIG`, `CLIENT`, `COMMAND`, `MODULE`, `CLUSTER` or anything administrative."""
    with real_backend.client() as admin:
        rights = ("~*", "+@all", "-@admin", "-@dangerous", "-client", "-command")
        admin.execute_command("ACL", "SETUSER", "managed", "on", ">secret", *rights)
        url = real_backend.url.replace("unix://", "unix://managed:secret@")
        with RedisSaver.from_conn_string(url, prefix=prefix) as saver:
            saver.setup()
            saver.put(config_of("t"), Chain(saver).checkpoint("1"), {}, {})
            assert len(list(saver.list(None))) == 1
            saver.delete_thread("t")
        admin.execute_command("ACL", "DELUSER", "managed")


def test_the_async_saver_needs_no_loop_to_be_built(real_backend: Backend, prefix: str) -> None:
    """I9: with a client of its own or one handed in."""
    saver = AsyncRedisSaver.from_url(real_backend.url, prefix=prefix)
    client = real_backend.async_client()
    handed_in = AsyncRedisSaver(client, prefix=prefix)
    with pytest.raises(RuntimeError, match="use RedisSaver"):
        saver.get_tuple(config_of("t"))

    async def use() -> None:
        async with saver:
            assert await saver.aget_tuple(config_of("t")) is None
        assert await handed_in.aget_tuple(config_of("t")) is None
        await client.aclose()

    asyncio.run(use())


async def test_sync_methods_of_the_async_saver_work_from_other_threads_only(make_saver: Savers) -> None:
    """I9: on the loop's own they would wait for themselves."""
    saver = make_saver.asynchronous()
    chain = Chain(saver)
    await chain.put({"a": 1})
    found = await chain.latest()
    assert await asyncio.to_thread(saver.get_tuple, chain.config) == found
    assert await asyncio.to_thread(lambda: list(saver.list(config_of(chain.thread_id)))) == [found]
    assert await asyncio.to_thread(lambda: [thread.thread_id for thread in saver.list_threads()]) == [chain.thread_id]
    with pytest.raises(RuntimeError, match="aget_state"):
        saver.get_tuple(chain.config)
    with pytest.raises(RuntimeError, match="await"):
        list(saver.list(None))


async def test_setup_is_optional_and_harmless(make_saver: Savers) -> None:
    """I10: forgotten, called twice, called at once from two tasks."""
    saver = make_saver()
    await Chain(saver).put({"a": 1})
    await saver.asetup()
    await asyncio.gather(saver.asetup(), saver.asetup())


def test_a_closed_saver_says_so(real_backend: Backend) -> None:
    """I11: in a sentence; closing twice is fine; a copy is closed with its original."""
    with RedisSaver.from_conn_string(real_backend.url) as saver:
        assert saver.get_tuple(config_of("t")) is None
        copy = saver.with_allowlist([("a", "b")])
    saver.close()
    for one in (saver, copy):
        with pytest.raises(SaverClosedError, match="`with` block"):
            one.get_tuple(config_of("t"))


async def test_a_closed_async_saver_says_so(real_backend: Backend) -> None:
    """I11: as the sync one."""
    async with AsyncRedisSaver.from_conn_string(real_backend.url) as saver:
        assert await saver.aget_tuple(config_of("t")) is None
    await saver.aclose()
    with pytest.raises(SaverClosedError, match="`with` block"):
        await saver.aget_tuple(config_of("t"))


async def test_a_client_handed_in_stays_open(real_backend: Backend) -> None:
    """I12: whatever the saver is told; two savers on one client do not disturb each other."""
    with real_backend.client() as client:
        with RedisSaver(client), RedisSaver(client) as saver:
            saver.close()
            assert saver.get_tuple(config_of("t")) is None
        assert client.ping()
    async with real_backend.async_client() as aclient:
        async with AsyncRedisSaver(aclient):
            pass
        assert await aclient.ping()


async def test_a_flushed_script_cache_is_no_matter(make_saver: Savers, client: redis.Redis) -> None:
    """I13: at any moment, also in the middle of a listing."""
    chain = Chain(make_saver())
    for step in range(3):
        client.script_flush()
        await chain.put({"a": step})
        client.script_flush()
        await chain.write(("a", step))
    client.script_flush()
    assert len(await listed(chain.saver, config_of(chain.thread_id))) == 3
    async for found in chain.saver.alist(config_of(chain.thread_id)):
        client.script_flush()
        assert await chain.saver.aget_tuple(found.config) == found


async def test_scripts_may_be_flushed_all_the_time(real_backend: Backend, kind: str, prefix: str) -> None:
    """I13: a second client does nothing else while the saver works."""
    stop = threading.Event()

    def flush() -> None:
        with real_backend.client() as client:
            while not stop.is_set():
                client.script_flush()

    with ThreadPoolExecutor(1) as pool, real_backend.client() as client:
        flushing = pool.submit(flush)
        try:
            saver: Any = RedisSaver(client, prefix=prefix)
            if kind == "async":
                saver = AsyncRedisSaver(real_backend.async_client(), prefix=prefix)
            for at in range(200):
                await saver.aput(config_of("t"), Chain(saver).checkpoint(f"{at:03}"), {"at": at}, {})
            assert len(await listed(saver, config_of("t"))) == 200
            await saver.adelete_thread("t")
        finally:
            stop.set()
        flushing.result()
        if kind == "async":
            await saver._link.client_here().aclose()  # noqa: SLF001


async def test_64_agents_at_once_wait_for_a_connection(real_backend: Backend, prefix: str) -> None:
    """I15: on default settings, though redis-py's own pools refuse; fewer connections than callers are enough."""
    async with AsyncRedisSaver.from_conn_string(real_backend.url, prefix=prefix, max_connections=4) as saver:
        chains = [Chain(saver, str(at)) for at in range(64)]
        await asyncio.gather(*(chain.put({"a": 1}) for chain in chains))
        await asyncio.gather(*(saver.adelete_thread(chain.thread_id) for chain in chains))
    with (
        RedisSaver.from_conn_string(real_backend.url, prefix=prefix, max_connections=4) as sync,
        ThreadPoolExecutor(64) as pool,
    ):
        list(pool.map(lambda at: sync.put(config_of(str(at)), Chain(sync).checkpoint("1"), {}, {}), range(64)))
        list(pool.map(lambda at: sync.delete_thread(str(at)), range(64)))


async def test_a_pool_that_does_not_wait_is_explained(real_backend: Backend) -> None:
    """I15: where the client handed in has one."""
    async with real_backend.async_client(max_connections=1) as client:
        saver = AsyncRedisSaver(client)
        with pytest.raises(redis.exceptions.ConnectionError, match="BlockingConnectionPool"):
            await asyncio.gather(*(saver.aget_tuple(config_of("t")) for _ in range(5)))


async def test_a_server_that_enforces_slots_is_served(prefix: str) -> None:
    """I5, I12: a cluster of one node that owns all slots, through plain and cluster clients, sync and async."""
    from langgraph.checkpoint.fastredis.embedded import EmbeddedServer  # noqa: PLC0415
    from tests.ports import free_port  # noqa: PLC0415

    port = free_port()
    options = ["--port", str(port), "--cluster-enabled", "yes", "--cluster-port", str(free_port())]
    with EmbeddedServer(options=options) as server, redis.Redis.from_url(server.url) as plain:
        plain.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
        await _until_ok(plain)
        cluster_url = f"redis+cluster://127.0.0.1:{port}"
        with contextlib.ExitStack() as stack:
            for saver in (
                RedisSaver(plain, prefix=prefix),
                stack.enter_context(RedisSaver.from_conn_string(cluster_url, prefix=prefix)),
            ):
                await _use_everything(saver)
        async with AsyncRedisSaver.from_conn_string(cluster_url, prefix=prefix) as asaver:
            await _use_everything(asaver)
        assert keys_under(plain, prefix) == []


async def _until_ok(client: redis.Redis) -> None:
    from tests.waiting import eventually  # noqa: PLC0415

    await eventually(lambda: client.cluster("INFO")["cluster_state"] == "ok")


async def _use_everything(saver: Any) -> None:
    await saver.asetup()
    chains = [Chain(saver, f"{uuid4()}") for _ in range(5)]
    for chain in chains:
        await chain.put({"a": [1] * 20}, run_id="run")
        await chain.write(("a", 1))
        await chain.put({"a": [2] * 20})
    assert len(await listed(saver, None)) == 10
    await saver.adelete_for_runs(["run"])
    await saver.acopy_thread(chains[0].thread_id, "copy")
    assert len([thread async for thread in saver.alist_threads()]) == 6
    await saver.aprune([chain.thread_id for chain in chains])
    for chain in chains:
        assert len(await listed(saver, config_of(chain.thread_id))) == 1
        await saver.adelete_thread(chain.thread_id)
    await saver.adelete_thread("copy")
