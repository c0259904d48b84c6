"""URLs to redis-py clients, with the retries, time-outs and pools that ours are made with."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import SplitResult, parse_qsl, urlsplit

import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.connection
import redis.sentinel
from redis.backoff import EqualJitterBackoff, NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError
from redis.exceptions import TimeoutError as RedisTimeoutError

from langgraph.checkpoint.fastredis.pools import AsyncSentinelPool, PassingOnPool, SentinelPool
from langgraph.checkpoint.fastredis.retries import AsyncRetry, Retry
from langgraph.checkpoint.fastredis.turns import Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langgraph.checkpoint.fastredis.embedded import EmbeddedServer

_SIMPLE = {"redis": "redis", "rediss": "rediss", "unix": "unix", "valkey": "redis", "valkeys": "rediss"}
_SCHEMES = (
    "redis://, rediss://, unix://, valkey://, valkeys://, redis+cluster://host:port,host:port,"
    " redis+sentinel://host:port,host:port/service/db, embedded://"
)
_DEFAULT_PORTS = {"redis+cluster": 6379, "redis+sentinel": 26379}

# What clients are made with, unless the URL or the caller says otherwise. Every call of ours is harmless to repeat, so all of
# them are: about a second in all, for a server that restarts or a proxy that drops connections. redis-py 5 repeats nothing by
# itself and waits for ever; 8 waits up to ten seconds between two attempts.
RETRIES = 5
_BACKOFF = {"base": 0.02, "cap": 1.0}  # seconds: 20 to 40 ms before the first repetition, up to a second before the last
_DEFAULTS: dict[str, Any] = {"socket_connect_timeout": 5.0, "socket_timeout": 10.0, "health_check_interval": 30}
# Of a cluster client, calls at once, and how many seconds another waits for one to end: as redis-py's waiting pool has it.
_MOST = 50
_PATIENCE = 20.0
_UNLIMITED = 2**31
# While a slot moves, a cluster answers "try again" to whoever needs a key that is not there, as our calls do. redis-py asks 16
# times, which takes it 0.4 s; so many take 5. And after every few calls that went to the wrong node it asks for the layout
# anew, for which its async client closes all connections, in use or not: what it does at each of those calls, noting who has
# the slot now, is enough.
_REDIRECTIONS = 200
_KEEPING_CONNECTIONS = {"reinitialize_steps": 0}
_TCP = {"socket_keepalive": True}


class Kinds(NamedTuple):
    """The classes of one of redis-py's two halves."""

    client: Any
    pool: Any
    cluster: Any
    cluster_node: Any
    sentinel: Any
    sentinel_pool: Any
    retry: Any


SYNC = Kinds(
    redis.Redis,
    redis.BlockingConnectionPool,
    redis.RedisCluster,
    redis.cluster.ClusterNode,
    redis.sentinel.Sentinel,
    SentinelPool,
    Retry,
)
ASYNC = Kinds(
    redis.asyncio.Redis,
    PassingOnPool,
    redis.asyncio.RedisCluster,
    redis.asyncio.cluster.ClusterNode,
    redis.asyncio.sentinel.Sentinel,
    AsyncSentinelPool,
    AsyncRetry,
)


class Way(NamedTuple):
    """How to get to a server."""

    make: Callable[[], Any]
    """Makes a client. Nothing is sent by that; but a sync cluster client asks for the cluster's layout at once."""
    server: EmbeddedServer | None = None
    """The server that was started for it, if one was."""
    limit: Limit | None = None
    """How many calls the client can take at once, where its own pools do not see to that."""


def connect(url: str, kinds: Kinds, options: dict[str, Any], *, read_only: bool = False) -> Way:
    """Read a URL. Nothing is sent yet.

    Args:
        url: See `RedisSaver.from_url`.
        kinds: Sync or async.
        options: Of redis-py's client.
        read_only: Whether the client is to read from replicas, where the URL leads to several servers.

    Raises:
        ValueError: the URL is of no known form. The message does not repeat it: it may hold a password.
    """
    scheme, separator, _ = url.partition("://")
    read = _READERS.get(scheme) if separator else None
    if read is None:
        message = f"cannot read the URL; it must begin with one of {_SCHEMES}"
        raise ValueError(message)
    return read(url, kinds, options, read_only)


def _defaults(kinds: Kinds) -> dict[str, Any]:
    """The options of every client, made anew: a `Retry` is changed by the client that it is given to."""
    return {**_DEFAULTS, "retry": kinds.retry(EqualJitterBackoff(**_BACKOFF), RETRIES)}


def _repeating(kinds: Kinds) -> dict[str, Any]:
    """The same for clients with a pool: those of redis-py 5 repeat a call only after the errors that they are told of.

    One of these is of a server that has become a replica: its name may lead to the new primary by now, as those of managed
    services do, and who repeats a call connects anew.
    """
    return {**_defaults(kinds), "retry_on_error": [RedisConnectionError, RedisTimeoutError, ReadOnlyError]}


def _checked(client: Any) -> Any:
    """A client whose options its connections know: redis-py would not say so before the first one is opened."""
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    return client


def _unreadable(scheme: str) -> ValueError:
    """What the standard library says of such a URL repeats a part of it, which may be one of the password."""
    return ValueError(f"cannot read the {scheme}:// URL; in its user and password, percent-encode / # ? @ and :")


def _simple(url: str, kinds: Kinds, options: dict[str, Any], _read_only: bool) -> Way:  # noqa: FBT001 as the others
    scheme, _, rest = url.partition("://")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _unreadable(scheme) from None
    asked = options | dict(parse_qsl(parts.query))
    tls = _verifying(asked) if _SIMPLE[scheme] == "rediss" else {}

    def make() -> Any:
        try:
            known = _repeating(kinds) | ({} if scheme == "unix" else _TCP) | tls | options
            # Waits for a free connection instead of failing when all are in use, as redis-py's default pool does.
            client = kinds.client.from_pool(kinds.pool.from_url(f"{_SIMPLE[scheme]}://{rest}", **known))
            return _checked(client)
        except ValueError as error:
            message = f"cannot read the options of the {scheme}:// URL: {error}"
            raise ValueError(message) from error

    return Way(make)


def _verifying(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What has redis-py before 6 ask of a certificate not only who vouches for it, but also whose it is."""
    is_verified = asked.get("ssl_cert_reqs", "required") not in {"none", ssl.CERT_NONE, None}
    return {"ssl_check_hostname": True} if is_verified else {}


def _tls(asked: dict[str, Any]) -> dict[str, Any]:
    """The same options with `ssl` as a flag, which in a URL is text."""
    wanted = asked.get("ssl", False)
    is_wanted = wanted.lower() in {"1", "true", "yes"} if isinstance(wanted, str) else bool(wanted)
    return {**_verifying(asked), **asked, "ssl": True} if is_wanted else {**asked, "ssl": False}


def _embedded(url: str, kinds: Kinds, options: dict[str, Any], read_only: bool) -> Way:  # noqa: FBT001 as the others
    if url != "embedded://":
        message = "embedded:// takes no host, path or options"
        raise ValueError(message)
    from langgraph.checkpoint.fastredis.embedded import EmbeddedServer  # noqa: PLC0415 an extra

    server = EmbeddedServer()
    return _simple(server.url, kinds, options, read_only)._replace(server=server)


def _hosts(parts: SplitResult) -> list[tuple[str, int]]:
    _, _, hosts = parts.netloc.rpartition("@")
    try:
        each = [urlsplit(f"//{host}") for host in hosts.split(",")]
        found = [(one.hostname or "", one.port or _DEFAULT_PORTS[parts.scheme]) for one in each]
    except ValueError:
        raise _unreadable(parts.scheme) from None
    if not all(host for host, _ in found):
        message = f"{parts.scheme}:// needs host:port,host:port"
        raise ValueError(message)
    return found


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise _unreadable(url.partition("://")[0]) from None


def _named(parts: SplitResult) -> dict[str, Any]:
    """User and password of a URL, and the options in its query, as redis-py reads them."""
    user_info, at, _ = parts.netloc.rpartition("@")
    return cast("dict[str, Any]", redis.connection.parse_url(f"redis://{user_info}{at}?{parts.query}"))  # type: ignore[no-untyped-call] # pyright: ignore[reportUnknownMemberType]


def _cluster(url: str, kinds: Kinds, options: dict[str, Any], read_only: bool) -> Way:  # noqa: FBT001 as the others
    parts = _split(url)
    hosts = _hosts(parts)
    fixed = {**_TCP, **_KEEPING_CONNECTIONS, **(_from_replicas() if read_only else {})}
    known: dict[str, Any] = {**fixed, **_tls(options | _named(parts))}
    limit = Limit(known.pop("max_connections", _MOST), known.pop("timeout", _PATIENCE))

    def make() -> Any:
        nodes = [kinds.cluster_node(host, port) for host, port in hosts]
        client = kinds.cluster(startup_nodes=nodes, max_connections=_UNLIMITED, **_defaults(kinds) | known)
        client.RedisClusterRequestTTL = _REDIRECTIONS
        return client

    return Way(make, limit=limit)


def _from_replicas() -> dict[str, Any]:
    """What has a cluster client read from replicas too."""
    strategies = getattr(redis.cluster, "LoadBalancingStrategy", None)  # from redis-py 5.3 on
    return {"load_balancing_strategy": strategies.ROUND_ROBIN} if strategies else {"read_from_replicas": True}


def _of_sentinels(kinds: Kinds) -> dict[str, Any]:
    """The options of clients that ask sentinels. One that is gone must not be waited for long: there are others to ask."""
    return {"socket_connect_timeout": 1.0, "socket_timeout": 1.0, "retry": kinds.retry(NoBackoff(), 0)}


def _sentinel(url: str, kinds: Kinds, options: dict[str, Any], read_only: bool) -> Way:  # noqa: FBT001 as the others
    """Sentinels lead to the server; user and password of the URL are for that one."""
    parts = _split(url)
    hosts = _hosts(parts)
    service, _, db = parts.path.strip("/").partition("/")
    if not service or (db and not db.isdecimal()):
        message = "redis+sentinel:// needs host:port,host:port/service or …/service/db"
        raise ValueError(message)
    known: dict[str, Any] = {**_TCP, "db": int(db or 0), **_tls(options | _named(parts))}
    theirs = _tls(known.pop("sentinel_kwargs", None) or {})

    def make() -> Any:
        sentinel = kinds.sentinel(hosts, sentinel_kwargs={**_of_sentinels(kinds), **theirs})
        find = sentinel.slave_for if read_only else sentinel.master_for
        return _checked(find(service, connection_pool_class=kinds.sentinel_pool, **_repeating(kinds) | known))

    return Way(make)


_READERS: dict[str, Callable[[str, Kinds, dict[str, Any], bool], Way]] = {
    **dict.fromkeys(_SIMPLE, _simple),
    "embedded": _embedded,
    "redis+cluster": _cluster,
    "redis+sentinel": _sentinel,
}
