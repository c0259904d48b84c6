"""What becomes of a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from langgraph.checkpoint.fastredis.connect import ASYNC, SYNC, Kinds, connect
from tests.build import Chain, config_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[SYNC, ASYNC], ids=["sync", "async"])
def kinds(request: pytest.FixtureRequest) -> Iterator[Kinds]:
    """Each half of redis-py."""
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host", {"host": "host"}),
        ("valkey://user:p%40ss@host:7000/3", {"username": "user", "password": "p@ss", "port": 7000, "db": 3}),
        ("redis://host?socket_timeout=2", {"socket_timeout": 2.0}),
        ("unix:///path/to/socket?db=2", {"path": "/path/to/socket", "db": 2}),
        ("redis://host", {"max_connections_of_pool": 7}),
    ],
)
def test_a_simple_url_sets_what_it_says(kinds: Kinds, url: str, expected: dict[str, Any]) -> None:
    """By redis-py's own reader; options of the caller go to the pool."""
    options = {"max_connections": 7} if "max_connections_of_pool" in expected else {}
    way = connect(url, kinds, options)
    assert way.server is None
    client = way.make()
    known = client.connection_pool.connection_kwargs | {"max_connections_of_pool": client.connection_pool.max_connections}
    assert {name: known.get(name) for name in expected} == expected


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_a_tls_url_verifies_by_default(kinds: Kinds, scheme: str) -> None:
    """As redis-py does."""
    client = connect(f"{scheme}://host", kinds, {}).make()
    assert "SSL" in client.connection_pool.connection_class.__name__
    assert client.connection_pool.connection_kwargs.get("ssl_cert_reqs", "required") == "required"


def test_tls_in_clusters_and_behind_sentinels_verifies_too() -> None:
    """Whose a certificate is, and who vouches for it; unless the caller says that it must not."""
    for url in ("redis+sentinel://one/service", "redis+cluster://one"):
        verifying, trusting = (
            connect(url, ASYNC, {"ssl": True, **options}).make() for options in ({}, {"ssl_cert_reqs": "none"})
        )
        assert _options(verifying)["ssl_check_hostname"] is True
        assert _options(verifying).get("ssl_cert_reqs", "required") == "required"
        assert _options(trusting)["ssl_cert_reqs"] == "none"


@pytest.mark.parametrize("flag", [True, "true", "yes", "1", False, "false", "0", ""])
def test_tls_is_a_flag_in_a_url_too(flag: object) -> None:
    """Where it is text; sentinels have one of their own, and are asked whose their certificate is."""
    wanted = flag in (True, "true", "yes", "1")
    for url in ("redis+sentinel://one/service", "redis+cluster://one"):
        in_url = connect(f"{url}?ssl={flag}", ASYNC, {}).make()
        assert ("ssl_check_hostname" in _options(in_url)) is wanted or not _options(in_url).get("ssl")
    client = connect("redis+sentinel://one/service", SYNC, {"sentinel_kwargs": {"ssl": flag}}).make()
    theirs = client.connection_pool.sentinel_manager.sentinels[0].connection_pool
    assert ("SSL" in theirs.connection_class.__name__) is wanted
    assert theirs.connection_kwargs.get("ssl_check_hostname", False) is wanted


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "redis+sentinel"])
@pytest.mark.parametrize("character", "/#?")
def test_an_error_about_a_url_does_not_repeat_its_password(scheme: str, character: str) -> None:
    """Nor a part of it, nor in what the error came from."""
    with pytest.raises(ValueError, match="percent-encode") as error:
        RedisSaver.from_url(f"{scheme}://user:s3cret{character}x@host:1/service")
    assert "s3cret" not in str(error.value)
    assert error.value.__suppress_context__


@pytest.mark.parametrize("saver", [RedisSaver, AsyncRedisSaver])
@pytest.mark.parametrize("url", ["redis://host", "redis+sentinel://host/service"])
def test_a_misspelt_option_is_refused_at_once(saver: type[RedisSaver | AsyncRedisSaver], url: str) -> None:
    """Not at the first call."""
    with pytest.raises((TypeError, ValueError), match="gaurd"):
        saver.from_url(url, gaurd=True)


def test_a_sentinel_that_does_not_answer_is_not_waited_for_long() -> None:
    """There are others to ask: no second attempt, and each lasts a second at most."""
    client = connect("redis+sentinel://one,two/service", SYNC, {}).make()
    for sentinel in client.connection_pool.sentinel_manager.sentinels:
        options = sentinel.connection_pool.connection_kwargs
        assert options["retry"]._retries == 0  # noqa: SLF001 get_retries() came with redis-py 6
        assert options["socket_connect_timeout"] == options["socket_timeout"] == 1.0


def _options(client: Any) -> dict[str, Any]:
    """What a client's connections are made with."""
    found: dict[str, Any] = getattr(client, "connection_kwargs", None) or client.connection_pool.connection_kwargs
    return found


def test_a_sentinel_url_names_service_database_and_user(kinds: Kinds) -> None:
    """Of the server that they find; what the sentinels want themselves is an option."""
    options = {"sentinel_kwargs": {"password": "other"}}
    client = connect("redis+sentinel://user:secret@one:1,two/service/2", kinds, options).make()
    pool = client.connection_pool
    assert pool.service_name == "service"
    assert pool.connection_kwargs["db"] == 2
    assert (pool.connection_kwargs["username"], pool.connection_kwargs["password"]) == ("user", "secret")
    sentinels = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [(one["host"], one["port"], one["password"]) for one in sentinels] == [("one", 1, "other"), ("two", 26379, "other")]


def test_an_async_cluster_url_names_its_nodes() -> None:
    """Nothing is sent yet; the sync client asks for the layout at once, as tests/test_clients.py shows."""
    client = connect("redis+cluster://:secret@one:1,two", ASYNC, {}).make()
    assert isinstance(client, redis.asyncio.RedisCluster)
    assert client.connection_kwargs["password"] == "secret"  # noqa: S105
    assert {(node.host, node.port) for node in client.nodes_manager.startup_nodes.values()} == {("one", 1), ("two", 6379)}


def _pool(saver: AsyncRedisSaver) -> Any:
    """The pool of connections that a saver uses on the running loop."""
    return saver._link.client_here().connection_pool  # noqa: SLF001


async def test_an_embedded_server_lives_as_long_as_its_saver() -> None:
    """Each saver has its own; with the saver it is gone, directory and all."""
    with RedisSaver.from_conn_string("embedded://") as one, RedisSaver.from_conn_string("embedded://") as two:
        one.put(config_of("t"), Chain(one).checkpoint("1"), {}, {})
        assert one.get_tuple(config_of("t"))
        assert two.get_tuple(config_of("t")) is None
        socket = Path(one._link.client.connection_pool.connection_kwargs["path"])  # noqa: SLF001
        assert socket.exists()
    assert not socket.parent.exists()
    async with AsyncRedisSaver.from_conn_string("embedded://") as saver:
        await saver.asetup()
        socket = Path(_pool(saver).connection_kwargs["path"])
    await eventually(lambda: not socket.parent.exists())
