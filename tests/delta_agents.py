"""Small agents whose state is in delta channels. As in `agents`, annotations are evaluated."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any

from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import Overwrite, interrupt
from typing_extensions import TypedDict

from tests.agents import Agent, Builder, Log, Runs, asks, line, says


def extend(items: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """The reducer of delta channels."""
    return [*items, *(item for write in writes for item in write)]


def delta_log(snapshot_frequency: int) -> type[Any]:
    """A log in a delta channel."""

    class DeltaLog(TypedDict):
        log: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=snapshot_frequency)]

    return DeltaLog


def recorder(snapshot_frequency: int, *names: str) -> Agent:
    """Nodes that each add their name to a delta channel, one after the other."""
    return lambda runs: line(delta_log(snapshot_frequency), **{name: says(runs, name) for name in names or ("hear", "answer")})


def plain_recorder(runs: Runs) -> Builder:
    """The same, before it was changed to use a delta channel."""
    return line(Log, hear=says(runs, "hear"), answer=says(runs, "answer"))


class Count(TypedDict):
    """A log, and a number in a plain channel."""

    log: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]


def plain_counter(runs: Runs) -> Builder:
    """Counts its runs, in the second of two nodes."""

    def count(_: Any) -> dict[str, int]:
        runs.append("count")
        return {"count": 1}

    return line(Count, wait=says(runs, "wait"), count=count)


def counter(runs: Runs) -> Builder:
    """The same, after it was changed to use a delta channel."""

    class DeltaCount(TypedDict):
        log: Annotated[list[str], operator.add]
        count: Annotated[int, DeltaChannel(lambda count, writes: count + sum(writes), snapshot_frequency=1000)]

    def count(_: Any) -> dict[str, int]:
        runs.append("count")
        return {"count": 1}

    return line(DeltaCount, wait=says(runs, "wait"), count=count)


def forgetter(snapshot_frequency: int) -> Agent:
    """Adds to a delta channel, then replaces all that is in it, then adds again."""

    def agent(runs: Runs) -> Builder:
        def forget(_: Any) -> dict[str, Any]:
            runs.append("forget")
            return {"log": Overwrite(["forgotten"])}

        return line(delta_log(snapshot_frequency), hear=says(runs, "hear"), forget=forget, answer=says(runs, "answer"))

    return agent


def delta_approvals(snapshot_frequency: int) -> Agent:
    """Parallel nodes write to a delta channel, one after an interrupt; later another interrupts."""

    def agent(runs: Runs) -> Builder:
        graph: Builder = StateGraph(delta_log(snapshot_frequency))
        graph.add_node("ask", asks(runs, "ask", "first?"))
        graph.add_node("steady", says(runs, "steady"))
        graph.add_node("check", asks(runs, "check", "second?"))
        graph.add_edge(START, "ask")
        graph.add_edge(START, "steady")
        graph.add_edge(["ask", "steady"], "check")
        return graph

    return agent


def delta_nested(snapshot_frequency: int) -> Agent:
    """A delta channel in a graph; another in its subgraph, which remembers earlier runs and interrupts."""

    def agent(runs: Runs) -> Builder:
        class Notes(TypedDict):
            notes: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=snapshot_frequency)]
            log: list[Any]

        def note(state: Notes) -> dict[str, list[Any]]:
            runs.append("note")
            return {"notes": [f"note {len(state['notes'])}", interrupt("noted?")]}

        def report(state: Notes) -> dict[str, list[Any]]:
            runs.append("report")
            return {"log": [f"{len(state['notes'])} notes"], "notes": ["reported"]}

        child = line(Notes, note=note, report=report).compile(checkpointer=True)
        return line(delta_log(snapshot_frequency), hear=says(runs, "hear"), child=child, answer=says(runs, "answer"))

    return agent


def idle_and_busy(steps: int) -> Agent:
    """Two delta channels: one written in each of so many steps of a run, one only by the input."""

    def agent(runs: Runs) -> Builder:
        class TwoLogs(TypedDict):
            busy: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=1000)]
            idle: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=1000)]

        return line(TwoLogs, **{f"step{number}": says(runs, f"step{number}", "busy") for number in range(steps)})

    return agent
