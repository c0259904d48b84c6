"""Agents whose threads are pruned, copied or rid of old runs go on as if nothing had happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from langgraph.types import Command

from tests import agents, delta_agents, servers
from tests.conftest import keys_under
from tests.drivers import (
    DURABILITIES,
    Thread,
    Twins,
    all_answered,
    everywhere_and_in_each_durability,
    make_twins,
    on_one_server,
    raw_saver,
)

if TYPE_CHECKING:
    import redis

    from tests.agents import Agent
    from tests.conftest import Savers

pytestmark = pytest.mark.newest

GO = {"log": ["go"]}
FREQUENCIES = (1, 3, 1000)
DELTA_AGENTS = {
    "recorder": delta_agents.recorder,
    "forgetter": delta_agents.forgetter,
    "approvals": delta_agents.delta_approvals,
    "nested": delta_agents.delta_nested,
}


async def prune(twins: Twins, saver: Any) -> None:
    """Prune our thread, in another process: what it is now stays as it was."""
    before = await twins.ours.seen_now()
    twins.compares_past = False
    twins.restart(saver)
    await twins.ours.methods.aprune([twins.ours.thread_id])
    assert await twins.ours.seen_now() == before
    await twins.check()


@everywhere_and_in_each_durability
async def test_pruned_between_questions_no_tool_runs_twice(make_saver: Savers, durability: str) -> None:
    """D6: parallel tools are done, others still ask; and again in the next turn."""
    twins = make_twins(make_saver, agents.parallel_approvals)
    for turn in (1, 2):
        await twins.invoke(GO, durability=durability)
        await prune(twins, raw_saver(make_saver))
        await twins.invoke(lambda state: Command(resume={state.interrupts[0].id: "L"}), durability=durability)
        await prune(twins, raw_saver(make_saver))
        await twins.invoke(Command(resume="R"), durability=durability)
        assert twins.runs == {"left": 2 * turn, "right": 3 * turn, "steady": turn, "join": turn}
    assert await twins.values() == {"log": ["go", "left: L", "right: R", "steady", "join"] * 2}


async def test_pruned_in_the_middle_of_nested_subgraphs_no_node_runs_twice(make_saver: Savers) -> None:
    """D6: nodes of all levels have run; the innermost asks."""
    twins = make_twins(make_saver, agents.nested)
    await twins.invoke(GO)
    await prune(twins, raw_saver(make_saver))
    await twins.invoke(Command(resume="yes"))
    assert twins.runs == {**dict.fromkeys(twins.runs, 1), "inner_ask": 2}
    await prune(twins, raw_saver(make_saver))
    await twins.invoke(GO)


@everywhere_and_in_each_durability
async def test_pruned_in_a_chain_of_questions_each_answer_stays_given(make_saver: Savers, durability: str) -> None:
    """D6: asked twice in one node, the first answer given, then pruned."""
    twins = make_twins(make_saver, agents.approvals)
    await twins.invoke(GO, durability=durability)
    for answer in "123":
        await prune(twins, raw_saver(make_saver))
        await twins.invoke(Command(resume=answer), durability=durability)
    assert await twins.values() == {"log": ["go", "plan", "ask: 1", "ask: 2", "act", "check: 3", "done"]}
    assert twins.runs == {"plan": 1, "ask": 3, "act": 1, "check": 2, "done": 1}


@on_one_server
@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("frequency", FREQUENCIES)
@pytest.mark.parametrize("name", DELTA_AGENTS)
async def test_a_pruned_thread_with_delta_channels_goes_on(
    make_saver: Savers, name: str, frequency: int, durability: str
) -> None:
    """D7: pruned after each step, with forks, questions and subgraphs; the twin is never pruned."""
    twins = make_twins(make_saver, DELTA_AGENTS[name](frequency))
    await twins.invoke(GO, durability=durability)
    await twins.invoke(all_answered() if (await twins.state()).interrupts else {"log": ["again"]}, durability=durability)
    await twins.update({"log": ["fork"]}, at=1, as_node=next(iter(twins.ours.graph.builder.nodes)))
    await prune(twins, raw_saver(make_saver))
    await twins.invoke(None, durability=durability)
    await prune(twins, raw_saver(make_saver))
    for turn in range(3):
        while (await twins.state()).interrupts:
            await twins.invoke(all_answered(), durability=durability)
            await prune(twins, raw_saver(make_saver))
        await twins.invoke({"log": [f"turn {turn}"]}, durability=durability)
        await prune(twins, raw_saver(make_saver))
    assert await twins.length() == 1


@on_one_server
@pytest.mark.parametrize("frequency", [3, 1000])
async def test_a_pruned_thread_has_one_checkpoint_in_each_namespace(make_saver: Savers, frequency: int) -> None:
    """D7: what delta channels lean on is kept but no longer listed."""
    twins = make_twins(make_saver, delta_agents.delta_nested(frequency))
    for given in (GO, all_answered(), GO, all_answered()):
        await twins.invoke(given)
    await prune(twins, raw_saver(make_saver))
    stored = await twins.ours.stored()
    assert sorted(one.config["configurable"]["checkpoint_ns"] for one in stored) == ["", "child"]


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("frequency", FREQUENCIES)
@on_one_server
async def test_a_newer_run_is_whole_after_older_ones_are_deleted(make_saver: Savers, frequency: int, durability: str) -> None:
    """D5: it leans on their writes, and on writes that it stored with their checkpoints."""
    twins = make_twins(make_saver, delta_agents.delta_approvals(frequency))
    runs = [str(uuid4()) for _ in range(6)]
    answers = [GO, all_answered(), all_answered()] * 2
    for given, run_id in zip(answers, runs, strict=True):
        await twins.invoke(given, metadata={"run_id": run_id}, durability=durability)
    twins.compares_past = False
    for number in (1, 0, 3):
        twins.restart(raw_saver(make_saver))
        await twins.ours.methods.adelete_for_runs([runs[number]])
        await twins.check()
    left = {(state.metadata or {}).get("run_id") for state in await twins.ours.history()}
    assert left <= {runs[2], runs[4], runs[5]}
    await twins.invoke(GO)
    await twins.invoke(all_answered())
    await twins.invoke(all_answered())


async def test_a_thread_is_as_it_was_before_a_run_that_is_deleted(make_saver: Savers) -> None:
    """D5: the newest run goes; the one before is the latest again, and the agent goes on from there."""
    thread = Thread(delta_agents.recorder(1000), raw_saver(make_saver), make_saver.kind)
    await thread.invoke({"log": ["first"]}, metadata={"run_id": "1"})
    before = await thread.history()
    await thread.invoke({"log": ["second"]}, metadata={"run_id": "2"})
    await thread.methods.adelete_for_runs(["2"])
    assert [state.values for state in await thread.history()] == [state.values for state in before]
    await thread.invoke({"log": ["third"]}, metadata={"run_id": "3"})
    assert (await thread.state()).values["log"] == ["first", "hear", "answer", "third", "hear", "answer"]


COPIED: dict[str, Agent] = {
    "approvals": agents.approvals,
    "fan out": agents.fan_out(5, 2),
    "nested": agents.nested,
    "delta approvals": delta_agents.delta_approvals(1000),
    "delta nested": delta_agents.delta_nested(3),
}


@pytest.mark.parametrize(
    ("backend", "name"),
    [*((servers.REAL[0], name) for name in COPIED), *((server, "delta nested") for server in servers.ALL[1:])],
    indirect=["backend"],
)
async def test_a_copy_goes_on_like_the_original(make_saver: Savers, name: str) -> None:
    """Copied while it asks; the original stays as it is, and may go."""
    twins = make_twins(make_saver, COPIED[name])
    await twins.invoke(GO)
    original = twins.ours
    before = await original.seen()
    await original.methods.acopy_thread("t", "copy")
    twins.ours = original.on(raw_saver(make_saver), thread_id="copy")
    await twins.check()
    await twins.invoke(all_answered())
    assert {**await original.seen(), "runs": None} == {**before, "runs": None}
    await original.methods.adelete_thread("t")
    while (await twins.state()).interrupts:
        await twins.invoke(all_answered())
    await twins.invoke(GO)


async def test_a_copy_of_a_pruned_thread_goes_on_like_the_original(make_saver: Savers) -> None:
    """With what its delta channels lean on."""
    twins = make_twins(make_saver, delta_agents.delta_nested(1000))
    for given in (GO, all_answered(), GO):
        await twins.invoke(given)
    await prune(twins, raw_saver(make_saver))
    await twins.ours.methods.acopy_thread("t", "copy")
    await twins.ours.methods.adelete_thread("t")
    twins.ours = twins.ours.on(raw_saver(make_saver), thread_id="copy")
    await twins.invoke(all_answered())
    await prune(twins, raw_saver(make_saver))
    await twins.invoke(GO)


async def test_after_a_whole_run_a_thread_can_be_deleted_without_a_trace(
    make_saver: Savers, client: redis.Redis, prefix: str
) -> None:
    """D1: with questions, subgraphs, `Send` and delta channels; another thread stays as it is."""
    other = Thread(agents.nested, raw_saver(make_saver), make_saver.kind, thread_id="other")
    await other.invoke(GO)
    seen, keys = await other.seen(), keys_under(client, prefix)
    for agent in COPIED.values():
        thread = Thread(agent, raw_saver(make_saver), make_saver.kind)
        await thread.invoke(GO)
        await thread.invoke(all_answered())
        await thread.methods.adelete_thread("t")
        assert keys_under(client, prefix) == keys
    assert await other.seen() == seen
