"""Small agents that do the same whenever they are given the same, and record each run of a node in a list.

Each is a function from that list to a graph that is ready to be compiled. This module evaluates its annotations: the states
of LangGraph are read from them.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated, Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Interrupt, Overwrite, RetryPolicy, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

Runs: TypeAlias = list[str]
Builder: TypeAlias = StateGraph[Any, Any, Any, Any]
Agent: TypeAlias = Callable[[Runs], Builder]
Node: TypeAlias = Callable[..., Any]

AT_ONCE = RetryPolicy(initial_interval=0, max_interval=0, jitter=False, max_attempts=3, retry_on=ValueError)


class Log(TypedDict):
    """What was done, in order."""

    log: Annotated[list[str], operator.add]


def says(runs: Runs, name: str, channel: str = "log") -> Node:
    """A node that adds its name to a channel."""

    def node(_: Any) -> dict[str, list[str]]:
        runs.append(name)
        return {channel: [name]}

    return node


def asks(runs: Runs, name: str, *questions: str, channel: str = "log") -> Node:
    """A node that interrupts with each question and adds the answers to a channel."""

    def node(_: Any) -> dict[str, list[str]]:
        runs.append(name)
        return {channel: [f"{name}: {interrupt(question)}" for question in questions]}

    return node


def line(state: Any, **nodes: Any) -> Builder:
    """A graph whose nodes run one after the other."""
    graph: Builder = StateGraph(state)
    graph.add_sequence(list(nodes.items()))
    graph.add_edge(START, next(iter(nodes)))
    return graph


def approvals(runs: Runs) -> Builder:
    """Interrupts twice in one node, then once in another."""
    return line(
        Log,
        plan=says(runs, "plan"),
        ask=asks(runs, "ask", "first?", "second?"),
        act=says(runs, "act"),
        check=asks(runs, "check", "third?"),
        done=says(runs, "done"),
    )


def loop(runs: Runs) -> Builder:
    """One node interrupts with the same question in each of three rounds."""
    graph: Builder = StateGraph(Log)
    graph.add_node("ask", asks(runs, "ask", "again?"))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: "ask" if len(state["log"]) < 3 else END)
    return graph


def parallel_approvals(runs: Runs) -> Builder:
    """Two of three parallel nodes interrupt; a fourth waits for all of them."""
    graph: Builder = StateGraph(Log)
    graph.add_node("left", asks(runs, "left", "left?"))
    graph.add_node("right", asks(runs, "right", "right?"))
    graph.add_node("steady", says(runs, "steady"))
    graph.add_node("join", says(runs, "join"))
    for name in ("left", "right", "steady"):
        graph.add_edge(START, name)
    graph.add_edge(["left", "right", "steady"], "join")
    return graph


def fan_out(count: int, *interrupting: int) -> Agent:
    """Sends work to as many tasks; the interrupting ones ask first."""

    def work(runs: Runs) -> Node:
        def node(number: int) -> dict[str, list[str]]:
            runs.append(f"work {number}")
            answer = interrupt(f"{number}?") if number in interrupting else "done"
            return {"log": [f"{number} {answer}"]}

        return node

    def agent(runs: Runs) -> Builder:
        graph: Builder = StateGraph(Log)
        graph.add_node("split", says(runs, "split"))
        graph.add_node("work", work(runs))
        graph.add_node("collect", says(runs, "collect"))
        graph.add_edge(START, "split")
        graph.add_conditional_edges("split", lambda _: [Send("work", number) for number in range(count)], ["work"])
        graph.add_edge("work", "collect")
        return graph

    return agent


def fragile(failures: int, gate: Event, retry_policy: RetryPolicy | None = None) -> Agent:
    """Of two parallel nodes one raises that many times before it works; it waits for the gate to open."""

    def agent(runs: Runs) -> Builder:
        def breaks(_: Any) -> dict[str, list[str]]:
            assert gate.wait(10)
            runs.append("breaks")
            if runs.count("breaks") <= failures:
                message = f"failure {runs.count('breaks')}"
                raise ValueError(message)
            return {"log": ["breaks"]}

        graph: Builder = StateGraph(Log)
        node: Node = breaks
        graph.add_node("breaks", node, retry_policy=retry_policy)
        graph.add_node("steady", says(runs, "steady"))
        graph.add_node("join", says(runs, "join"))
        graph.add_edge(START, "breaks")
        graph.add_edge(START, "steady")
        graph.add_edge(["breaks", "steady"], "join")
        return graph

    return agent


class Chat(TypedDict):
    """A conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


def chat(runs: Runs) -> Builder:
    """Answers with how many messages there are.

    (Without an id of its own a message gets one while it is being saved, so that now it is saved with one, now without.)
    """

    def answer(state: Chat) -> dict[str, list[AIMessage]]:
        runs.append("answer")
        count = len(state["messages"])
        return {"messages": [AIMessage(f"{count} messages, the last: {state['messages'][-1].text}", id=f"answer to {count}")]}

    return line(Chat, answer=answer)


class Place(BaseModel):
    """A value of a class of the user's."""

    name: str
    visits: int = 0


@dataclass(frozen=True)
class Route:
    """A value of a class of the user's that holds another."""

    places: list[str]
    start: Place = field(default_factory=lambda: Place(name="home"))


class Journey(BaseModel):
    """A state that is itself a model."""

    place: Place = Place(name="home")
    route: Route | None = None
    log: Annotated[list[str], operator.add] = []


def traveller(runs: Runs) -> Builder:
    """Keeps models and dataclasses in its state, and changes them between interrupts."""

    def depart(state: Journey) -> dict[str, Any]:
        runs.append("depart")
        answer = interrupt(state.place)
        return {"place": Place(name=answer, visits=1), "route": Route([state.place.name, answer], state.place)}

    def arrive(state: Journey) -> dict[str, Any]:
        runs.append("arrive")
        return {
            "place": state.place.model_copy(update={"visits": 2}),
            "log": [" to ".join(state.route.places)] if state.route else [],
        }

    return line(Journey, depart=depart, arrive=arrive)


def router(runs: Runs) -> Builder:
    """Goes where its nodes say, from inside a subgraph too."""

    def choose(state: Log) -> Command[str]:
        runs.append("choose")
        return Command(goto="inner" if len(state["log"]) < 3 else "last", update={"log": ["choose"]})

    def leave(_: Log) -> Command[str]:
        runs.append("leave")
        return Command(graph=Command.PARENT, goto="choose", update={"log": [f"leave {interrupt('leave?')}"]})

    graph: Builder = StateGraph(Log)
    graph.add_node("choose", choose, destinations=("inner", "last"))
    graph.add_node("inner", line(Log, leave=leave).compile(), destinations=("choose",))
    graph.add_node("last", says(runs, "last"))
    graph.add_edge(START, "choose")
    return graph


class Flash(TypedDict):
    """A log, and a value that lives for one step."""

    log: Annotated[list[str], operator.add]
    flash: Annotated[str, EphemeralValue]


def flasher(runs: Runs) -> Builder:
    """Shows a value to the next node only, and stops at each step."""

    def light(_: Flash) -> dict[str, Any]:
        runs.append("light")
        return {"log": ["light"], "flash": "bright enough to be stored by itself, and not in a listing"}

    def look(state: Flash) -> dict[str, list[str]]:
        runs.append("look")
        return {"log": [state.get("flash", "dark")]}

    return line(Flash, light=light, look=look, look_again=look)


PRECIOUS: tuple[Any, ...] = (
    Send("work", {"raw": b"\x00\xff", "path": ["a", 1]}),
    Command(goto=Send("work", b"\xfe"), update={"log": ["x"]}, resume={"a": 1}),
    Interrupt(value={"question": b"\x01"}, id="i"),
    Overwrite([b"\x02", "x"]),
)


class Treasure(TypedDict):
    """A log, and values of LangGraph's own classes."""

    log: Annotated[list[Any], operator.add]
    kept: Any


def treasurer(runs: Runs) -> Builder:
    """Keeps LangGraph's own objects: in its state, inside a `Send`, and as writes that wait for an answer."""

    def collect(_: Any) -> dict[str, Any]:
        runs.append("collect")
        return {"kept": list(PRECIOUS), "log": ["collect"]}

    def replace(_: Any) -> dict[str, Any]:
        runs.append("replace")
        return {"log": Overwrite(["replaced"])}

    def guard(state: Treasure) -> dict[str, Any]:
        runs.append("guard")
        return {"kept": [*state["kept"], interrupt(PRECIOUS[2])]}

    def work(given: Any) -> dict[str, list[Any]]:
        runs.append("work")
        return {"log": [given, interrupt("open?")]}

    graph: Builder = StateGraph(Treasure)
    nodes: list[Node] = [collect, replace, guard, work]
    for node in nodes:
        graph.add_node(node)
    graph.add_edge(START, "collect")
    graph.add_edge("collect", "replace")
    graph.add_edge("collect", "guard")
    graph.add_conditional_edges("guard", lambda state: [state["kept"][0]], ["work"])
    return graph


def nested(runs: Runs) -> Builder:
    """Two levels of subgraphs that inherit the checkpointer; the inner one interrupts."""
    inner = line(
        Log,
        inner_before=says(runs, "inner_before"),
        inner_ask=asks(runs, "inner_ask", "inner?"),
        inner_after=says(runs, "inner_after"),
    )
    middle = line(
        Log, middle_before=says(runs, "middle_before"), inner=inner.compile(), middle_after=says(runs, "middle_after")
    )
    return line(Log, before=says(runs, "before"), middle=middle.compile(), after=says(runs, "after"))


class Question(TypedDict):
    """What goes into a subgraph and what comes out."""

    question: str
    answer: str


class Memory(Question):
    """What the subgraph has heard so far: the graph around it does not see it."""

    heard: Annotated[list[str], operator.add]


def rememberer(runs: Runs) -> Builder:
    """Its subgraph has a checkpointer of its own and remembers earlier runs; it asks before it answers "ask…"."""

    def listen(state: Memory) -> dict[str, Any]:
        runs.append("listen")
        return {"heard": [state["question"]]}

    def reply(state: Memory) -> dict[str, Any]:
        runs.append("reply")
        approved = f", {interrupt('sure?')}" if state["question"].startswith("ask") else ""
        return {"answer": f"{len(state['heard'])}: {' '.join(state['heard'])}{approved}"}

    def polish(state: Question) -> dict[str, Any]:
        runs.append("polish")
        return {"answer": f"{state['answer']}."}

    child = line(Memory, listen=listen, reply=reply)
    return line(Question, child=child.compile(checkpointer=True), polish=polish)
