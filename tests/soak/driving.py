"""Drives a thread of the agent to its end, through errors, so that everything happens once.

The driver keeps nothing in mind but how many turns it wants. Before each act it looks at the stored state, which says what is
due: an interrupt to answer, tasks to go on with, or the next question. After an error it cannot know what has happened. So
first it confirms: it has the saver set the deadline that the thread has anyway, and `wait` for that, which comes after all
earlier saves in what the replica is sent; then it looks. What it sees will not be lost any more, and what it does not see of
the run that failed never will be there. (Nobody else writes to the thread, and when a run has raised, its saves have ended:
LangGraph waits for them.) Without the confirmation it could go on from a checkpoint that a primary takes along when it dies:
the next one would have a parent that nobody knows, and a delta channel no history.

Nothing is done twice: a question counts as asked once its checkpoint, which holds the number of the turn, is stored; a task as
done once its writes are, or the checkpoint after it; and tasks that run again because that was not so come to the same result.
An answer may be given twice: it is for one interrupt, by its id.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.soak.acts import TROUBLE, Act, act, sleep
from tests.soak.agents import answers, assistant, question

if TYPE_CHECKING:
    from random import Random

    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from tests.soak.acts import Acts
    from tests.soak.figures import Figures

TTL = timedelta(hours=1)
PAUSE = 0.1  # seconds before another attempt


@dataclass(frozen=True)
class Thread:
    """A thread, and what is to be done in it."""

    thread_id: str
    durability: str = "async"
    expires: bool = False
    snapshot_frequency: int = 1000
    turns: int = 3
    stays_asking: bool = False
    """Whether the interrupt of the last turn stays without an answer, where it has one."""

    @property
    def config(self) -> RunnableConfig:
        """What names it."""
        return {"configurable": {"thread_id": self.thread_id}}

    def due(self, state: StateSnapshot) -> tuple[bool, Any]:
        """Whether anything is to be done, and what the graph is to be invoked with."""
        turn = state.values.get("turn", 0)
        asking = [one for task in state.tasks if task.result is None for one in task.interrupts]
        if asking:
            return turn < self.turns or not self.stays_asking, answers(asking)
        if state.tasks:
            return True, None
        return turn < self.turns, question(turn + 1, self.thread_id)


@dataclass
class Clock:
    """When what ends, in `time.monotonic()`."""

    closes_at: float
    """No thread is begun after that."""
    gives_up_at: float
    """Who has not finished by then never will."""
    pace: float = 0
    """Seconds that a human takes at most for a question or an answer."""
    is_held_open: bool = False
    """Whether it stays open all the same."""

    @property
    def is_open(self) -> bool:
        """Whether threads may still be begun."""
        return self.is_held_open or time.monotonic() < self.closes_at

    def stop(self) -> None:
        """Something has failed: all are to end."""
        self.is_held_open = False
        self.closes_at = self.gives_up_at = 0.0

    def check(self, what: str) -> None:
        """Fail where it is time to give up."""
        assert time.monotonic() < self.gives_up_at, f"still at it when the time was up: {what}"


@dataclass
class Driver:
    """Drives threads on a saver."""

    saver: Any
    clock: Clock
    figures: Figures
    rng: Random
    _graphs: dict[int, Any] = field(default_factory=dict[int, Any])

    def graph(self, thread: Thread) -> Any:
        """The agent, compiled once."""
        frequency = thread.snapshot_frequency
        if frequency not in self._graphs:
            self._graphs[frequency] = assistant(frequency).compile(checkpointer=self.saver)
        return self._graphs[frequency]

    def converse(self, thread: Thread) -> Acts:
        """All acts of a thread."""
        graph = self.graph(thread)
        is_in_doubt = False
        while True:
            self.clock.check(thread.thread_id)
            try:
                if is_in_doubt:
                    yield self._confirm(thread)
                state = yield act(graph, "get_state", thread.config)
                is_in_doubt = False
                is_due, given = thread.due(state)
                if not is_due:
                    return
                if given is not None:
                    yield sleep(self.rng.uniform(0, self.clock.pace if self.clock.is_open else 0))
                yield act(graph, "invoke", given, thread.config, durability=thread.durability)
            except TROUBLE as error:
                self.figures.met(error)
                is_in_doubt = True
                yield sleep(PAUSE)

    def _confirm(self, thread: Thread) -> Act:
        """What changes nothing, and is confirmed after all that has happened in the thread before."""
        if thread.expires:
            return act(self.saver, "expire_thread", thread.thread_id, TTL)
        return act(self.saver, "persist_thread", thread.thread_id)

    def insist(self, target: Any, method: str, *args: Any, **options: Any) -> Acts:
        """One act, repeated until it succeeds."""
        while True:
            self.clock.check(f"{method} {args}")
            try:
                return (yield act(target, method, *args, **options))
            except TROUBLE as error:
                self.figures.met(error)
                yield sleep(PAUSE)
