"""What `setup` finds out about a server, where it may ask."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import redis

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver, ServerWarning
from langgraph.checkpoint.fastredis.checks import findings
from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests.servers import REAL, binary
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=REAL)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server of each kind that a test may set up as it likes."""
    with EmbeddedServer(binary=binary(request.param)) as server:
        yield server


async def said_of(url: str, kind: str) -> list[str]:
    """The warnings that setting up brings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ServerWarning)
        if kind == "sync":
            with RedisSaver.from_conn_string(url) as saver:
                await AsyncShape(saver).asetup()
        else:
            async with AsyncRedisSaver.from_conn_string(url) as asaver:
                await asaver.asetup()
    return [str(one.message) for one in caught if "vulnerabilities" not in str(one.message)]


async def test_a_server_that_evicts_is_warned_of(server: EmbeddedServer, kind: str) -> None:
    """One whose memory has no limit evicts nothing, whatever its policy."""
    with redis.Redis.from_url(server.url) as admin:
        assert await said_of(server.url, kind) == []
        admin.config_set("maxmemory-policy", "allkeys-lru")
        assert await said_of(server.url, kind) == []
        admin.config_set("maxmemory", "100mb")
        (warning,) = await said_of(server.url, kind)
        assert "allkeys-lru" in warning
        assert "noeviction" in warning
        admin.config_set("maxmemory-policy", "noeviction")
        assert await said_of(server.url, kind) == []


async def test_who_may_not_ask_is_told_nothing(server: EmbeddedServer, kind: str) -> None:
    """And everything else works."""
    with redis.Redis.from_url(server.url) as admin:
        admin.config_set("maxmemory-policy", "allkeys-lru")
        admin.config_set("maxmemory", "100mb")
        admin.execute_command("ACL", "SETUSER", "me", "on", ">secret", "~*", "+@all", "-info")
        assert await said_of(server.url.replace("unix://", "unix://me:secret@"), kind) == []


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"redis_version": "8.2.2"}, []),
        ({"redis_version": "8.2.1"}, ["vulnerabilities"]),
        ({"redis_version": "8.1.9"}, ["vulnerabilities"]),
        ({"redis_version": "7.0.15"}, ["vulnerabilities"]),
        ({"redis_version": "7.4.6"}, []),
        ({"redis_version": "7.2.10"}, ["vulnerabilities"]),
        ({"redis_version": "6.2.20"}, []),
        ({"redis_version": "6.0.9"}, ["6.2", "vulnerabilities"]),
        ({"redis_version": "8.4.0"}, []),
        ({"redis_version": "255.255.255"}, []),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, []),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.3"}, ["Valkey 8.1.3"]),
        ({"redis_version": "7.2.4", "valkey_version": "8.0.6"}, []),
        ({"redis_version": 7.2}, ["vulnerabilities"]),
        ({"redis_version": "7.4.0", "dragonfly_version": "df-v1.30.0"}, []),
        ({"redis_version": "unstable"}, []),
        ({}, []),
        ({"redis_version": "8.2.2", "maxmemory_policy": "volatile-ttl", "maxmemory": 1}, ["volatile-ttl"]),
    ],
)
def test_a_version_is_warned_of_where_it_should_be(server: dict[str, Any], words: list[str]) -> None:
    """The first releases with the fixes of October 2025 are those of their lines, as README says."""
    found = list(findings(server))
    assert len(found) == len(words)
    assert all(word in finding for word, finding in zip(words, found, strict=True))
