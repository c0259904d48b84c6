"""A soak, from its plan to its figures."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langgraph.checkpoint.fastredis import Wait
from tests import servers
from tests.clusters import Cluster
from tests.drivers import DURABILITIES
from tests.soak import verdict
from tests.soak.acts import arun, run
from tests.soak.driving import TTL, Clock, Driver, Thread
from tests.soak.figures import AsyncTimedSaver, Figures, TimedSaver
from tests.soak.tending import Threads, tend
from tests.soak.trouble import PATIENCE, Trouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from tests.soak.acts import Acts

WAIT = Wait(replicas=1, timeout=timedelta(milliseconds=500))
GRACE = 120.0
"""Seconds after the last thread was begun within which all must have finished."""
FOR_A_VERDICT = 600.0
"""Seconds that twins may take after that."""
PAUSE = 0.05  # seconds between two looks whether the trouble is to begin


@dataclass(frozen=True)
class Plan:
    """How to soak."""

    agents: int = 100
    seconds: float = 180
    """How long to begin threads; longer where not all kinds of trouble have come yet."""
    seed: int = 1
    server: str = "valkey-9"
    turns: int = 5
    """Of each thread."""
    pace: float = 20
    """Seconds that a human takes at most for a question or an answer."""
    quiet: float = 0.25
    """The share of the time before the trouble begins."""

    def rng(self, name: object) -> Random:
        """What decides, for one of those who are decided about."""
        return Random(f"{self.seed} {name}")  # noqa: S311 it is not to be secret


@dataclass(frozen=True)
class Report:
    """What came of a soak after which all was as it should be."""

    plan: Plan
    figures: Figures
    threads: int
    pruned: int
    supersteps: int
    seconds: dict[str, float]
    """How long each part took."""


async def soak(plan: Plan) -> Report:
    """Start a cluster, run agents, make trouble, and see that all is as it should be."""
    with Cluster(servers.binary(plan.server)) as cluster:
        async with _savers(cluster.url, prefix=f"soak-{uuid4().hex}", wait=WAIT) as savers:
            return await _Soaking(plan, cluster, savers).run()


@asynccontextmanager
async def _savers(url: str, **options: Any) -> AsyncIterator[dict[tuple[str, bool], Any]]:
    """Savers of both kinds, whose threads stay or expire."""
    found: dict[tuple[str, bool], Any] = {}
    async with AsyncExitStack() as stack:
        for expires in (False, True):
            ttl = TTL if expires else None
            found["sync", expires] = stack.enter_context(TimedSaver.from_url(url, ttl=ttl, **options))
            found["async", expires] = await stack.enter_async_context(AsyncTimedSaver.from_url(url, ttl=ttl, **options))
        yield found


class _Soaking:
    """A soak under way."""

    def __init__(self, plan: Plan, cluster: Cluster, savers: dict[tuple[str, bool], Any]) -> None:
        self.plan = plan
        self.cluster = cluster
        self.savers = savers
        self.figures = Figures()
        self.threads = Threads()
        closes_at = time.monotonic() + plan.seconds
        self.clock = Clock(closes_at, closes_at + GRACE, plan.pace, is_held_open=True)
        self.failure: BaseException | None = None
        for saver in savers.values():
            saver.figures = self.figures

    async def run(self) -> Report:
        """Soak, then judge."""
        began = time.monotonic()
        with ThreadPoolExecutor(self.plan.agents + 2) as pool:
            await asyncio.gather(*map(self._guarded, self._works(pool)), return_exceptions=True)
        if self.failure:
            raise self.failure
        soaked = time.monotonic()
        supersteps = await asyncio.to_thread(self._judge)
        seconds = {"agents": soaked - began, "verdict": time.monotonic() - soaked}
        return Report(self.plan, self.figures, len(self.threads.finished), len(self.threads.pruned), supersteps, seconds)

    def _works(self, pool: ThreadPoolExecutor) -> list[Awaitable[Any]]:
        """All that goes on at once."""
        loop = asyncio.get_running_loop()

        def begin(kind: str, acts: Acts) -> Awaitable[Any]:
            return loop.run_in_executor(pool, run, acts) if kind == "sync" else arun(acts)

        agents = [begin(kind, self._agent(at, kind)) for at, kind in zip(range(self.plan.agents), _kinds(), strict=False)]
        tending = [
            begin(kind, tend(self._driver(kind, expires, f"{kind} tender"), self.threads, kind))
            for kind, expires in (("sync", False), ("async", True))
        ]
        return [loop.run_in_executor(pool, self._make_trouble), *agents, *tending]

    async def _guarded(self, work: Awaitable[Any]) -> None:
        """Have all end where one fails; what it failed with is what comes out."""
        try:
            await work
        except BaseException as error:
            self.failure = self.failure or error
            self.clock.stop()
            raise

    def _driver(self, kind: str, expires: bool, name: object) -> Driver:
        return Driver(self.savers[kind, expires], self.clock, self.figures, self.plan.rng(name))

    def _agent(self, at: int, kind: str) -> Acts:
        """An agent: one thread after the other."""
        drivers = {expires: self._driver(kind, expires, at) for expires in (False, True)}
        for number in itertools.count():
            if number and not self.clock.is_open:
                return
            thread = self._thread(at, number)
            self.threads.begun.append(thread)
            yield from drivers[thread.expires].converse(thread)
            self.threads.finished.append(thread)

    def _thread(self, at: int, number: int) -> Thread:
        """Of each kind there are threads with every durability, that stay or expire, and snapshot often or never."""
        variant = at // 2 + number
        return Thread(
            f"agent {at}, thread {number}",
            durability=DURABILITIES[variant % 3],
            expires=bool(variant // 3 % 2),
            snapshot_frequency=(3, 1000)[variant // 6 % 2],
            turns=self.plan.turns,
            stays_asking=bool(number % 2),
        )

    def _make_trouble(self) -> None:
        begins_at = self.clock.closes_at - self.plan.seconds * (1 - self.plan.quiet)
        while self.clock.is_open and (time.monotonic() < begins_at or not self.threads.begun):
            time.sleep(PAUSE)
        self.figures.is_in_trouble = True
        Trouble(self.cluster, self.clock, self.figures, self.plan.rng("trouble"), self.threads).make()

    def _judge(self) -> int:
        """Compare all threads, look at all keys, delete all; how many supersteps there were."""
        self.cluster.wait_until_ok(seconds=PATIENCE)
        self.clock.gives_up_at += FOR_A_VERDICT
        driver, pruned = self._driver("sync", expires=False, name="verdict"), self.threads.pruned
        supersteps = [
            verdict.compare_with_twin(driver, thread, is_pruned=thread.thread_id in pruned) for thread in self.threads.finished
        ]
        verdict.check_servers(self.cluster, driver.saver, self.threads.finished)
        return sum(supersteps)


def _kinds() -> itertools.cycle[str]:
    return itertools.cycle(("sync", "async"))
