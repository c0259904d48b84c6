"""Pending writes (cases W1 to W7)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt, Overwrite, Send

from tests.build import Chain, config_of

if TYPE_CHECKING:
    from tests.conftest import Savers

VALUES: tuple[Any, ...] = (None, "", b"", 0, False, [], {}, "x" * 100)


async def twin_of(chain: Chain) -> Chain:
    """The chain's first checkpoint again, in memory."""
    twin = Chain(InMemorySaver(), chain.thread_id, chain.ns)
    twin.config = await twin.saver.aput(config_of(chain.thread_id, chain.ns), chain.checkpoint(), {}, chain.versions)
    return twin


async def assert_same_writes(chain: Chain, twin: Chain) -> list[Any]:
    """The pending writes of both, which are equal."""
    found, expected = await chain.latest(), await twin.latest()
    assert found is not None
    assert expected is not None
    assert found.pending_writes == expected.pending_writes
    return found.pending_writes or []


def test_threads_that_write_at_once_lose_nothing(make_saver: Savers) -> None:
    """W1: 150 threads save writes on one checkpoint."""
    saver = make_saver.sync(max_connections=200)
    config = config_of("t", "", "1")
    saver.put(config_of("t"), {**Chain(saver).checkpoint("1")}, {}, {})
    with ThreadPoolExecutor(150) as pool:
        list(pool.map(lambda at: saver.put_writes(config, [("shared", at)], f"task-{at:03}"), range(150)))
    found = saver.get_tuple(config)
    assert found is not None
    assert [write[2] for write in found.pending_writes or ()] == list(range(150))


async def test_tasks_that_write_at_once_lose_nothing(make_saver: Savers) -> None:
    """W1: 150 tasks of one event loop."""
    chain = Chain(make_saver.asynchronous(max_connections=200))
    await chain.put()
    await asyncio.gather(*(chain.write(("shared", at), task=f"task-{at:03}") for at in range(150)))
    found = await chain.latest()
    assert found is not None
    assert [write[2] for write in found.pending_writes or ()] == list(range(150))


@pytest.mark.newest
async def test_a_retried_task_keeps_its_first_values_and_its_last_special_ones(saver: Any) -> None:
    """W2: regular writes keep the first, `__error__`, `__interrupt__`, `__resume__` the last; in one mixed call too."""
    chain = Chain(saver)
    await chain.put()
    twin = await twin_of(chain)
    for attempt in ("first", "second"):
        for at in (chain, twin):
            await at.write(
                ("a", attempt), ("__error__", attempt), ("b", attempt), ("__interrupt__", attempt), ("__resume__", attempt)
            )
            await at.write(("c", attempt), task="mixed")
            await at.write(("d", attempt), ("e", attempt), task="mixed")
    writes = await assert_same_writes(chain, twin)
    values = {(task, channel): value for task, channel, value in writes}
    assert values["task", "a"] == "first"
    assert values["task", "__error__"] == "second"
    assert ("mixed", "d") not in values


@pytest.mark.newest
async def test_writes_come_in_the_order_in_which_they_are_applied(saver: Any) -> None:
    """W3: by task path, then task, then index as a number; never by arrival."""
    chain = Chain(saver)
    await chain.put()
    twin = await twin_of(chain)
    for at in (chain, twin):
        await at.write(*((f"c{n}", n) for n in range(12)), task="b", path="path-2")
        await at.write(*((f"c{n}", n) for n in range(12)), task="a", path="path-2")
        await at.write(("c", 1), task="z", path="path-1")
        await at.write(("c", 1), task="c")
    writes = await assert_same_writes(chain, twin)
    assert [write[0] for write in writes] == ["c", "z", *["a"] * 12, *["b"] * 12]
    assert [write[2] for write in writes[2:14]] == list(range(12))


@pytest.mark.parametrize("writes_first", [False, True])
async def test_writes_may_come_before_their_checkpoint(saver: Any, writes_first: bool) -> None:
    """W4: both orders read the same, and a checkpoint put again keeps its writes."""
    chain = Chain(saver)
    checkpoint = chain.checkpoint("1")
    at = config_of(chain.thread_id, "", "1")
    writes = [("__interrupt__", [Interrupt("why?")]), ("a", 1)]
    if writes_first:
        await saver.aput_writes(at, writes, "task")
        assert await saver.aget_tuple(at) is None
    await saver.aput(config_of(chain.thread_id), checkpoint, {}, {})
    if not writes_first:
        await saver.aput_writes(at, writes, "task")
    found = await saver.aget_tuple(at)
    await saver.aput(config_of(chain.thread_id), checkpoint, {"step": 1}, {})
    again = await saver.aget_tuple(at)
    assert found.pending_writes == again.pending_writes == [("task", "__interrupt__", [Interrupt("why?")]), ("task", "a", 1)]
    assert again.metadata == {"step": 1}


async def test_an_empty_batch_of_writes_does_nothing(saver: Any) -> None:
    """W5: no key, no error."""
    await saver.aput_writes(config_of("t", "", "1"), [], "task")
    assert [thread async for thread in saver.alist_threads()] == []


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_every_value_is_a_value(saver: Any, value: object) -> None:
    """`None` and all that is false included, as writes and as channel values."""
    chain = Chain(saver)
    await chain.put({"c": value})
    await chain.write(("c", value))
    found = await chain.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == {"c": value}
    assert type(found.checkpoint["channel_values"]["c"]) is type(value)
    assert found.pending_writes == [("task", "c", value)]


async def test_what_langgraph_writes_comes_back_as_itself(saver: Any) -> None:
    """W6: also bytes inside a `Send`."""
    values = [
        Send("node", {"bytes": b"\x00\xff"}),
        Command(goto=[Send("node", 1)], update={"a": 1}, resume={"x": 1}),
        Interrupt("question", id="1"),
        Overwrite([1]),
    ]
    chain = Chain(saver)
    await chain.put({"c": values})
    await chain.write(*(("c", value) for value in values))
    found = await chain.latest()
    assert found is not None
    assert found.checkpoint["channel_values"]["c"] == values
    assert [write[2] for write in found.pending_writes or ()] == values


async def test_a_new_checkpoint_leaves_the_writes_of_the_one_before(saver: Any) -> None:
    """W7: its interrupt may still be unanswered."""
    chain = Chain(saver)
    first = await chain.put({"a": [1] * 20})
    await chain.write(("__interrupt__", "why?"))
    await chain.put({"a": [2] * 20})
    found = await saver.aget_tuple(first)
    assert found.pending_writes == [("task", "__interrupt__", "why?")]


async def test_there_is_no_cap_on_writes(make_saver: Savers) -> None:
    """Ten thousand in one call are one atomic step."""
    chain = Chain(make_saver())
    await chain.put()
    await chain.write(*((f"c{n}", n) for n in range(10_000)))
    found = await chain.latest()
    assert found is not None
    assert [write[2] for write in found.pending_writes or ()] == list(range(10_000))


async def test_a_history_has_each_of_many_writes_once(saver: Any) -> None:
    """Hundreds on one ancestor, a few on another; in order."""
    chain = Chain(saver)
    for count in (500, 5, 0):
        await chain.put(cleared=["c"])
        await chain.write(*(("c", n) for n in range(count)), ("other", 0))
    found = await saver.aget_delta_channel_history(config=chain.config, channels=["c"])
    assert [write[2] for write in found["c"]["writes"]] == [*range(500), *range(5)]
