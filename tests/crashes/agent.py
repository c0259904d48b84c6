"""The agent that is killed: parallel branches, `Send`s, a subgraph, interrupts in both graphs, messages and delta channels.

Every step writes to several channels at once, so that half of a saved step would show. This module evaluates its annotations:
the states of LangGraph are read from them.
"""

import operator
import time
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, StateSnapshot, interrupt
from typing_extensions import TypedDict

from tests.agents import Builder, Node
from tests.crashes.events import Ran
from tests.delta_agents import extend

TURNS = 2
WORK = 3
TAKES = 0.001
"""Seconds that a step takes after its side effect: time for a kill to find some of the parallel steps saved, others not."""
FINISHED = object()

Note: TypeAlias = Callable[[Ran], object]


class Findings(TypedDict):
    """The state of the subgraph."""

    turn: int
    findings: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=1000)]
    report: str


class State(TypedDict):
    """The state of the agent: one delta channel is stored whole now and then, the other is not."""

    turn: int
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]
    facts: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=1000)]
    notes: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=4)]
    report: str


def next_input(state: StateSnapshot) -> Any:
    """What to invoke a thread with that was found in this state, or `FINISHED`."""
    if state.interrupts:
        return Command(resume={one.id: f"yes to {one.value}" for one in state.interrupts})
    if state.tasks:  # `state.next` leaves out those whose output is stored already, so it may be empty in the middle of a run
        return None
    heard = sum(isinstance(message, HumanMessage) for message in state.values.get("messages", ()))
    if heard == TURNS:
        return FINISHED
    hello = HumanMessage(f"hello {heard}", id=f"hello {heard}")
    return {"turn": heard, "messages": [hello], "facts": [f"input {heard}"], "notes": [f"input {heard}"]}


def ran(step: str, config: RunnableConfig) -> Ran:
    """A step and its place, as LangGraph tells it to the node."""
    place = config["configurable"]
    # One entry for each graph that the node is in, the outermost first: its namespace, and the checkpoint it goes on from.
    chain = tuple(sorted(place["checkpoint_map"].items(), key=lambda entry: len(entry[0])))
    return Ran(place["thread_id"], step, chain, task_of(place["checkpoint_ns"]))


def task_of(namespace: str) -> str:
    """The id of the task that a namespace was made for: its last part."""
    return namespace.rpartition(":")[2]


def says(note: Note, name: str) -> Node:
    """A step of the agent: adds to every channel."""

    def node(state: Any, config: RunnableConfig) -> dict[str, Any]:
        label = f"{state['turn']} {name} {state.get('number', '')}".strip()
        note(ran(label, config))
        time.sleep(TAKES)
        return everywhere(label)

    return node


def asks(note: Note, name: str, *questions: str) -> Node:
    """The same, after its questions are answered."""

    def node(state: Any, config: RunnableConfig) -> dict[str, Any]:
        label = f"{state['turn']} {name}"
        note(ran(label, config))
        return everywhere(f"{label}: {[interrupt(f'{label} {question}') for question in questions]}")

    return node


def everywhere(text: str) -> dict[str, Any]:
    """Something for each channel."""
    return {"messages": [AIMessage(text, id=text)], "count": 1, "facts": [text], "notes": [text]}


def subgraph(note: Note) -> Builder:
    """Looks, asks and reports."""

    def look(state: Findings, config: RunnableConfig) -> dict[str, Any]:
        note(ran(f"{state['turn']} look", config))
        time.sleep(TAKES)
        return {"findings": ["looked"]}

    def ask(state: Findings, config: RunnableConfig) -> dict[str, Any]:
        note(ran(f"{state['turn']} ask", config))
        return {"findings": [interrupt(f"{state['turn']} found?")]}

    def report(state: Findings, config: RunnableConfig) -> dict[str, Any]:
        note(ran(f"{state['turn']} report", config))
        time.sleep(TAKES)
        return {"findings": ["reported"], "report": f"in turn {state['turn']}: {state['findings']}"}

    graph: Builder = StateGraph(Findings)
    graph.add_sequence([("look", look), ("ask", ask), ("report", report)])
    graph.add_edge(START, "look")
    return graph


def agent(note: Note) -> Builder:
    """The agent."""
    graph: Builder = StateGraph(State)
    for name in ("hear", "left", "right", "work", "gather", "steady", "answer"):
        graph.add_node(name, says(note, name))
    graph.add_node("inquire", subgraph(note).compile())
    graph.add_node("approve", asks(note, "approve", "first?", "second?"))
    graph.add_edge(START, "hear")
    graph.add_edge("hear", "left")
    graph.add_edge("hear", "right")
    graph.add_conditional_edges(
        "hear", lambda state: [Send("work", {"turn": state["turn"], "number": number}) for number in range(WORK)], ["work"]
    )
    # No join edges (`[a, b]` to c): LangGraph 1.2 changes their set of those that have come in place while, with durability
    # "async", the checkpoint before still waits to be saved. What any saver is handed then, `InMemorySaver` too, is a state
    # that never was, and a thread that is resumed from it goes astray.
    for before, after in (
        ("left", "gather"),
        ("right", "gather"),
        ("work", "gather"),
        ("gather", "inquire"),
        ("gather", "steady"),
        ("inquire", "approve"),
        ("steady", "approve"),
        ("approve", "answer"),
    ):
        graph.add_edge(before, after)
    return graph
