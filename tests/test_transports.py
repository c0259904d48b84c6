"""Ways to a server: Unix sockets, TCP and TLS, each database, both protocols, with hiredis and without."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import trustme

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests import servers
from tests.build import Chain, config_of, listed
from tests.conftest import keys_under
from tests.nodes import Node
from tests.ports import lasting_port
from tests.shapes import AsyncShape
from tests.tls import TLSProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import Backend

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module", params=servers.REAL)
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Each real server, on a Unix socket and a port."""
    node = Node(servers.binary(request.param), lasting_port(), [])
    yield node
    node.stop()


async def saver_at(stack: AsyncExitStack, kind: str, url: str, **options: Any) -> Any:
    """A saver to be spoken to by its `a*` methods."""
    if kind == "sync":
        return AsyncShape(stack.enter_context(RedisSaver.from_conn_string(url, **options)))
    return await stack.enter_async_context(AsyncRedisSaver.from_conn_string(url, **options))


async def use(saver: Any) -> None:
    """What an agent does, and an operator."""
    await saver.asetup()
    chain = Chain(saver, "t")
    await chain.put({"a": b"\0\r\n\xff" * 20_000, "b": None}, run_id="run")
    await chain.write(("a", 1.5))
    await chain.put({"b": {"c": ["d"] * 20}})
    found = await chain.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == chain.values
    first = (await listed(saver, config_of("t")))[1]
    assert first.pending_writes == [("task", "a", 1.5)]
    assert [one.thread_id async for one in saver.alist_threads()] == ["t"]
    await saver.adelete_for_runs(["run"])
    assert await listed(saver, None) == [found._replace(parent_config=None)]
    await saver.adelete_thread("t")


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("db", [0, 15])
async def test_unix_sockets_and_tcp_lead_to_any_database(node: Node, kind: str, protocol: int, db: int, prefix: str) -> None:
    """I7: in RESP2 and in RESP3."""
    assert node.server
    by_url = f"valkey://{node.address}/{db}", f"{node.server.url}?db={db}&protocol={protocol}"
    async with AsyncExitStack() as stack:
        by_tcp = await saver_at(stack, kind, by_url[0], prefix=prefix, protocol=protocol)
        by_socket = await saver_at(stack, kind, by_url[1], prefix=prefix)
        await use(by_tcp)
        await use(by_socket)
        await Chain(by_tcp, "t").put({"a": 1})
        found = await by_socket.aget_tuple(config_of("t"))
        assert found == await by_tcp.aget_tuple(config_of("t")) is not None
        with redis.Redis(host="127.0.0.1", port=node.port, db=db) as client:
            assert len(keys_under(client, prefix)) == 2
        await by_socket.adelete_thread("t")


WITHOUT_HIREDIS = """
import asyncio, sys
sys.modules["hiredis"] = None
from redis.utils import HIREDIS_AVAILABLE
assert not HIREDIS_AVAILABLE

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests import agents
from tests.drivers import Thread, Twins, all_answered

async def run(saver, kind):
    twins = Twins(*(Thread(agents.nested, one, kind) for one in (saver, InMemorySaver())))
    await twins.invoke({"log": ["go"]})
    await twins.invoke(all_answered())
    assert (await twins.values())["log"][-1] == "after"
    await twins.ours.methods.adelete_thread("t")

async def main(url, prefix):
    for protocol in (2, 3):
        with RedisSaver.from_conn_string(url, prefix=prefix, protocol=protocol) as saver:
            await run(saver, "sync")
        async with AsyncRedisSaver.from_conn_string(url, prefix=prefix, protocol=protocol) as saver:
            await run(saver, "async")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.newest
def test_hiredis_may_be_absent(real_backend: Backend, prefix: str) -> None:
    """An agent runs as on `InMemorySaver`, in both protocols."""
    command = [sys.executable, "-W", "error", "-c", WITHOUT_HIREDIS, real_backend.url, prefix]
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    with real_backend.client() as client:
        assert keys_under(client, prefix) == []


@pytest.fixture
def authority() -> trustme.CA:
    """Who vouches for the server."""
    return trustme.CA()


def proxy_for(backend: Backend, authority: trustme.CA, name: str) -> TLSProxy:
    """A proxy whose certificate says that it is `name`."""
    assert backend.server
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return TLSProxy(backend.server.socket, context)


def file_of(authority: trustme.CA, directory: Path) -> str:
    """The file by which a client trusts an authority."""
    path = directory / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
async def test_tls_is_verified_and_works(
    real_backend: Backend, authority: trustme.CA, kind: str, scheme: str, prefix: str, tmp_path: Path
) -> None:
    """By the authority that the caller names."""
    trusted = file_of(authority, tmp_path)
    with proxy_for(real_backend, authority, "localhost") as proxy:
        async with AsyncExitStack() as stack:
            await use(await saver_at(stack, kind, f"{scheme}://localhost:{proxy.port}", prefix=prefix, ssl_ca_certs=trusted))


@pytest.mark.parametrize(
    ("name", "is_known", "reason"),
    [("localhost", False, "CERTIFICATE_VERIFY_FAILED"), ("example.org", True, "ostname")],
    ids=["unknown-authority", "wrong-host"],
)
async def test_tls_of_a_stranger_is_refused(
    real_backend: Backend, authority: trustme.CA, kind: str, name: str, is_known: bool, reason: str, tmp_path: Path
) -> None:
    """With Redis' own error; nothing is said to it."""
    trusted = file_of(authority if is_known else trustme.CA(), tmp_path)
    with proxy_for(real_backend, authority, name) as proxy:
        async with AsyncExitStack() as stack:
            saver = await saver_at(stack, kind, f"rediss://localhost:{proxy.port}", ssl_ca_certs=trusted)
            with pytest.raises(redis.exceptions.ConnectionError, match=reason):
                await saver.aget_tuple(config_of("t"))


async def test_tls_goes_unverified_where_the_caller_says_so(
    real_backend: Backend, authority: trustme.CA, kind: str, prefix: str
) -> None:
    """By an option, or in the URL."""
    with proxy_for(real_backend, authority, "example.org") as proxy:
        url = f"rediss://localhost:{proxy.port}"
        async with AsyncExitStack() as stack:
            await use(await saver_at(stack, kind, url, prefix=prefix, ssl_cert_reqs="none"))
            await use(await saver_at(stack, kind, f"{url}?ssl_cert_reqs=none", prefix=prefix))
