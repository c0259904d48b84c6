"""Agents with delta channels, whose values are rebuilt from the writes of ancestors: nothing may ever be missing from them."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, closing
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Overwrite

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from tests import delta_agents, servers
from tests.drivers import (
    DURABILITIES,
    Thread,
    all_answered,
    everywhere_and_in_each_durability,
    make_twins,
    on_one_server,
    raw_saver,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from tests.agents import Agent
    from tests.conftest import Savers
    from tests.drivers import Given
    from tests.servers import Backend

pytestmark = pytest.mark.newest

GO = {"log": ["go"]}
RUNS: dict[str, tuple[Any, list[Given]]] = {
    "recorder": (delta_agents.recorder, [GO, {"log": ["a", "b"]}, {"log": []}, {"log": Overwrite(["new"])}, GO]),
    "forgetter": (delta_agents.forgetter, [GO, GO, {"log": ["again"]}]),
    "approvals": (delta_agents.delta_approvals, [GO, Command(resume="a"), Command(resume="b"), GO, GO, Command(resume="c")]),
    "nested": (delta_agents.delta_nested, [GO, all_answered(), GO, all_answered(), {"log": ["a", "b"]}]),
}
FREQUENCIES = (1, 3, 1000)


@pytest.mark.parametrize(
    ("backend", "name", "frequency", "durability"),
    [
        *((servers.REAL[0], *each) for each in product(RUNS, FREQUENCIES, DURABILITIES)),
        *((server, "nested", frequency, "async") for server in servers.ALL[1:] for frequency in (3, 1000)),
    ],
    indirect=["backend"],
)
async def test_nothing_is_missing_in_another_process(make_saver: Savers, name: str, frequency: int, durability: str) -> None:
    """Turn by turn, with interrupts, overwritten values and subgraphs."""
    agent, steps = RUNS[name]
    twins = make_twins(make_saver, agent(frequency))
    for given in steps:
        twins.restart(raw_saver(make_saver))
        await twins.invoke(given, durability=durability)
    assert twins.runs.total() >= len(steps)


@on_one_server
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_the_way_in_which_checkpoints_are_saved_may_change_from_turn_to_turn(make_saver: Savers, durability: str) -> None:
    """Between two turns with another durability."""
    twins = make_twins(make_saver, delta_agents.delta_approvals(1000))
    for each in (durability, "exit", durability, "async", durability):
        twins.restart(raw_saver(make_saver))
        await twins.invoke(GO, durability=each)
        await twins.invoke(all_answered(), durability=durability)
        await twins.invoke(all_answered(), durability=each)
    log = (await twins.values())["log"]
    assert log == ["go", "ask: yes to first?", "steady", "check: yes to second?"] * 5


@on_one_server
@pytest.mark.parametrize("frequency", FREQUENCIES)
async def test_a_change_by_hand_of_a_fork_is_seen_in_that_fork_only(make_saver: Savers, frequency: int) -> None:
    """Also one that overwrites, and one in the subgraph."""
    twins = make_twins(make_saver, delta_agents.delta_nested(frequency))
    await twins.invoke(GO)
    await twins.update({"notes": ["by hand"]}, at=lambda state: state.tasks[0].state.config)
    await twins.invoke(all_answered())
    await twins.update({"log": ["fork"]}, at=2, as_node="hear")
    await twins.update({"log": Overwrite(["fork", "anew"])}, at=3, as_node="hear")
    twins.restart(raw_saver(make_saver))
    await twins.invoke(None)
    await twins.invoke(all_answered())
    assert (await twins.values())["log"][:2] == ["fork", "anew"]
    await twins.update({"log": ["late"]}, at=1, as_node="__start__")
    await twins.invoke(None)
    assert (await twins.values())["log"][:3] == ["go", "late", "hear"]


async def test_snapshots_come_back_as_snapshots(make_saver: Savers) -> None:
    """V5: by `get_tuple` and by `list`."""
    thread = Thread(delta_agents.recorder(3), raw_saver(make_saver), make_saver.kind)
    for _ in range(3):
        await thread.invoke(GO)
    stored = await thread.stored()
    shown = [one.checkpoint["channel_values"]["log"] for one in stored if "log" in one.checkpoint["channel_values"]]
    assert {type(one) for one in shown} == {_DeltaSnapshot}
    assert shown[0] == _DeltaSnapshot(["go", "hear", "answer"] * 3)
    for one in stored:
        assert await thread.methods.aget_tuple(one.config) == one


@everywhere_and_in_each_durability
async def test_a_thread_that_moves_to_a_delta_channel_keeps_its_first_write(make_saver: Savers, durability: str) -> None:
    """V6: the agent's plain channel becomes a delta channel, and later plain again."""
    twins = make_twins(make_saver, delta_agents.plain_recorder)
    await twins.invoke(GO, durability=durability)
    log = ["go", "hear", "answer"]
    for number, agent in enumerate((delta_agents.recorder(1000), delta_agents.recorder(3), delta_agents.plain_recorder)):
        twins.restart(raw_saver(make_saver), agent)
        assert await twins.values() == {"log": log}
        for turn in range(2):
            log += [f"turn {number} {turn}", "hear", "answer"]
            await twins.invoke({"log": [f"turn {number} {turn}"]}, durability=durability)
            assert await twins.values() == {"log": log}


@pytest.mark.parametrize("durability", DURABILITIES)
@on_one_server
async def test_a_number_that_moves_to_a_delta_channel_is_seen_until_it_changes(make_saver: Savers, durability: str) -> None:
    """V6: a small value, which is not kept by itself."""
    twins = make_twins(make_saver, delta_agents.plain_counter)
    await twins.invoke(GO, durability=durability)
    await twins.invoke(GO, durability=durability)
    twins.restart(raw_saver(make_saver), delta_agents.counter)
    await twins.invoke(GO, durability=durability, interrupt_before=["count"])
    assert (await twins.ours.head()).checkpoint["channel_values"]["count"] == 2
    await twins.invoke(None, durability=durability)
    assert "count" not in (await twins.ours.head()).checkpoint["channel_values"]
    await twins.invoke(GO, durability=durability)
    assert (await twins.values())["count"] == 4


@on_one_server
@pytest.mark.parametrize("durability", DURABILITIES)
async def test_an_idle_delta_channel_shows_the_snapshot_it_was_given(
    make_saver: Savers, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V11: its value is kept by version, so later heads have it at once and count from there."""
    monkeypatch.setattr("langgraph.pregel._checkpoint.DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT", 15)
    twins = make_twins(make_saver, delta_agents.idle_and_busy(6))
    await twins.invoke({"idle": ["once"], "busy": []}, durability=durability)
    for _ in range(2):
        twins.restart(raw_saver(make_saver))
        await twins.invoke({"busy": []}, durability=durability)
    head = await twins.ours.head()
    assert head.checkpoint["channel_values"]["idle"] == _DeltaSnapshot(["once"])
    updates, supersteps = head.metadata["counters_since_delta_snapshot"].get("idle", (0, 0))
    assert updates == 0
    assert supersteps < 15
    assert await twins.values() == {"idle": ["once"], "busy": [f"step{number}" for number in range(6)] * 3}
    history = await twins.ours.methods.aget_delta_channel_history(config=head.config, channels=["idle"])
    assert history == await twins.reference.methods.aget_delta_channel_history(
        config=(await twins.reference.head()).config, channels=["idle"]
    )


class SlowRedis(redis.Redis):
    """A server at the other end of a slow line."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Whatever it is, 20 ms later."""
        time.sleep(0.02)
        return super().execute_command(*args, **options)


class SlowAsyncRedis(redis.asyncio.Redis):
    """The same for async code."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Whatever it is, 20 ms later."""
        await asyncio.sleep(0.02)
        return await super().execute_command(*args, **options)


def slow_saver(make_saver: Savers, stack: AsyncExitStack) -> BaseCheckpointSaver[Any]:
    """A saver on a slow line."""
    options = make_saver.backend.client_options
    if make_saver.kind == "sync":
        return RedisSaver(stack.enter_context(closing(SlowRedis(**options))), prefix=make_saver.prefix)
    client = SlowAsyncRedis(**options)
    stack.push_async_callback(client.aclose)
    return AsyncRedisSaver(client, prefix=make_saver.prefix)


@on_one_server
async def test_every_message_of_20_turns_is_there_though_the_saver_is_slow(make_saver: Savers) -> None:
    """W10: writes arrive before the checkpoints they belong to."""
    agent = delta_agents.recorder(1000, "hear", "think", "answer")
    turns = [[f"turn {number}", "hear", "think", "answer"] for number in range(20)]
    async with AsyncExitStack() as stack:
        thread = Thread(agent, slow_saver(make_saver, stack), make_saver.kind)
        for turn in turns:
            await thread.invoke({"log": turn[:1]})
    log = (await thread.on(raw_saver(make_saver)).state()).values["log"]
    assert log == [message for turn in turns for message in turn]
    assert len(log) == 80


def expiring(agent: Agent, make_saver: Savers, thread_id: str) -> Thread:
    """A thread that lives for three seconds."""
    return Thread(agent, raw_saver(make_saver, ttl=timedelta(seconds=3)), make_saver.kind, thread_id=thread_id)


@on_one_server
async def test_a_thread_in_use_keeps_all_its_ancestors_alive(make_saver: Savers, backend: Backend) -> None:
    """E4: three turns, 1.4 s apart, with a TTL of 3 s: six items, always. Time itself is what is tested here."""
    assert not backend.fake
    threads = [
        (expiring(delta_agents.recorder(frequency, "answer"), make_saver, f"{frequency} {durability}"), durability)
        for frequency in FREQUENCIES
        for durability in DURABILITIES
    ]
    for turn in range(3):
        if turn:
            await asyncio.sleep(1.4)
        for thread, durability in threads:
            await thread.invoke({"log": [f"turn {turn}"]}, durability=durability)
    await asyncio.sleep(1.4)
    for thread, _ in threads:
        assert (await thread.state()).values["log"] == ["turn 0", "answer", "turn 1", "answer", "turn 2", "answer"]
