"""What drivers do, written once: generators of acts that threads and event loops run alike, as the savers' operations are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

from redis.exceptions import RedisError

from langgraph.checkpoint.fastredis import NotConfirmedError

TROUBLE = (RedisError, NotConfirmedError)
"""What an act may end with. Any other error of the saver's is a fault."""
ITERATORS = {"list", "list_threads"}


@dataclass(frozen=True)
class Act:
    """A method of a graph or a saver, and what it is given; without a target, a sleep."""

    target: Any
    method: str
    args: tuple[Any, ...] = ()
    options: Any = ()


Acts: TypeAlias = Generator[Act, Any, Any]


def act(target: Any, method: str, *args: Any, **options: Any) -> Act:
    """An act, written as a call."""
    return Act(target, method, args, options)


def sleep(seconds: float) -> Act:
    """An act that takes time."""
    return Act(None, "sleep", (seconds,))


def run(acts: Acts) -> Any:
    """Run acts in this thread."""
    try:
        one = next(acts)
        while True:
            try:
                done = _perform(one)
            except TROUBLE as error:
                one = acts.throw(error)
            else:
                one = acts.send(done)
    except StopIteration as finished:
        return finished.value


async def arun(acts: Acts) -> Any:
    """Run acts on this event loop."""
    try:
        one = next(acts)
        while True:
            try:
                done = await _aperform(one)
            except TROUBLE as error:
                one = acts.throw(error)
            else:
                one = acts.send(done)
    except StopIteration as finished:
        return finished.value


def _perform(one: Act) -> Any:
    if one.target is None:
        return time.sleep(*one.args)
    done = getattr(one.target, one.method)(*one.args, **dict(one.options))
    return list(done) if one.method in ITERATORS else done


async def _aperform(one: Act) -> Any:
    if one.target is None:
        return await asyncio.sleep(*one.args)
    doing = getattr(one.target, f"a{one.method}")(*one.args, **dict(one.options))
    if one.method in ITERATORS:
        return [item async for item in doing]
    return await doing
