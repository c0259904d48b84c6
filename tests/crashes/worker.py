"""The process that is killed: it looks where each of its threads is, and goes on with all of them until they are finished."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.crashes.agent import FINISHED, agent, next_input
from tests.crashes.events import Began, Report

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from tests.crashes.witness import Place


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker has to do."""

    place: Place
    durability: Any
    threads: tuple[str, ...]


def work(job: Job, report: Report) -> None:
    """Run all threads of a job at once, each from where it is to its end."""
    if job.place.is_async:
        asyncio.run(_work_async(job, report))
        return
    with job.place.open(report) as saver, ThreadPoolExecutor(len(job.threads)) as pool:
        graph = agent(report).compile(checkpointer=saver)
        list(pool.map(partial(finish, graph, job.durability, report), job.threads))


async def _work_async(job: Job, report: Report) -> None:
    async with job.place.aopen(report) as saver:
        graph = agent(report).compile(checkpointer=saver)
        await asyncio.gather(*(afinish(graph, job.durability, report, thread) for thread in job.threads))


def finish(graph: Any, durability: str, report: Report, thread: str) -> None:
    """Go on with a thread until it is finished."""
    config = config_of(thread)
    while (given := next_input(graph.get_state(config))) is not FINISHED:
        report(Began(thread))
        graph.invoke(given, config, durability=durability)


async def afinish(graph: Any, durability: str, report: Report, thread: str) -> None:
    """The same for an async saver."""
    config = config_of(thread)
    while (given := next_input(await graph.aget_state(config))) is not FINISHED:
        report(Began(thread))
        await graph.ainvoke(given, config, durability=durability)


def config_of(thread: str) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}
