"""How often a step may run, whatever the timing: what LangGraph promises if its saver keeps what it has acknowledged.

Read in `langgraph/pregel` 1.2. A task runs in a superstep that begins with a checkpoint. Its output is handed to `put_writes`
as soon as it has finished (`_runner.py`, `commit`), and the next checkpoint to `put` when all tasks of the superstep have
(`_loop.py`, `after_tick`). A run without new input goes on from the latest checkpoint of the namespace, and a task with
output among that checkpoint's pending writes gets it back instead of running (`_reapply_writes_to_succeeded_nodes`).

So a step is *settled* once, in its graph or in one around it, a later checkpoint is stored, or its checkpoint and its task's
output are. For a subgraph this counts only if the checkpoint around it is stored too: another one gives it another namespace.

A step that interrupts is *at rest* once, in its graph and in those around it, checkpoint and interrupt are stored.

1. A settled step never runs again, in any durability, after any kill.
2. A kill makes a step run once more at most, and only one that ran in that life and is neither settled nor at rest. Which
   steps can be so depends on the durability (`main.py`, `stream`):
   - "sync": each superstep's checkpoint is waited for before the next superstep begins: so just the steps of the superstep
     that the kill hit. (The input's checkpoint is not waited for: the first superstep may begin before it is stored.)
   - "async": checkpoints are saved in the background, one after the other: so the steps since the last one that was stored;
     at most those since `invoke` was called, as it returns only when all is saved.
   - "exit": nothing is saved until the run ends or is interrupted: so all steps since `invoke` was called.
3. Each step runs as often as it does without kills, or more: never less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.crashes.agent import task_of
from tests.crashes.events import Asked, Began, Finished, Ran, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.crashes.events import Event
    from tests.crashes.nursery import Life


@dataclass(slots=True)
class Known:
    """What is stored for certain, as far as it was reported."""

    checkpoints: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    latest: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    finished: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    asked: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def learn(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, Stored):
            self.checkpoints.add((event.thread, event.namespace, event.checkpoint))
            scope = (event.thread, event.namespace)
            self.latest[scope] = max(event.checkpoint, self.latest.get(scope, ""))
        elif isinstance(event, Finished):
            self.finished.add((event.thread, event.task))
        elif isinstance(event, Asked):
            self.asked.add((event.thread, event.task))
        elif isinstance(event, Ran):
            self.asked.discard((event.thread, event.task))

    def is_settled(self, ran: Ran) -> bool:
        """Whether a step of the present life will not run again."""
        for namespace, checkpoint, task in levels(ran):
            if self.latest.get((ran.thread, namespace), "") > checkpoint:
                return True
            if (ran.thread, namespace, checkpoint) not in self.checkpoints:
                return False
            if (ran.thread, task) in self.finished:
                return True
        return False

    def is_at_rest(self, ran: Ran) -> bool:
        """Whether a step of the present life will run again only once its question is answered."""
        return all(
            (ran.thread, namespace, checkpoint) in self.checkpoints and (ran.thread, task) in self.asked
            for namespace, checkpoint, task in levels(ran)
        )


def levels(ran: Ran) -> list[tuple[str, str, str]]:
    """For each graph that a step is in, the outermost first: namespace, checkpoint, and the task that leads to the step."""
    tasks = [*(task_of(namespace) for namespace, _ in ran.chain[1:]), ran.task]
    return [(*place, task) for place, task in zip(ran.chain, tasks, strict=True)]


@dataclass(slots=True)
class Attempts:
    """What the lives of workers that did one job come to, by thread and step."""

    runs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    allowed: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How many runs more than without kills each may have."""
    settled: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


def check(lives: Sequence[Life], durability: str, expected: Counter[str], threads: Sequence[str]) -> Attempts:
    """Check all rules for workers that have done a job, given how often each step of a thread runs without kills."""
    attempts = Attempts()
    known = Known()
    for life in lives:
        check_life(life, durability, known, attempts)
    once = Counter({(thread, step): count for thread in threads for step, count in expected.items()})
    assert attempts.runs.keys() == once.keys(), attempts.runs.keys() ^ once.keys()
    for step, count in attempts.runs.items():
        assert once[step] <= count <= once[step] + attempts.allowed[step], (step, count, attempts.allowed[step])
    return attempts


def check_life(life: Life, durability: str, known: Known, attempts: Attempts) -> None:
    """Check that no settled step ran again, and that nothing was unsettled at the end that should not be; count."""
    steps = {(event.thread, event.step): event for event in life.events if isinstance(event, Ran)}
    again = attempts.settled & steps.keys()
    assert not again, f"ran again though what they did was stored: {again}"
    attempts.runs.update((event.thread, event.step) for event in life.events if isinstance(event, Ran))
    for event in life.events:
        known.learn(event)
    attempts.settled |= {step for step, ran in steps.items() if known.is_settled(ran)}
    unsettled = [ran for step, ran in steps.items() if step not in attempts.settled and not known.is_at_rest(ran)]
    attempts.allowed.update((ran.thread, ran.step) for ran in unsettled)
    for ran in unsettled:
        last = len(life.events) - life.events[::-1].index(ran)
        check_unsettled(ran, life.events[last:], durability)


def check_unsettled(ran: Ran, since: Iterable[Event], durability: str) -> None:
    """What was unsettled when the kill came was at work: in this superstep if that is waited for, else in this `invoke`."""
    for event in since:
        assert event != Began(ran.thread), f"not stored when the run had ended: {ran}"
        if durability == "sync" and isinstance(event, Ran):
            assert not is_beyond(event, ran), f"not stored when the next superstep began: {ran}, {event}"


def is_beyond(later: Ran, ran: Ran) -> bool:
    """Whether a step of the same life belongs to a later superstep of the same graph, or of one around it."""
    if later.thread != ran.thread:
        return False
    for (later_namespace, later_checkpoint), (namespace, checkpoint) in zip(later.chain, ran.chain, strict=False):
        if (later_namespace, later_checkpoint) != (namespace, checkpoint):
            return later_namespace == namespace and later_checkpoint > checkpoint
    return False
