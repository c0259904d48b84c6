"""`wait=`: a mutation returns once replicas or disks have it, or says that this is not known."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from langgraph.checkpoint.fastredis import AsyncRedisSaver, NotConfirmedError, RedisSaver, Wait, lifetime
from langgraph.checkpoint.fastredis.call import Call, Together
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests.build import Chain, config_of, delta_chain, listed
from tests.conftest import keys_under
from tests.ports import free_port
from tests.recording import RecordingSaver
from tests.servers import REAL, binary
from tests.shapes import AsyncShape
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

# Redis 6.2 has no WAITAOF, and says READONLY inside an error of the script only.
KNOWING_THEIR_ROLE = [name for name in REAL if name != "redis-6.2"]
SHORT = timedelta(milliseconds=100)
LONG = timedelta(seconds=5)


@dataclass(frozen=True)
class Pair:
    """A server and its replica."""

    primary: EmbeddedServer
    replica: EmbeddedServer

    @contextmanager
    def deaf_replica(self) -> Iterator[None]:
        """For a while the replica takes nothing in, and acknowledges nothing."""
        os.kill(self.replica.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.replica.pid, signal.SIGCONT)

    def linked(self) -> bool:
        """Whether the replica follows."""
        with redis.Redis.from_url(self.replica.url) as client:
            return bool(client.info("replication")["master_link_status"] == "up")


def pair_of(stack: ExitStack, program: str, *options: str) -> Pair:
    """Two servers of a kind, the second of which follows the first."""
    port = free_port()
    sync = ("--repl-diskless-sync-delay", "0")
    primary = stack.enter_context(EmbeddedServer(binary=program, options=["--port", str(port), *sync, *options]))
    replica = stack.enter_context(EmbeddedServer(binary=program, options=["--replicaof", "127.0.0.1", str(port), *options]))
    return Pair(primary, replica)


@pytest.fixture(scope="module", params=REAL)
def shared_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A pair of each kind of server."""
    with ExitStack() as stack:
        yield pair_of(stack, binary(request.param))


@pytest.fixture
async def pair(shared_pair: Pair) -> Pair:
    """The same, when the replica follows."""
    await eventually(shared_pair.linked, seconds=20)
    return shared_pair


@pytest.fixture
async def make(pair: Pair, kind: str, prefix: str) -> AsyncIterator[Callable[..., Any]]:
    """Makes savers on the primary."""
    with ExitStack() as sync:
        opened: list[AsyncRedisSaver] = []

        def make(wait: Wait | None = None, **options: Any) -> Any:
            known: dict[str, Any] = {"prefix": prefix, "wait": wait, **options}
            if kind == "sync":
                return AsyncShape(sync.enter_context(RedisSaver.from_conn_string(pair.primary.url, **known)))
            opened.append(AsyncRedisSaver.from_url(pair.primary.url, **known))
            return opened[-1]

        yield make
        for saver in opened:
            await saver.aclose()


async def test_what_has_returned_is_on_the_replica(make: Callable[..., Any], pair: Pair, prefix: str) -> None:
    """Each save of a chain, looked for at once; and at the end that all is gone."""
    saver = make(Wait(replicas=1, timeout=LONG))
    with redis.Redis.from_url(pair.replica.url) as there:
        looking = RedisSaver(there, prefix=prefix, read_only=_knows_read_only(there))
        chain = Chain(saver, "t")
        for step in range(20):
            saved = await chain.put({"a": [step] * 20})
            await chain.write(("a", step))
            found = looking.get_tuple(saved)
            assert found is not None
            assert found.checkpoint["channel_values"] == {"a": [step] * 20}
            assert found.pending_writes == [("task", "a", step)]
        await saver.adelete_thread("t")
        assert keys_under(there, prefix) == []


def _knows_read_only(client: redis.Redis) -> bool:
    """EVALSHA_RO is of Redis 7."""
    return not str(client.info("server")["redis_version"]).startswith("6.")


async def test_a_replica_that_does_not_answer_is_an_error_and_the_call_may_be_repeated(
    make: Callable[..., Any], pair: Pair
) -> None:
    """Also where the repetition finds nothing left to write, on another connection: it waits all the same."""
    saver = make(Wait(replicas=1, timeout=LONG))
    chain = Chain(saver, "t")
    await chain.put({"a": 1})
    await chain.write(("a", 1))
    before = chain.config
    with pair.deaf_replica():
        for _ in range(2):
            impatient = make(Wait(replicas=1, timeout=SHORT))
            with pytest.raises(NotConfirmedError, match="1 of 1 replicas"):
                await impatient.aput_writes(before, [("a", 2)], "other")
            with pytest.raises(NotConfirmedError, match="harmless"):
                await impatient.aput_writes(before, [("a", 1)], "task")
            with pytest.raises(NotConfirmedError, match="on the server"):
                await impatient.adelete_thread("no such thread")
    assert (await chain.latest()).pending_writes == [("other", "a", 2), ("task", "a", 1)]  # type: ignore[union-attr]
    await saver.aput_writes(before, [("a", 2)], "other")
    await saver.adelete_thread("t")


async def test_every_mutation_waits_and_no_read_does(
    make: Callable[..., Any], pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by the server; also where a mutation goes in pages."""
    monkeypatch.setattr(lifetime, "PAGE", 3)
    saver = make(Wait(replicas=1, timeout=LONG), ttl=timedelta(minutes=1))
    with redis.Redis.from_url(pair.primary.url) as client:

        async def waits(call: Any) -> int:
            client.config_resetstat()
            await call
            found: dict[str, Any] = client.info("commandstats")
            return int(found.get("cmdstat_wait", {"calls": 0})["calls"])

        chain = await delta_chain(saver, 6, thread_id="t")
        assert await waits(chain.put({"a": [1] * 20}, run_id="run")) == 1
        assert await waits(chain.write(("a", 1))) == 1
        assert await waits(saver.aexpire_thread("t", timedelta(minutes=2))) >= 2
        assert await waits(saver.apersist_thread("t")) >= 2
        assert await waits(saver.acopy_thread("t", "copy")) >= 1
        assert await waits(saver.aprune(["t"])) >= 1
        assert await waits(saver.adelete_for_runs(["run"])) >= 1
        assert await waits(chain.latest()) == 0
        assert await waits(listed(saver, None)) == 0
        assert await waits(saver.aget_delta_channel_history(config=config_of("copy"), channels=["items"])) == 0
        for thread_id in ("t", "copy"):
            assert await waits(saver.adelete_thread(thread_id)) >= 1


async def test_waiting_moves_no_deadline(make: Callable[..., Any], pair: Pair, prefix: str) -> None:
    """Of a thread that is about to expire either: it goes when it should, all of it."""
    saver = make(Wait(replicas=1, timeout=LONG))
    with redis.Redis.from_url(pair.primary.url) as client:
        chain = Chain(saver, "t")
        await chain.put({"a": [1] * 20})
        await saver.aexpire_thread("t", timedelta(milliseconds=400))
        index = f"{prefix}:{{t}}:index"
        deadline = client.execute_command("PEXPIRETIME", index) if _knows_read_only(client) else None
        while await chain.latest() is not None:
            if deadline:
                assert client.execute_command("PEXPIRETIME", index) in (deadline, -2)
            await saver.aput_writes(chain.config, [("a", 1)], "task") if client.pttl(index) > 100 else None
        await eventually(lambda: keys_under(client, prefix) == [])


async def test_a_flushed_script_cache_is_no_matter_for_who_waits(make: Callable[..., Any], pair: Pair) -> None:
    """I13: both scripts are sent whole then."""
    saver = make(Wait(replicas=1, timeout=LONG))
    with redis.Redis.from_url(pair.primary.url) as client:
        chain = Chain(saver, "t")
        for step in range(3):
            client.script_flush()
            await chain.put({"a": step})
        assert len(await listed(saver, config_of("t"))) == 3
        await saver.adelete_thread("t")


def test_a_script_and_its_wait_travel_together(pair: Pair, prefix: str) -> None:
    """In one round trip: the call, the mark behind it, and WAIT; the call's own errors come through."""
    with redis.Redis.from_url(pair.primary.url) as client:
        saver = RecordingSaver(client, prefix=prefix, wait=Wait(replicas=1, timeout=LONG))
        saver.put(config_of("t"), Chain(saver).checkpoint("1"), {}, {})
        saver.put(config_of("t"), Chain(saver).checkpoint("2"), {}, {})
        performed = saver.performed
        assert [type(one) for one in performed[-1:]] == [Together]
        assert [str(command[0]) for command in performed[-1].commands] == ["EVALSHA", "EVALSHA", "WAIT"]
        assert [type(one) for one in saver.sent] == [Call, Call]
        client.set(saver._keyspace.thread("wrong").index, "text")  # noqa: SLF001
        with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
            saver.put(config_of("wrong"), Chain(saver).checkpoint("1"), {}, {})
        client.unlink(saver._keyspace.thread("wrong").index)  # noqa: SLF001
        saver.delete_thread("t")


@pytest.mark.parametrize("name", KNOWING_THEIR_ROLE)
async def test_a_server_that_became_a_replica_is_connected_to_anew(name: str, kind: str) -> None:
    """Its name may lead to the new primary by then, as the endpoint of a managed service does."""
    with EmbeddedServer(binary=binary(name)) as server, redis.Redis.from_url(server.url) as admin:
        async with _saver(kind, server.url, None) as saver:
            chain = Chain(saver, "t")
            await chain.put({"a": 1})
            connected = admin.info("stats")["total_connections_received"]
            admin.execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
            with pytest.raises(redis.exceptions.ReadOnlyError):
                await chain.write(("a", 1))
            assert admin.info("stats")["total_connections_received"] > connected + 1
            admin.execute_command("REPLICAOF", "NO", "ONE")
            await chain.write(("a", 1))
            assert (await chain.latest()).pending_writes == [("task", "a", 1)]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", KNOWING_THEIR_ROLE)
async def test_a_save_waits_for_the_disk(name: str, kind: str) -> None:
    """By WAITAOF; a server that keeps no append-only file cannot promise it, and says so."""
    wait = Wait(on_disk=True, timeout=LONG)
    with EmbeddedServer(binary=binary(name), options=["--appendonly", "yes"]) as server:
        async with _saver(kind, server.url, wait) as saver:
            await Chain(saver, "t").put({"a": [1] * 20})
            folder = Path(server.socket).parent
            assert b"channels" in b"".join(path.read_bytes() for path in folder.rglob("*.aof"))
    with EmbeddedServer(binary=binary(name)) as server:
        async with _saver(kind, server.url, wait) as saver:
            chain = Chain(saver, "t")
            with pytest.raises(NotConfirmedError, match="appendonly"):
                await chain.put({"a": [1] * 20})
            assert (await chain.latest()) is not None


@asynccontextmanager
async def _saver(kind: str, url: str, wait: Wait | None) -> AsyncIterator[Any]:
    if kind == "async":
        async with AsyncRedisSaver.from_conn_string(url, wait=wait) as saver:
            yield saver
    else:
        with RedisSaver.from_conn_string(url, wait=wait) as sync:
            yield AsyncShape(sync)


@pytest.mark.parametrize(
    ("make_wait", "error"),
    [
        (Wait, ValueError),
        (lambda: Wait(replicas=-1), ValueError),
        (lambda: Wait(replicas=1, timeout=timedelta(0)), ValueError),
        (lambda: Wait(replicas=1, timeout=500), TypeError),  # type: ignore[arg-type]
        (lambda: Wait(replicas=1.5), TypeError),  # type: ignore[arg-type]
        (lambda: RedisSaver(redis.Redis(), wait=1), TypeError),  # type: ignore[arg-type]
    ],
)
def test_waiting_for_nothing_or_for_ever_is_refused(make_wait: Callable[[], Wait], error: type[Exception]) -> None:
    """When it is made."""
    with pytest.raises(error):
        make_wait()


def test_a_client_that_gives_up_first_is_refused() -> None:
    """Its socket time-out must leave WAIT the time that it was given."""
    with pytest.raises(ValueError, match="socket_timeout"):
        RedisSaver(redis.Redis(socket_timeout=1), wait=Wait(replicas=1, timeout=timedelta(seconds=1)))
    with pytest.raises(ValueError, match="socket_timeout"):
        AsyncRedisSaver.from_url("redis://localhost", wait=Wait(replicas=1, timeout=timedelta(seconds=1)), socket_timeout=0.5)
