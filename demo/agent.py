"""A chat agent whose nodes are deterministic: no model, no key, no network. What it stores is as real as any agent's."""

from __future__ import annotations

from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt


class Chat(TypedDict):
    """What a conversation consists of."""

    messages: Annotated[list[AnyMessage], add_messages]


def think(state: Chat) -> Chat:
    """Answer the last message; a refund wants a tool."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"Done: {last.text}")]}
    if "refund" in last.text:
        call = {"name": "refund", "args": {"euros": 30}, "id": "call-1"}
        return {"messages": [AIMessage("Let me see to that.", tool_calls=[call])]}
    return {"messages": [AIMessage(f"You said: {last.text}")]}


def use_tool(state: Chat) -> Chat:
    """Refund, once a human has approved. `interrupt` ends the run here; `Command(resume=...)` goes on from here."""
    call = state["messages"][-1].tool_calls[0]  # type: ignore[union-attr]
    approved = interrupt(f"refund {call['args']['euros']} euros?")
    return {"messages": [ToolMessage("refunded" if approved else "refused", tool_call_id=call["id"])]}


def wants_tool(state: Chat) -> str:
    """Where to go after thinking."""
    return "use_tool" if getattr(state["messages"][-1], "tool_calls", None) else END


def chat_agent(saver: BaseCheckpointSaver[float]) -> CompiledStateGraph[Chat]:
    """The agent, its conversations kept by a saver."""
    graph = StateGraph(Chat)
    graph.add_node("think", think)
    graph.add_node("use_tool", use_tool)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", wants_tool, ["use_tool", END])
    graph.add_edge("use_tool", "think")
    return graph.compile(checkpointer=saver)


def append(log: list[str], entries: list[list[str]]) -> list[str]:
    """A delta channel's reducer gets all of a step's writes at once."""
    return [*log, *(line for lines in entries for line in lines)]


class Log(TypedDict):
    """A log that only its additions are stored of, and every 50th step the whole."""

    lines: Annotated[list[str], DeltaChannel(append, snapshot_frequency=50)]


def logging_agent(saver: BaseCheckpointSaver[float]) -> CompiledStateGraph[Log]:
    """An agent that writes a line of a kilobyte each turn."""
    graph = StateGraph(Log)
    graph.add_node("work", lambda state: {"lines": [f"line {len(state['lines'])}: ".ljust(1000, ".")]})
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph.compile(checkpointer=saver)
