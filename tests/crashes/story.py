"""A story: workers do one job, all but the last are killed; then all is compared with a run without kills, and deleted."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain, repeat
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from langgraph.checkpoint.memory import InMemorySaver

from tests.crashes import rules
from tests.crashes.agent import agent
from tests.crashes.nursery import Kill
from tests.crashes.worker import config_of, finish
from tests.drivers import assert_same

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langgraph.types import StateSnapshot

    from tests.crashes.events import Event
    from tests.crashes.nursery import Life, Nursery
    from tests.crashes.witness import Place
    from tests.crashes.worker import Job

THREADS = ("alice", "bob", "carol", "dave")
LATEST = 64
"""A worker is killed after this many steps at most: half of what the job takes in all."""
LONGEST = 0.004
"""Seconds between a step and a kill, at most: about what it takes until the step is saved."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of one story or of many."""

    kills: int = 0
    steps: int = 0
    """Runs of steps in all."""
    repeated: int = 0
    """Those that would not have been without kills."""
    allowed: int = 0
    """How many of these there could have been at most."""

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.kills + other.kills, self.steps + other.steps, self.repeated + other.repeated, self.allowed + other.allowed
        )


class End(NamedTuple):
    """How a thread ended, with all that led to it, as far as kills must not change it."""

    values: Any
    next: tuple[str, ...]
    history: list[tuple[int, tuple[str, ...], Any]]


def draw_kills(seed: str, count: int) -> list[Kill]:
    """Kills at random moments, the same for the same seed: half of them at once, half a moment later."""
    random = Random(seed)  # noqa: S311 not for secrets
    return [Kill(random.randint(1, LATEST), random.choice((0, random.uniform(0, LONGEST)))) for _ in range(count)]


def tell(nursery: Nursery, job: Job, kills: Sequence[Kill]) -> Figures:
    """Let workers do a job while they are killed, and check all that is promised.

    A worker may finish before its kill is due; it is the last one then, and later kills do not happen.
    """
    lives = list(live(nursery, job, kills))
    expected, end = without_kills(job.durability)
    attempts = rules.check(lives, job.durability, expected, job.threads)
    assert_all_expires(job.place)
    assert_same(look_and_delete(job), dict.fromkeys(job.threads, end))
    assert_same(left(job.place), [])
    steps = attempts.runs.total()
    return Figures(len(lives) - 1, steps, steps - expected.total() * len(job.threads), attempts.allowed.total())


def live(nursery: Nursery, job: Job, kills: Sequence[Kill]) -> Iterator[Life]:
    """The lives of the workers that it takes."""
    for kill in chain(kills, repeat(None)):
        life = nursery.live(job, kill)
        yield life
        if not life.was_killed:
            return
        assert_all_expires(job.place)


@cache
def without_kills(durability: str) -> tuple[Counter[str], End]:
    """How often each step of a thread runs on `InMemorySaver` where nobody is killed, and how the thread ends."""
    events: list[Event] = []
    steps: list[str] = []
    graph = agent(lambda ran: steps.append(ran.step)).compile(checkpointer=InMemorySaver())
    finish(graph, durability, events.append, "t")
    config = config_of("t")
    return Counter(steps), end_of(graph.get_state(config), list(graph.get_state_history(config)))


def end_of(state: StateSnapshot, history: Sequence[StateSnapshot]) -> End:
    """A thread's end, from its state and history."""
    return End(state.values, state.next, [((one.metadata or {}).get("step", 0), one.next, one.values) for one in history])


def look_and_delete(job: Job) -> dict[str, End]:
    """How the threads ended; they are deleted then."""
    if job.place.is_async:
        return asyncio.run(_look_and_delete_async(job))
    with job.place.open(id) as saver:
        graph = agent(id).compile(checkpointer=saver)
        configs = {thread: config_of(thread) for thread in job.threads}
        ends = {name: end_of(graph.get_state(one), list(graph.get_state_history(one))) for name, one in configs.items()}
        for thread in job.threads:
            saver.delete_thread(thread)
    return ends


async def _look_and_delete_async(job: Job) -> dict[str, End]:
    async with job.place.aopen(id) as saver:
        graph = agent(id).compile(checkpointer=saver)
        ends = {}
        for thread in job.threads:
            config = config_of(thread)
            history = [one async for one in graph.aget_state_history(config)]
            ends[thread] = end_of(await graph.aget_state(config), history)
            await saver.adelete_thread(thread)
    return ends


def assert_all_expires(place: Place) -> None:
    """On a server, no key is without a deadline, whenever a worker was killed."""
    if place.prefix:
        with redis.Redis.from_url(place.address) as client:
            assert_same([key for key in keys(client, place.prefix) if client.ttl(key) == -1], [])


def left(place: Place) -> list[Any]:
    """What is left on the server or in the file."""
    if place.prefix:
        with redis.Redis.from_url(place.address) as client:
            return keys(client, place.prefix)
    with closing(sqlite3.connect(place.address)) as database:
        return [row for table in ("checkpoints", "writes") for row in database.execute(f"select * from {table}")]  # noqa: S608


def keys(client: redis.Redis, prefix: str) -> list[Any]:
    """The keys under a prefix."""
    return list(client.scan_iter(match=f"{prefix}:*", count=1000))
