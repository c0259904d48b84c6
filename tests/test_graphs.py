"""Agents give the same states, histories and stored checkpoints on our savers as on `InMemorySaver`, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt, Overwrite, Send

from tests import agents, delta_agents, servers
from tests.drivers import DURABILITIES, Thread, Twins, all_answered, make_twins, on_one_server, raw_saver

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

    from tests.agents import Agent
    from tests.conftest import Savers
    from tests.drivers import Given

pytestmark = pytest.mark.newest

GO = {"log": ["go"]}
RUNS: dict[str, tuple[Agent, list[Given]]] = {
    "approvals": (agents.approvals, [GO, *(Command(resume=answer) for answer in "123"), GO, GO]),
    "loop": (agents.loop, [GO, Command(resume="a"), GO, Command(resume="b"), Command(resume="c", update={"log": ["by hand"]})]),
    "parallel approvals": (agents.parallel_approvals, [GO, all_answered(), GO, all_answered("no")]),
    "fan out": (agents.fan_out(5, 1, 3), [GO, all_answered(), GO]),
    "chat": (agents.chat, [{"messages": HumanMessage(text, id=text)} for text in ("hello", "again", "bye")]),
    "traveller": (agents.traveller, [{"log": ["a"]}, Command(resume="sea"), {"log": ["b"]}, Command(resume="hills")]),
    "router": (agents.router, [GO, Command(resume="now"), GO, Command(goto="last")]),
    "flasher": (agents.flasher, [GO, GO]),
    "treasurer": (agents.treasurer, [GO, Command(resume=b"\x03"), Command(resume=b"\x04"), GO]),
    "nested": (agents.nested, [GO, Command(resume="yes"), GO, GO, Command(resume="no")]),
    "rememberer": (agents.rememberer, [{"question": "ask 1"}, Command(resume="yes"), {"question": "2"}, {"question": "ask 3"}]),
}


@pytest.mark.parametrize(
    ("backend", "durability", "name"),
    [
        *((servers.REAL[0], durability, name) for durability in DURABILITIES for name in RUNS),
        *((server, "async", name) for server in servers.ALL[1:] for name in ("parallel approvals", "treasurer", "nested")),
    ],
    indirect=["backend"],
)
async def test_an_agent_goes_on_in_another_process_as_in_memory(make_saver: Savers, name: str, durability: str) -> None:
    """Each step is run by another saver on the same server."""
    agent, steps = RUNS[name]
    twins = make_twins(make_saver, agent)
    for given in steps:
        twins.restart(raw_saver(make_saver))
        await twins.invoke(given, durability=durability)
    assert twins.runs.total() >= len(steps)


@on_one_server
@pytest.mark.parametrize("name", ["approvals", "chat", "flasher", "nested", "rememberer"])
async def test_an_agent_streams_the_same(make_saver: Savers, name: str) -> None:
    """Values, updates and tasks, those of subgraphs too."""
    agent, steps = RUNS[name]
    twins = make_twins(make_saver, agent)
    for given in steps:
        parts = await twins.stream(given, stream_mode=["values", "updates", "tasks"], subgraphs=True)
        assert len(parts) > 0


async def test_messages_stay_messages_from_turn_to_turn(make_saver: Savers) -> None:
    """V1: in both savers, and the second turn works."""
    twins = make_twins(make_saver, agents.chat)
    for text in ("hello", "bye"):
        await twins.invoke({"messages": HumanMessage(text, id=text)})
    messages = (await twins.values())["messages"]
    assert [type(message) for message in messages] == [HumanMessage, AIMessage, HumanMessage, AIMessage]
    assert [message.text for message in messages] == [
        "hello",
        "1 messages, the last: hello",
        "bye",
        "3 messages, the last: bye",
    ]
    for state in await twins.ours.history():
        assert all(isinstance(message, (HumanMessage, AIMessage)) for message in state.values.get("messages", []))


async def test_models_and_dataclasses_come_back_as_themselves(make_saver: Savers) -> None:
    """In the state, in an interrupt, and after a resume."""
    twins = make_twins(make_saver, agents.traveller)
    asked = await twins.invoke({"log": []})
    assert [one.value for one in asked["__interrupt__"]] == [agents.Place(name="home")]
    await twins.invoke(Command(resume="sea"))
    assert await twins.values() == {
        "place": agents.Place(name="sea", visits=2),
        "route": agents.Route(["home", "sea"], agents.Place(name="home")),
        "log": ["home to sea"],
    }


async def test_objects_of_langgraph_come_back_as_themselves(make_saver: Savers) -> None:
    """W6: in the state, in pending writes, in a `Send` that waits, with the bytes in them."""
    twins = make_twins(make_saver, agents.treasurer)
    await twins.invoke(GO)
    twins.restart(raw_saver(make_saver))
    kept = (await twins.values())["kept"]
    assert kept == list(agents.PRECIOUS)
    assert [type(one) for one in kept] == [Send, Command, Interrupt, Overwrite]
    pending = {channel: value for _, channel, value in (await twins.ours.head()).pending_writes or ()}
    assert pending["log"] == Overwrite(["replaced"])
    assert pending["__interrupt__"][0].value == agents.PRECIOUS[2]
    await twins.invoke(Command(resume=b"\x03"))
    twins.restart(raw_saver(make_saver))
    assert (await twins.ours.head()).checkpoint["channel_values"]["__pregel_tasks"] == [agents.PRECIOUS[0]]
    await twins.invoke(Command(resume=b"\x04"))
    assert (await twins.values())["log"] == ["replaced", {"raw": b"\x00\xff", "path": ["a", 1]}, b"\x04"]


async def test_a_value_of_one_step_is_gone_in_the_next(make_saver: Savers) -> None:
    """V4: and it is there again where the step is looked up."""
    twins = make_twins(make_saver, agents.flasher)
    await twins.invoke(GO)
    flash = "bright enough to be stored by itself, and not in a listing"
    assert await twins.values() == {"log": ["go", "light", flash, "dark"]}
    assert ["flash" in state.values for state in await twins.ours.history()] == [False, False, True, False, False]


class CountingSaver(InMemorySaver):
    """Counts channel versions in integers, as savers do by default."""

    get_next_version: Any = BaseCheckpointSaver.get_next_version


async def move_in(thread: Thread, origin: InMemorySaver, stored: list[CheckpointTuple]) -> None:
    """Put what another saver has stored into a thread, oldest first, as it was put there."""
    for found in reversed(stored):
        place = found.config["configurable"]
        above = (found.parent_config or {"configurable": {}})["configurable"]
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": place["checkpoint_ns"], **above}}
        saved = await thread.methods.aput(config, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
        kept = origin.writes["t", place["checkpoint_ns"], place["checkpoint_id"]].values()
        for task_id, path in {(task_id, path) for task_id, _, _, path in kept}:
            writes = [(channel, value) for of_task, channel, value in found.pending_writes or () if of_task == task_id]
            await thread.methods.aput_writes(saved, writes, task_id, path)


async def moved_in(make_saver: Savers, origin: InMemorySaver, agent: Agent) -> Twins:
    """Twins whose thread began in another saver; ours was put, as it was, into our saver."""
    reference = Thread(agent, origin, make_saver.kind)
    await reference.invoke(GO)
    twins = Twins(Thread(agent, raw_saver(make_saver), make_saver.kind, runs=[*reference.runs]), reference)
    await move_in(twins.ours, origin, await reference.stored())
    await twins.check()
    return twins


async def types_of_versions(thread: Thread) -> set[type]:
    """The types of all stored channel versions."""
    return {type(version) for found in await thread.stored() for version in found.checkpoint["channel_versions"].values()}


each_origin = pytest.mark.parametrize(
    ("origin", "type_"), [(InMemorySaver, str), (CountingSaver, int)], ids=["text", "integers"]
)


@on_one_server
@each_origin
@pytest.mark.parametrize(
    ("agent", "answer", "again"),
    [
        (agents.approvals, Command(resume="1"), Command(resume="2")),
        (agents.parallel_approvals, all_answered(), GO),
        (delta_agents.recorder(1000), GO, GO),
    ],
    ids=["approvals", "parallel approvals", "recorder"],
)
async def test_a_thread_that_began_elsewhere_keeps_its_type_of_version(
    make_saver: Savers, origin: type[InMemorySaver], type_: type, agent: Agent, answer: Given, again: Given
) -> None:
    """Text as `InMemorySaver` and those of SQL databases make them, or integers."""
    twins = await moved_in(make_saver, origin(), agent)
    await twins.invoke(answer)
    await twins.invoke(again)
    assert await types_of_versions(twins.ours) == {type_}


@on_one_server
@each_origin
async def test_a_thread_that_began_elsewhere_can_be_run_again_from_its_beginning(
    make_saver: Savers, origin: type[InMemorySaver], type_: type
) -> None:
    """Where LangGraph asks for the first version of a delta channel that was not written yet."""
    twins = await moved_in(make_saver, origin(), delta_agents.recorder(1000))
    await twins.invoke(None, at=0)
    await twins.invoke(GO)
    assert await types_of_versions(twins.ours) == {type_}
