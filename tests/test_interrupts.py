"""Agents that stop in the middle, to ask or because something broke, go on where they were: nothing is lost or done twice."""

from __future__ import annotations

from collections import Counter
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Command

from tests import agents
from tests.drivers import (
    Thread,
    Twins,
    all_answered,
    everywhere_and_in_each_durability,
    make_twins,
    on_one_server,
    raw_saver,
    saver_with_own_client,
)

if TYPE_CHECKING:
    from tests.conftest import Savers

pytestmark = pytest.mark.newest

GO = {"log": ["go"]}


async def questions(twins: Twins) -> list[str]:
    """What the agent waits to be told."""
    return [one.value for one in (await twins.state()).interrupts]


async def test_an_answer_is_for_one_question_only(make_saver: Savers) -> None:
    """W9: asked twice in one node, and once in a later one; each run is in another process."""
    twins = make_twins(make_saver, agents.approvals)
    await twins.invoke(GO)
    for answer, question in (("1", "second?"), ("2", "third?")):
        twins.restart(raw_saver(make_saver))
        await twins.invoke(Command(resume=answer))
        assert await questions(twins) == [question]
    await twins.invoke(Command(resume="3"))
    assert await questions(twins) == []
    assert await twins.values() == {"log": ["go", "plan", "ask: 1", "ask: 2", "act", "check: 3", "done"]}
    assert twins.runs == {"plan": 1, "ask": 3, "act": 1, "check": 2, "done": 1}


async def test_the_same_question_in_each_round_of_a_loop_is_asked_each_time(make_saver: Savers) -> None:
    """W9: same node, same question, same place in the node."""
    twins = make_twins(make_saver, agents.loop)
    await twins.invoke(GO)
    for answer in "ab":
        await twins.invoke(None)
        await twins.invoke(Command(resume=answer))
    assert await twins.values() == {"log": ["go", "ask: a", "ask: b"]}
    assert await questions(twins) == []
    await twins.invoke({"log": []})
    assert await questions(twins) == ["again?"]


@everywhere_and_in_each_durability
async def test_parallel_questions_are_answered_by_their_ids_one_by_one(make_saver: Savers, durability: str) -> None:
    """Nodes that are done do not run again, and the join waits for all."""
    twins = make_twins(make_saver, agents.parallel_approvals)
    await twins.invoke(GO, durability=durability)
    assert await questions(twins) == ["left?", "right?"]
    twins.restart(raw_saver(make_saver))
    await twins.invoke(lambda state: Command(resume={state.interrupts[1].id: "R"}), durability=durability)
    assert await questions(twins) == ["left?"]
    twins.restart(raw_saver(make_saver))
    await twins.invoke(Command(resume="L"), durability=durability)
    assert await twins.values() == {"log": ["go", "left: L", "right: R", "steady", "join"]}
    assert twins.runs == {"left": 3, "right": 2, "steady": 1, "join": 1}


@on_one_server
@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
async def test_an_agent_stops_before_and_after_nodes(make_saver: Savers, option: str) -> None:
    """Whether that was said when it was compiled or when it is run; in between the state is changed by hand."""
    twins = make_twins(make_saver, agents.nested, **{option: ["before", "middle"]})
    await twins.invoke(GO)
    first = ("before",) if option == "interrupt_before" else ("middle",)
    assert (await twins.state()).next == first
    twins.restart(raw_saver(make_saver))
    await twins.update({"log": ["by hand"]})
    await twins.invoke(None)
    assert (await twins.state()).next == ("middle",)
    await twins.invoke(None)
    await twins.invoke(Command(resume="yes"), **{option: ["after"]})
    await twins.invoke(None)
    assert (await twins.state()).next == ()
    log = ["go", "by hand", "before"] if option == "interrupt_before" else ["go", "before", "by hand"]
    # A subgraph gives back its whole log, which the reducer adds to what is there.
    inner = [*log, "middle_before", "inner_before", "inner_ask: yes", "inner_after"]
    assert await twins.values() == {"log": [*log, *log, "middle_before", *inner, "middle_after", "after"]}
    asked = 2 if option == "interrupt_before" else 3
    assert twins.runs == {**dict.fromkeys(twins.runs, 1), "inner_ask": asked}


@on_one_server
async def test_of_1500_tasks_none_is_lost_and_none_runs_twice(make_saver: Savers) -> None:
    """W11: one of them asks; it alone runs again. The saver makes its own client: as many saves wait for a connection.

    (With durability "exit", sync runs of LangGraph 1.2 lose some of so many writes before they reach any saver.)
    """
    work = Counter(f"work {number}" for number in range(1500))
    async with saver_with_own_client(make_saver) as saver:
        thread = Thread(agents.fan_out(1500, 700), saver, make_saver.kind)
        asked = await thread.invoke(GO)
        assert [one.value for one in asked["__interrupt__"]] == ["700?"]
        assert Counter(thread.runs) == Counter(["split"]) + work
        done = await thread.invoke(Command(resume="answered"))
        results = [f"{number} {'answered' if number == 700 else 'done'}" for number in range(1500)]
        assert done == {"log": ["go", "split", *results, "collect"]}
        assert Counter(thread.runs) == Counter(["split", "work 700", "collect"]) + work


async def run_until_it_breaks(thread: Thread, gate: Event, given: Any, **options: Any) -> str:
    """Run an agent whose gate opens once the other node's result is in; the error that reaches the caller."""
    gate.clear()
    with pytest.raises(ValueError, match="failure") as raised:
        # With "custom" a part comes as soon as it is there, not with the next.
        await thread.stream(given, hear=lambda _: gate.set(), stream_mode=["updates", "custom"], **options)
    return str(raised.value)


async def errors(twins: Twins) -> list[str]:
    """The stored errors."""
    return [value for _, channel, value in (await twins.ours.head()).pending_writes or () if channel == "__error__"]


@everywhere_and_in_each_durability
async def test_a_failed_node_alone_runs_again(make_saver: Savers, durability: str) -> None:
    """W8: the caller sees the node's own error, which is stored; the other node's result is kept."""
    gate = Event()
    twins = make_twins(make_saver, agents.fragile(2, gate))
    for thread in (twins.ours, twins.reference):
        assert await run_until_it_breaks(thread, gate, GO, durability=durability) == "failure 1"
    await twins.check()
    assert await errors(twins) == ["ValueError('failure 1')"]
    assert [str(task.error) for task in (await twins.state()).tasks] == ["ValueError('failure 1')", "None"]
    twins.restart(raw_saver(make_saver))
    for thread in (twins.ours, twins.reference):
        with pytest.raises(ValueError, match=r"^failure 2"):
            await thread.invoke(None, durability=durability)
    await twins.check()
    assert await errors(twins) == ["ValueError('failure 2')"]
    await twins.invoke(None, durability=durability)
    assert await errors(twins) == []
    assert await twins.values() == {"log": ["go", "breaks", "steady", "join"]}
    assert twins.runs == {"breaks": 3, "steady": 1, "join": 1}


async def test_a_node_is_retried_as_its_policy_says(make_saver: Savers) -> None:
    """W8: three attempts, then the error; and three more with the next run."""
    gate = Event()
    twins = make_twins(make_saver, agents.fragile(5, gate, agents.AT_ONCE))
    for thread in (twins.ours, twins.reference):
        assert await run_until_it_breaks(thread, gate, GO) == "failure 3"
    await twins.check()
    await twins.invoke(None)
    assert await twins.values() == {"log": ["go", "breaks", "steady", "join"]}
    assert twins.runs == {"breaks": 6, "steady": 1, "join": 1}


async def test_all_questions_are_answered_at_once(make_saver: Savers) -> None:
    """By a mapping from their ids; of tasks that run the same node, too."""
    twins = make_twins(make_saver, agents.fan_out(6, 1, 4))
    await twins.invoke(GO)
    assert await questions(twins) == ["1?", "4?"]
    await twins.invoke(all_answered())
    assert (await twins.values())["log"][2:] == [
        "0 done",
        "1 yes to 1?",
        "2 done",
        "3 done",
        "4 yes to 4?",
        "5 done",
        "collect",
    ]
    assert twins.runs["work 0"] == 1
    assert twins.runs["work 1"] == 2
