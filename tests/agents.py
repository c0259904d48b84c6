"""Small agents that do the same whenever they are given the same, and record each run of a node in a list.

Each is a function from that list to a graph that is ready to be compiled. This module evaluates its annotations: the states
of LangGraph are read from them.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels import EphemeralValue
from langgraph.channels.delta import DeltaChannel
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
    graph.add_conditional_edges("ask", lambda state: "ask" if len(state["log"]) < 3 else END)  # noqa: PLR2004 rounds
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


def fragile(failures: int, retry_policy: RetryPolicy | None = None) -> Agent:
    """One of two parallel nodes raises that many times before it works."""

    def agent(runs: Runs) -> Builder:
        def breaks(_: Any) -> dict[str, list[str]]:
            runs.append("breaks")
            if runs.count("breaks") <= failures:
                message = f"failure {runs.count('breaks')}"
                raise ValueError(message)
            return {"log": ["breaks"]}

        graph: Builder = StateGraph(Log)
        graph.add_node("breaks", breaks, retry_policy=retry_policy)
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
    """Answers with how many messages there are."""

    def answer(state: Chat) -> dict[str, list[AIMessage]]:
        runs.append("answer")
        return {"messages": [AIMessage(f"{len(state['messages'])} messages, the last: {state['messages'][-1].text}")]}

    return line(Chat, answer=answer)


class Place(BaseModel):
    """A value of a class of the user's."""

    name: str
    visits: int = 0


@dataclass(frozen=True)
class Route:
    """A value of a class of the user's that holds another."""

    places: tuple[str, ...]
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
        return {"place": Place(name=answer, visits=1), "route": Route((state.place.name, answer), state.place)}

    def arrive(state: Journey) -> dict[str, Any]:
        runs.append("arrive")
        return {"place": state.place.model_copy(update={"visits": 2}), "log": [" to ".join(state.route.places)] if state.route else []}

    return line(Journey, depart=depart, arrive=arrive)


def router(runs: Runs) -> Builder:
    """Goes where its nodes say, from inside a subgraph too."""

    def choose(state: Log) -> Command[str]:
        runs.append("choose")
        return Command(goto="inner" if len(state["log"]) < 3 else "last", update={"log": ["choose"]})  # noqa: PLR2004

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


PRECIOUS = (
    Send("work", {"raw": b"\x00\xff", "path": ("a", 1)}),
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

    def collect(_: Treasure) -> dict[str, Any]:
        runs.append("collect")
        return {"kept": list(PRECIOUS), "log": ["collect"]}

    def replace(_: Treasure) -> dict[str, Any]:
        runs.append("replace")
        return {"log": Overwrite(["replaced"])}

    def guard(state: Treasure) -> dict[str, Any]:
        runs.append("guard")
        return {"kept": [*state["kept"], interrupt(PRECIOUS[2])]}

    def work(given: Any) -> dict[str, list[Any]]:
        runs.append("work")
        return {"log": [given, interrupt("open?")]}

    graph: Builder = StateGraph(Treasure)
    graph.add_node("collect", collect)
    graph.add_node("replace", replace)
    graph.add_node("guard", guard)
    graph.add_node("work", work)
    graph.add_edge(START, "collect")
    graph.add_edge("collect", "replace")
    graph.add_edge("collect", "guard")
    graph.add_conditional_edges("guard", lambda state: [state["kept"][0]], ["work"])
    return graph


def nested(runs: Runs) -> Builder:
    """Two levels of subgraphs that inherit the checkpointer; the inner one interrupts."""
    inner = line(
        Log, inner_before=says(runs, "inner_before"), inner_ask=asks(runs, "inner_ask", "inner?"), inner_after=says(runs, "inner_after")
    )
    middle = line(Log, middle_before=says(runs, "middle_before"), inner=inner.compile(), middle_after=says(runs, "middle_after"))
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


def extend(items: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """The reducer of delta channels."""
    return [*items, *(item for write in writes for item in write)]


def delta_log(snapshot_frequency: int) -> type[Any]:
    """A log in a delta channel."""

    class DeltaLog(TypedDict):
        log: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=snapshot_frequency)]

    return DeltaLog


def recorder(snapshot_frequency: int) -> Agent:
    """Adds two items in each turn, in two steps, to a delta channel."""
    return lambda runs: line(delta_log(snapshot_frequency), hear=says(runs, "hear"), answer=says(runs, "answer"))


def plain_recorder(runs: Runs) -> Builder:
    """The same, before it was changed to use a delta channel."""
    return line(Log, hear=says(runs, "hear"), answer=says(runs, "answer"))


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
    """A delta channel in a graph and in its subgraph, which has a checkpointer of its own and interrupts."""

    def agent(runs: Runs) -> Builder:
        class Notes(TypedDict):
            log: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=snapshot_frequency)]
            notes: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=snapshot_frequency)]

        def note(state: Notes) -> dict[str, list[Any]]:
            runs.append("note")
            return {"notes": [len(state["notes"]), interrupt("noted?")]}

        def report(state: Notes) -> Command[str]:
            runs.append("report")
            return Command(update={"log": [f"{state['notes']}"]})

        child = line(Notes, note=note, report=report).compile(checkpointer=True)

        def ask_child(_: Any) -> dict[str, list[Any]]:
            return {"log": [child.invoke({"notes": ["asked"]})["notes"]]}

        return line(delta_log(snapshot_frequency), hear=says(runs, "hear"), child=ask_child, answer=says(runs, "answer"))

    return agent


def idle_and_busy(steps: int) -> Agent:
    """Two delta channels: one written in each of so many steps of a run, one only by the input."""

    def agent(runs: Runs) -> Builder:
        class TwoLogs(TypedDict):
            busy: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=1000)]
            idle: Annotated[list[Any], DeltaChannel(extend, snapshot_frequency=1000)]

        return line(TwoLogs, **{f"step{number}": says(runs, f"step{number}", "busy") for number in range(steps)})

    return agent
