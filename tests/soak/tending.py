"""What else goes on while agents talk: finished threads are copied, copies looked at and deleted, threads listed and pruned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.names import first_difference
from tests.soak.acts import sleep

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

    from tests.soak.acts import Acts
    from tests.soak.driving import Driver, Thread

MOST_LISTED = 10
LISTING = 5  # every so many rounds all threads are listed
PRUNED = 4  # one thread of so many
PAUSE = 0.2  # seconds at most between two rounds


@dataclass
class Threads:
    """The threads of a soak."""

    begun: list[Thread] = field(default_factory=list["Thread"])
    finished: list[Thread] = field(default_factory=list["Thread"])
    pruned: set[str] = field(default_factory=set[str])
    """Those that have but their latest checkpoints, or are about to."""

    def open(self) -> list[Thread]:
        """Those that are being worked on."""
        finished = {thread.thread_id for thread in self.finished}
        return [thread for thread in self.begun if thread.thread_id not in finished]


def tend(driver: Driver, threads: Threads, name: str) -> Acts:
    """Rounds of such calls, as long as threads are begun."""
    saver, rng, done = driver.saver, driver.rng, driver.figures.done
    rounds = 0
    while driver.clock.is_open:
        yield sleep(rng.uniform(0, PAUSE))
        rounds += 1
        if rounds % LISTING == 0:  # it describes each of them
            yield from driver.insist(saver, "list_threads")
            done["list_threads"] += 1
        if threads.begun:
            found = yield from driver.insist(saver, "list", rng.choice(threads.begun).config, limit=MOST_LISTED)
            done["list"] += 1
            assert len(found) <= MOST_LISTED
        if threads.finished:
            yield from copy(driver, rng.choice(threads.finished), f"{name}, copy {rounds}")
            done["copy_thread"] += 1
            done["delete_thread"] += 1
            thread = rng.choice(threads.finished[::PRUNED])
            if thread.thread_id not in threads.pruned:
                threads.pruned.add(thread.thread_id)
                yield from driver.insist(saver, "prune", [thread.thread_id])
                done["prune"] += 1


def copy(driver: Driver, thread: Thread, copy_id: str) -> Acts:
    """Copy a thread, look whether the copy is one, and delete it."""
    graph = driver.graph(thread)
    yield from driver.insist(driver.saver, "copy_thread", thread.thread_id, copy_id)
    ours = yield from driver.insist(graph, "get_state", {"configurable": {"thread_id": copy_id}})
    theirs = yield from driver.insist(graph, "get_state", thread.config)
    assert_same(shown(ours), shown(theirs), copy_id)
    yield from driver.insist(driver.saver, "delete_thread", copy_id)


def shown(state: StateSnapshot) -> dict[str, object]:
    """What two threads that are the same agree in."""
    return {
        "values": state.values,
        "next": state.next,
        "interrupts": [one.value for one in state.interrupts],
        "source": (state.metadata or {}).get("source"),
        "step": (state.metadata or {}).get("step"),
    }


def assert_same(ours: object, reference: object, thread_id: str) -> None:
    """Fail with the first difference."""
    difference = first_difference(ours, reference)
    assert difference is None, f"{thread_id}: {difference}"
