"""Fixtures: every server, both savers, fresh prefixes; and a look at the server after each test."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import pytest

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests import servers
from tests.shapes import AsyncShape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import redis

KINDS = ("sync", "async")
Saver: TypeAlias = Any
MakeSaver: TypeAlias = Callable[..., Saver]


@pytest.fixture(params=servers.ALL)
def backend(request: pytest.FixtureRequest) -> servers.Backend:
    """Each server in turn."""
    return servers.backend(request.param)


@pytest.fixture
def real_backend() -> servers.Backend:
    """One real server, for what does not depend on which."""
    return servers.backend("valkey-9")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each saver in turn."""
    return str(request.param)


@pytest.fixture
def client(backend: servers.Backend) -> Iterator[redis.Redis]:
    """A client of the server, to look at what is stored."""
    with backend.client() as client:
        yield client


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test uses."""
    return f"test-{uuid4().hex}"


class Savers:
    """Makes savers under the test's prefix, whose users have no more rights than the README names, and closes their clients."""

    def __init__(self, backend: servers.Backend, kind: str, prefix: str) -> None:
        self.backend = backend
        self.kind = kind
        self.prefix = prefix
        self._stack = AsyncExitStack()

    def __call__(self, **options: Any) -> Saver:
        """A saver of the test's kind; it is spoken to by its `a*` methods."""
        return AsyncShape(self.sync(**options)) if self.kind == "sync" else self.asynchronous(**options)

    def sync(self, **options: Any) -> RedisSaver:
        """A `RedisSaver` as it is."""
        most = options.pop("max_connections", None)
        client = self._stack.enter_context(self.backend.client(max_connections=most, **self.backend.as_user))
        return RedisSaver(client, **{"prefix": self.prefix, **options})

    def asynchronous(self, **options: Any) -> AsyncRedisSaver:
        """An `AsyncRedisSaver` as it is."""
        client = self.backend.async_client(max_connections=options.pop("max_connections", None), **self.backend.as_user)
        self._stack.push_async_callback(client.aclose)
        return AsyncRedisSaver(client, **{"prefix": self.prefix, **options})

    async def aclose(self) -> None:
        """Close all clients."""
        await self._stack.aclose()


@pytest.fixture
async def make_saver(backend: servers.Backend, kind: str, prefix: str, client: redis.Redis) -> AsyncIterator[Savers]:
    """Makes savers; afterwards every thread is deleted through one, and nothing may be left on the server."""
    savers = Savers(backend, kind, prefix)
    yield savers
    assert_deadlines_agree(client, prefix)
    saver = savers.sync()
    for thread in list(saver.list_threads()):
        saver.delete_thread(thread.thread_id)
    left = keys_under(client, prefix)
    await savers.aclose()
    assert left == []


@pytest.fixture
def saver(make_saver: Savers) -> Saver:
    """A saver without options."""
    return make_saver()


def keys_under(client: redis.Redis, prefix: str) -> list[bytes]:
    """The keys that savers with this prefix have stored."""
    return sorted(client.scan_iter(match=f"{prefix}:*", count=1000))


def lifetimes(client: redis.Redis, prefix: str) -> Iterable[tuple[bytes, int]]:
    """How many ms each key has left, all at one moment: a stall between two readings would look like a difference."""
    keys = keys_under(client, prefix)
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.pttl(key)
        return zip(keys, pipeline.execute(), strict=True)


def assert_deadlines_agree(client: redis.Redis, prefix: str) -> None:
    """All keys of a thread expire together, the data a second after the index; or none does."""
    assert_agree(dict(lifetimes(client, prefix)))


def assert_agree(left_by_key: dict[bytes, int]) -> None:
    """The same of keys with so many milliseconds left."""
    by_thread: defaultdict[bytes, dict[bytes, int]] = defaultdict(dict)
    for key, left in left_by_key.items():
        by_thread[key[: key.index(b"}") + 1]][key] = left
    for of_thread in by_thread.values():
        indexes = [left for key, left in of_thread.items() if key.endswith(b"}:index")]
        data = [left for key, left in of_thread.items() if not key.endswith(b"}:index")]
        for left in itertools.chain(data, indexes[1:]):
            if indexes and indexes[0] == -1:
                assert left == -1, of_thread
            elif indexes and indexes[0] >= 0:
                assert 800 <= left - indexes[0] <= 1200, of_thread
