"""Agents with subgraphs: each keeps its own checkpoints in the thread, under a namespace of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command

from tests import agents
from tests.drivers import Thread, everywhere_and_in_each_durability, make_twins, on_one_server, raw_saver

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from tests.conftest import Savers
    from tests.drivers import Twins

pytestmark = pytest.mark.newest

GO = {"log": ["go"]}
TASK = "[0-9a-f-]{36}"


def below(state: StateSnapshot) -> Any:
    """The state of the subgraph that runs."""
    return next(task.state for task in state.tasks if task.state)


async def namespaces(thread: Thread) -> set[str]:
    """The namespaces in which checkpoints of a thread are stored."""
    return {one.config["configurable"]["checkpoint_ns"] for one in await thread.stored()}


@everywhere_and_in_each_durability
async def test_nested_subgraphs_are_seen_and_go_on_in_another_process(make_saver: Savers, durability: str) -> None:
    """Two levels down an agent asks: the states of all three are there, each in its namespace."""
    twins = make_twins(make_saver, agents.nested)
    await twins.invoke(GO, durability=durability)
    twins.restart(raw_saver(make_saver))
    state = await twins.state(subgraphs=True)
    logs = [state.values["log"], below(state).values["log"], below(below(state)).values["log"]]
    assert logs == [["go", "before"], ["go", "before", "middle_before"], ["go", "before", "middle_before", "inner_before"]]
    assert [one.next for one in (state, below(state), below(below(state)))] == [("middle",), ("inner",), ("inner_ask",)]
    found = sorted(await namespaces(twins.ours))
    assert [
        bool(re.fullmatch(form, ns))
        for form, ns in zip(("", f"middle:{TASK}", f"middle:{TASK}\\|inner:{TASK}"), found, strict=True)
    ]
    await twins.invoke(Command(resume="yes"), durability=durability)
    assert (await twins.state()).next == ()
    assert twins.runs == {**dict.fromkeys(twins.runs, 1), "inner_ask": 2}


async def test_the_state_of_a_subgraph_is_changed_by_hand(make_saver: Savers) -> None:
    """On each level, and the agent goes on with what it says then."""
    twins = make_twins(make_saver, agents.nested)
    await twins.invoke(GO)
    await twins.update({"log": ["inner by hand"]}, at=lambda state: config_of(below(below(state))))
    await twins.update({"log": ["middle by hand"]}, at=lambda state: config_of(below(state)), as_node="middle_before")
    twins.restart(raw_saver(make_saver))
    await twins.invoke(Command(resume="yes"))
    log = (await twins.values())["log"]
    assert "middle by hand" in log


def config_of(state: StateSnapshot) -> RunnableConfig:
    """The config that names a state."""
    return state.config


@on_one_server
async def test_nested_subgraphs_are_run_again_from_each_point(make_saver: Savers) -> None:
    """From each point of the past of the whole, and from the subgraphs' latest."""
    twins = make_twins(make_saver, agents.nested)
    await twins.invoke(GO)
    await twins.invoke(None, at=lambda state: config_of(below(state)))
    await twins.invoke(None, at=lambda state: config_of(below(below(state))))
    await twins.invoke(Command(resume="yes"))
    twins.compares_past = False
    for at in range(await twins.length()):
        twins.restart(raw_saver(make_saver))
        await twins.invoke(None, at=at)
        if (await twins.state()).interrupts:
            await twins.invoke(Command(resume=f"at {at}"))
    twins.compares_past = True
    await twins.check()
    logs = [state.values["log"] for state in await twins.ours.history() if state.next == ()]
    assert {item for log in logs for item in log if item.startswith("inner_ask: ")} > {"inner_ask: yes", "inner_ask: at 0"}


async def position(twins: Twins, question: str, before: str) -> int:
    """Where in the past the agent was about to run a node to answer a question."""
    states = (await twins.ours.history())[::-1]
    return next(at for at, one in enumerate(states) if one.values.get("question") == question and one.next == (before,))


async def test_an_old_run_is_answered_with_what_was_remembered_then(make_saver: Savers) -> None:
    """L7: the second of three runs of a graph whose subgraph has its own checkpointer."""
    twins = make_twins(make_saver, agents.rememberer)
    for question in "abc":
        await twins.invoke({"question": question})
    assert (await twins.values())["answer"] == "3: a b c."
    assert await namespaces(twins.ours) == {"", "child"}
    for question, answer in (("b", "2: a b."), ("a", "1: a."), ("c", "3: a b c."), ("b", "2: a b.")):
        twins.restart(raw_saver(make_saver))
        again = await twins.invoke(None, at=await position(twins, question, "child"))
        assert again["answer"] == answer


@on_one_server
async def test_an_old_question_of_a_subgraph_is_asked_and_answered_again(make_saver: Savers) -> None:
    """L7: with an interrupt in the subgraph."""
    twins = make_twins(make_saver, agents.rememberer)
    for number in (1, 2, 3):
        await twins.invoke({"question": f"ask {number}"})
        await twins.invoke(Command(resume=f"sure {number}"))
    assert (await twins.values())["answer"] == "3: ask 1 ask 2 ask 3, sure 3."
    for at in (await position(twins, "ask 2", "child"), await position(twins, "ask 1", "child")):
        twins.restart(raw_saver(make_saver))
        await twins.invoke(None, at=at)
        await twins.invoke(Command(resume="again"))
    assert (await twins.values())["answer"] == "1: ask 1, again."


async def test_a_subgraph_with_its_own_memory_is_left_alone_when_the_graph_is_changed(make_saver: Savers) -> None:
    """And its own state is changed by hand while it asks."""
    twins = make_twins(make_saver, agents.rememberer)
    await twins.invoke({"question": "a"})
    await twins.update({"question": "by hand"}, as_node="polish")
    await twins.invoke({"question": "ask"})
    await twins.update({"heard": ["by hand"]}, at=lambda state: config_of(below(state)))
    twins.restart(raw_saver(make_saver))
    await twins.invoke(Command(resume="yes"))
    assert (await twins.values())["answer"].endswith("a ask by hand, yes.")


async def test_a_subgraph_sends_its_parent_elsewhere(make_saver: Savers) -> None:
    """By a `Command` to the parent, after an interrupt."""
    twins = make_twins(make_saver, agents.router)
    await twins.invoke({"log": []})
    twins.restart(raw_saver(make_saver))
    await twins.invoke(Command(resume="now"))
    assert await twins.values() == {"log": ["choose", "leave now", "choose"]}
    assert twins.runs == {"choose": 2, "leave": 3}
