"""The agent of the soak: what its nodes do depends on the state alone. As in `tests.agents`, annotations are evaluated."""

import operator
from functools import cache
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from tests.agents import Builder, Node
from tests.delta_agents import extend

JOBS = 3
"""How many tasks run side by side in a turn."""


class Job(TypedDict):
    """What one of them is sent."""

    turn: int
    number: int


class Review(TypedDict):
    """The state of the subgraph; `turn` and `verdict` are also the graph's."""

    turn: int
    verdict: str
    thoughts: Annotated[list[str], operator.add]


def question(turn: int, text: str) -> dict[str, Any]:
    """What begins a turn; turns are counted from 1."""
    return {"turn": turn, "messages": [HumanMessage(f"{text}, turn {turn}", id=f"question {turn}")]}


def answers(interrupts: list[Any]) -> Command[Any]:
    """What answers interrupts, each by its id."""
    return Command(resume={one.id: f"yes to {one.value}" for one in interrupts})


def hear(state: Any) -> dict[str, Any]:
    """Take a note of the question, for the delta channel."""
    return {"notes": [f"heard {state['messages'][-1].text}"]}


def share_out(state: Any) -> list[Send]:
    """Send each job to a task of its own."""
    return [Send("work", Job(turn=state["turn"], number=number)) for number in range(JOBS)]


def work(job: Job) -> dict[str, Any]:
    """Do a job; in every third turn one asks first, while the others get done."""
    name = f"{job['turn']}.{job['number']}"
    asks = job["turn"] % 3 == 0 and job["number"] == 1
    done = f"{name}: {interrupt(f'work {name}?')}" if asks else name
    return {"notes": [f"worked {done}"], "done": [done]}


def think(state: Review) -> dict[str, Any]:
    """Begin a review."""
    return {"thoughts": [f"turn {state['turn']} looks good"]}


def ask(state: Review) -> dict[str, Any]:
    """Ask about every other turn, from the first on."""
    said = interrupt(f"review {state['turn']}?") if state["turn"] % 2 else "skipped"
    return {"thoughts": [said]}


def conclude(state: Review) -> dict[str, Any]:
    """End a review."""
    return {"verdict": "; ".join(state["thoughts"])}


def answer(state: Any) -> dict[str, Any]:
    """Answer with all that has come about."""
    text = f"{len(state['notes'])} notes, {len(state['done'])} jobs; {state['verdict']}"
    return {"messages": [AIMessage(text, id=f"answer {state['turn']}")], "notes": [f"answered {state['turn']}"]}


@cache
def assistant(snapshot_frequency: int) -> Builder:
    """Hears a question, does jobs side by side, has a subgraph review them, and answers."""

    class Talk(TypedDict):
        turn: int
        messages: Annotated[list[AnyMessage], add_messages]
        notes: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=snapshot_frequency)]
        done: Annotated[list[str], operator.add]
        verdict: str

    review: Builder = StateGraph(Review)
    review.add_sequence([think, ask, conclude])
    review.add_edge(START, "think")
    graph: Builder = StateGraph(Talk)
    nodes: list[Node] = [hear, work, answer]
    for node in nodes:
        graph.add_node(node)
    graph.add_node("review", review.compile())
    graph.add_edge(START, "hear")
    graph.add_conditional_edges("hear", share_out, ["work"])
    graph.add_edge("work", "review")
    graph.add_edge("review", "answer")
    return graph
