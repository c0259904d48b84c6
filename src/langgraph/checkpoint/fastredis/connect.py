"""URLs to redis-py clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.checkpoint.fastredis.embedded import EmbeddedServer

_SIMPLE = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}
_SCHEMES = (
    "redis://, rediss://, unix://, valkey://, valkeys://, redis+cluster://host:port,host:port,"
    " redis+sentinel://host:port,host:port/service/db, embedded://"
)
_DEFAULT_PORTS = {"redis+cluster": 6379, "redis+sentinel": 26379}


class Kinds(NamedTuple):
    """The classes of one of redis-py's two halves."""

    client: Any
    pool: Any
    cluster: Any
    cluster_node: Any
    sentinel: Any


SYNC = Kinds(
    redis.Redis,
    redis.BlockingConnectionPool,
    redis.RedisCluster,
    redis.cluster.ClusterNode,
    redis.sentinel.Sentinel,
)
ASYNC = Kinds(
    redis.asyncio.Redis,
    redis.asyncio.BlockingConnectionPool,
    redis.asyncio.RedisCluster,
    redis.asyncio.cluster.ClusterNode,
    redis.asyncio.sentinel.Sentinel,
)


def connect(url: str, kinds: Kinds, options: dict[str, Any]) -> tuple[Any, EmbeddedServer | None]:
    """A client for a URL, and the server that was started for it, if one was.

    Nothing is sent yet, except by a sync cluster client, which asks for the cluster's layout at once.

    Raises:
        ValueError: the URL is of no known form. The message does not repeat it: it may hold a password.
    """
    scheme, separator, _ = url.partition("://")
    build = _BUILDERS.get(scheme) if separator else None
    if build is None:
        message = f"cannot read the URL; it must begin with one of {_SCHEMES}"
        raise ValueError(message)
    return build(url, kinds, options)


def _simple(url: str, kinds: Kinds, options: dict[str, Any]) -> tuple[Any, None]:
    scheme, _, rest = url.partition("://")
    try:
        # Waits for a free connection instead of failing when all are in use, as redis-py's default pool does.
        pool = kinds.pool.from_url(f"{_SIMPLE[scheme]}://{rest}", **options)
    except (ValueError, TypeError) as error:
        message = f"cannot read the {scheme}:// URL, or its options: {error}"
        raise ValueError(message) from error
    return kinds.client.from_pool(pool), None


def _embedded(url: str, kinds: Kinds, options: dict[str, Any]) -> tuple[Any, EmbeddedServer]:
    if url != "embedded://":
        message = "embedded:// takes no host, path or options"
        raise ValueError(message)
    from langgraph.checkpoint.fastredis.embedded import EmbeddedServer  # noqa: PLC0415 an extra

    server = EmbeddedServer()
    try:
        return _simple(server.url, kinds, options)[0], server
    except BaseException:
        server.close()
        raise


def _hosts(parts: SplitResult) -> list[tuple[str, int]]:
    _, _, hosts = parts.netloc.rpartition("@")
    found: list[tuple[str, int]] = []
    for host in hosts.split(","):
        one = urlsplit(f"//{host}")
        if not one.hostname:
            message = f"{parts.scheme}:// needs host:port,host:port"
            raise ValueError(message)
        found.append((one.hostname, one.port or _DEFAULT_PORTS[parts.scheme]))
    return found


def _credentials(parts: SplitResult) -> dict[str, str]:
    user_info, at, _ = parts.netloc.rpartition("@")
    user, _, password = user_info.partition(":")
    named = {"username": unquote(user), "password": unquote(password)} if at else {}
    return {name: value for name, value in named.items() if value}


def _cluster(url: str, kinds: Kinds, options: dict[str, Any]) -> tuple[Any, None]:
    parts = urlsplit(url)
    nodes = [kinds.cluster_node(host, port) for host, port in _hosts(parts)]
    return kinds.cluster(startup_nodes=nodes, **(_credentials(parts) | dict(parse_qsl(parts.query)) | options)), None


def _sentinel(url: str, kinds: Kinds, options: dict[str, Any]) -> tuple[Any, None]:
    """A client that finds its server through sentinels; user and password of the URL are for that server."""
    parts = urlsplit(url)
    service, _, db = parts.path.strip("/").partition("/")
    if not service or (db and not db.isdecimal()):
        message = "redis+sentinel:// needs host:port,host:port/service or …/service/db"
        raise ValueError(message)
    sentinel = kinds.sentinel(_hosts(parts), sentinel_kwargs=options.get("sentinel_kwargs"))
    known: dict[str, Any] = {**_credentials(parts), **dict(parse_qsl(parts.query)), "db": int(db or 0), **options}
    known.pop("sentinel_kwargs", None)
    return sentinel.master_for(service, **known), None


_BUILDERS: dict[str, Callable[[str, Kinds, dict[str, Any]], tuple[Any, EmbeddedServer | None]]] = {
    **dict.fromkeys(_SIMPLE, _simple),
    "embedded": _embedded,
    "redis+cluster": _cluster,
    "redis+sentinel": _sentinel,
}
