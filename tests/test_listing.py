"""Listing checkpoints (cases L0 to L6)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph.checkpoint.fastredis import RedisSaver, reading
from langgraph.checkpoint.fastredis.call import Call
from tests.build import Chain, config_of, id_of, listed

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from tests.conftest import Savers
    from tests.servers import Backend

NAMESPACES = ("", "child:1", "a|b:2")


async def fill(saver: Any) -> list[RunnableConfig]:
    """Two threads with three namespaces of four checkpoints, their ids interleaved; writes on each; ids are fixed."""
    saved = []
    for thread_id in ("t", "u"):
        chains = [Chain(saver, thread_id, ns) for ns in NAMESPACES]
        for step, chain in itertools.product(range(4), chains):
            checkpoint_id = f"{step}-{NAMESPACES.index(chain.ns)}-{thread_id}"
            extra = {"tag": "even"} if step % 2 == 0 else {"nested": {"a": [1]}}
            saved.append(await chain.put({"a": [step] * 20}, checkpoint_id=checkpoint_id, thread=thread_id, **extra))
            await chain.write(("a", step), ("b", None))
    return saved


def newest_first(found: list[Any]) -> list[Any]:
    """In our order: by id, whatever the namespace."""
    return sorted(found, key=lambda one: id_of(one.config), reverse=True)


def steps(found: list[Any]) -> list[int]:
    """The steps of the listed checkpoints."""
    return [one.metadata["step"] for one in found]


CONFIGS = [
    None,
    {"configurable": {"thread_id": "t"}},
    *(config_of("t", ns) for ns in NAMESPACES),
    {"configurable": {"thread_id": "t", "checkpoint_id": "2-1-t"}},
    config_of("t", "child:1", "2-1-t"),
    config_of("t", "", "2-1-t"),
    config_of("nobody"),
]
FILTERS = [None, {}, {"tag": "even"}, {"nested": {"a": [1]}}, {"tag": None}, {"step": 1, "thread": "t"}, {"unknown": 1}]
BEFORES: list[Any] = [None, "2-1-t", "1", "9", {"configurable": {}}]


@pytest.mark.parametrize("page", [1, 3, 100])
async def test_every_combination_lists_what_the_reference_lists(saver: Any, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    """L1, L2, L4, L5: whatever the size of a page; each tuple is what `get_tuple` returns for its id."""
    monkeypatch.setattr(reading, "PAGE", page)
    monkeypatch.setattr(reading, "METADATA_PAGE", page)
    twin = InMemorySaver()
    twin.get_next_version = saver.get_next_version  # type: ignore[method-assign]
    reference = Chain(saver).saver, twin
    await fill(reference[0])
    await fill(twin)
    for config, filter_, before in itertools.product(CONFIGS, FILTERS, BEFORES):
        bound = config_of("elsewhere", "other", before) if isinstance(before, str) else before
        options = {"filter": filter_, "before": bound}
        found, expected = await listed(saver, config, **options), await listed(twin, config, **options)
        if config is None:
            found = newest_first(found)
        assert [one.config for one in found] == [one.config for one in newest_first(expected)], (config, options)
        assert [one.metadata for one in found] == [one.metadata for one in newest_first(expected)]
        if page == 100 and filter_ is None:
            assert found == [await saver.aget_tuple(one.config) for one in found]


@pytest.mark.parametrize("limit", [0, 1, 5, 100])
async def test_limit_is_exact(saver: Any, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """L3: `limit=0` lists nothing; over several namespaces the newest win; over several threads it counts too."""
    monkeypatch.setattr(reading, "PAGE", 2)
    await fill(saver)
    whole = await listed(saver, {"configurable": {"thread_id": "t"}})
    assert await listed(saver, {"configurable": {"thread_id": "t"}}, limit=limit) == whole[:limit]
    even = [one for one in whole if one.metadata.get("tag") == "even"]
    assert await listed(saver, {"configurable": {"thread_id": "t"}}, filter={"tag": "even"}, limit=limit) == even[:limit]
    assert len(await listed(saver, None, limit=limit)) == min(limit, 24)
    assert len(await listed(saver, None, filter={"tag": "even"}, limit=limit)) == min(limit, 12)


async def test_messages_come_back_as_messages_everywhere(make_saver: Savers) -> None:
    """L0, V1: sync and async, by id, in lists, in writes."""
    messages = [HumanMessage("hello", id="1"), AIMessage("hi", id="2")]
    chain = Chain(make_saver())
    await chain.put({"messages": messages})
    await chain.write(("messages", messages))
    for saver in (make_saver.sync(), make_saver.asynchronous()):
        for found in [await saver.aget_tuple(chain.config), *await listed(saver, config_of(chain.thread_id))]:
            assert found is not None
            assert found.checkpoint["channel_values"]["messages"] == messages
            assert found.pending_writes == [("task", "messages", messages)]


class CountingSaver(RedisSaver):
    """A saver that counts its round trips."""

    trips = 0

    def _send(self, request: Any) -> Any:
        self.trips += isinstance(request, Call)
        return super()._send(request)


async def test_history_has_no_cap_and_comes_in_pages(real_backend: Backend, prefix: str) -> None:
    """L6: 12,000 checkpoints; `limit=1` is one round trip, however long the thread."""
    with real_backend.client() as client:
        saver = CountingSaver(client, prefix=prefix)
        for at in range(12_000):
            saver.put(config_of("t"), Chain(saver).checkpoint(f"{at:05}"), {"step": at}, {})
        saver.trips = 0
        assert steps(list(saver.list(config_of("t"), limit=1))) == [11_999]
        assert saver.trips == 1
        assert steps(list(saver.list({"configurable": {"thread_id": "t"}}, limit=1))) == [11_999]
        assert saver.trips == 2
        assert steps(list(saver.list(config_of("t", "", "06000")))) == [6_000]
        assert saver.trips == 3
        assert steps(list(saver.list(config_of("t"), filter={"step": 11_990}, limit=1))) == [11_990]
        assert saver.trips == 5
        saver.trips = 0
        assert steps(list(saver.list(config_of("t")))) == list(range(11_999, -1, -1))
        assert saver.trips <= 12_000 / reading.PAGE + 1
        first = next(saver.list(config_of("t")))
        assert first.metadata["step"] == 11_999
        saver.delete_thread("t")


async def test_a_page_ends_where_it_grows_too_large(real_backend: Backend, prefix: str) -> None:
    """A megabyte, with the checkpoint that takes it past that; values that several share are sent once."""
    with real_backend.client() as client:
        saver = CountingSaver(client, prefix=prefix)
        large, shared = Chain(_awaiting(saver), "large"), Chain(_awaiting(saver), "shared")
        for _ in range(9):
            await large.put({"a": b"x" * 400_000})
        await shared.put({"a": b"x" * 400_000})
        for at in range(9):
            await shared.put({"b": [at] * 20})
        saver.trips = 0
        assert len(list(saver.list(config_of("large")))) == 9
        assert saver.trips in (3, 4)
        saver.trips = 0
        assert len(list(saver.list(config_of("shared")))) == 10
        assert saver.trips == 1
        saver.delete_thread("large")
        saver.delete_thread("shared")


def _awaiting(saver: RedisSaver) -> Any:
    from tests.shapes import AsyncShape  # noqa: PLC0415

    return AsyncShape(saver)
