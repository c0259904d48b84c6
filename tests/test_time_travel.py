"""Agents are run again from any point of their past, and changed there; forks do not touch each other."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from langgraph.types import Command

from tests import agents
from tests.delta_agents import delta_approvals, forgetter, plain_recorder, recorder
from tests.drivers import DURABILITIES, all_answered, make_twins, on_one_server, raw_saver

if TYPE_CHECKING:
    from tests.agents import Agent
    from tests.conftest import Savers
    from tests.drivers import Twins

pytestmark = pytest.mark.newest

GO = {"log": ["go"]}
AGENTS = {
    "plain": plain_recorder,
    "delta, always snapshots": recorder(1),
    "delta, snapshots": recorder(3),
    "delta, no snapshots": recorder(1000),
}
each_agent = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)


async def values_by_position(twins: Twins) -> list[dict[str, object]]:
    """The values of each checkpoint, oldest first."""
    return [state.values for state in reversed(await twins.ours.history())]


@on_one_server
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("agent", [*AGENTS.values(), forgetter(1000)], ids=[*AGENTS, "delta, overwritten"])
async def test_each_point_of_the_past_can_be_run_again(make_saver: Savers, agent: Agent, durability: str) -> None:
    """Each by another process. What was there before stays as it was."""
    twins = make_twins(make_saver, agent)
    await twins.invoke(GO, durability=durability)
    await twins.invoke({"log": ["go on"]}, durability=durability)
    past = await values_by_position(twins)
    # With "exit" a thread of delta channels begins with a checkpoint that only holds writes: nothing can be run there.
    twins.compares_past = False
    oldest = ((await twins.state(0)).metadata or {})["step"]
    for at in range(1 if oldest == -2 else 0, len(past)):
        twins.restart(raw_saver(make_saver))
        await twins.invoke(None, at=at, durability=durability)
    twins.compares_past = True
    await twins.check()
    assert (await values_by_position(twins))[: len(past)] == past
    assert await twins.length() > len(past)


@on_one_server
@each_agent
async def test_forks_of_forks_go_their_own_ways(make_saver: Savers, agent: Agent) -> None:
    """The state is changed in the past, then in that fork's past; each line then takes a turn of its own."""
    twins = make_twins(make_saver, agent)
    await twins.invoke(GO)
    await twins.invoke({"log": ["second"]})
    twins.compares_past = False
    ends = [await twins.length() - 1]
    for name, at in (("fork", 2), ("fork of fork", -2), ("sibling", 2), ("late", 5)):
        twins.restart(raw_saver(make_saver))
        position = at if at > 0 else await twins.length() + at
        await twins.update({"log": [name]}, at=position, as_node="hear")
        await twins.invoke(None)
        ends.append(await twins.length() - 1)
    for end in ends:
        await twins.invoke({"log": ["turn"]}, at=end)
    twins.compares_past = True
    await twins.check()
    past = await values_by_position(twins)
    logs = [tuple(map(str, past[end]["log"])) for end in ends]  # type: ignore[call-overload]
    assert len(set(logs)) == len(ends)
    assert all("fork" in log for log in logs[1:3])
    assert "fork of fork" in logs[2]
    assert "fork of fork" not in logs[3]


@on_one_server
@each_agent
async def test_the_state_is_changed_by_hand_before_between_and_after_runs(make_saver: Savers, agent: Agent) -> None:
    """In the name of the input and of each node."""
    twins = make_twins(make_saver, agent)
    await twins.update({"log": ["before"]}, as_node="__start__")
    await twins.invoke(None)
    for as_node in ("hear", "answer"):
        twins.restart(raw_saver(make_saver))
        await twins.update({"log": [f"as {as_node}"]}, as_node=as_node)
        await twins.update({"log": [f"as {as_node} again"]}, as_node=as_node)
        await twins.invoke(None)
    await twins.invoke(GO)
    await twins.update(None)
    await twins.update(None, as_node="__end__")
    log = (await twins.values())["log"]
    assert log[:3] == ["before", "hear", "answer"]
    assert [one for one in log if one.startswith("as")] == ["as hear", "as hear again", "as answer", "as answer again"]


ASKING: dict[str, tuple[Agent, str]] = {
    "approvals": (agents.approvals, "check"),
    "parallel approvals": (agents.parallel_approvals, "left"),
    "delta approvals, snapshots": (delta_approvals(3), "check"),
    "delta approvals, no snapshots": (delta_approvals(1000), "check"),
}


@on_one_server
@pytest.mark.parametrize("name", ASKING)
async def test_a_question_of_the_past_is_asked_again(make_saver: Savers, name: str) -> None:
    """And another answer makes another present."""
    twins = make_twins(make_saver, ASKING[name][0])
    await twins.invoke(GO)
    while (await twins.state()).interrupts:
        await twins.invoke(all_answered())
    twins.compares_past = False
    for at in range(await twins.length()):
        await twins.invoke(None, at=at)
        while (await twins.state()).interrupts:
            twins.restart(raw_saver(make_saver))
            await twins.invoke(all_answered("no"))
        assert (await twins.state()).next == ()
    twins.compares_past = True
    await twins.check()
    logs = [state.values["log"] for state in await twins.ours.history() if state.next == ()]
    assert {item.partition(" to ")[0] for log in logs for item in log} >= {
        f"{ASKING[name][1]}: {said}" for said in ("yes", "no")
    }


@pytest.mark.parametrize("agent", [agents.approvals, delta_approvals(1000)], ids=["plain", "delta"])
async def test_a_question_is_answered_at_the_checkpoint_that_asked(make_saver: Savers, agent: Agent) -> None:
    """Addressed by its id: while it is the latest, and once the thread has moved on."""
    twins = make_twins(make_saver, agent)
    await twins.invoke(GO)
    at = await twins.length() - 1
    for answer in ("1", "2", "3"):
        await twins.invoke(Command(resume=answer), at=at)
    await twins.invoke(Command(resume="other"), at=at)
    assert await twins.length() > at + 1


async def test_history_can_be_read_from_any_point_and_by_what_is_known_of_it(make_saver: Savers) -> None:
    """With `before`, `limit` and a filter on metadata."""
    twins = make_twins(make_saver, plain_recorder)
    for _ in range(3):
        await twins.invoke(GO)
    states = await twins.ours.history()
    for newer, older in pairwise(states):
        assert await twins.ours.history(before=newer.config, limit=1) == [older]
    assert await twins.ours.history(limit=4) == states[:4]
    inputs = [state for state in states if (state.metadata or {}).get("source") == "input"]
    assert await twins.ours.history(filter={"source": "input"}) == inputs
    assert len(inputs) == 3
