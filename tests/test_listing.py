"""Listing checkpoints (cases L0 to L6)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph.checkpoint.fastredis import RedisSaver, reading
from tests.build import Chain, config_of, id_of, listed
from tests.recording import MeasuringSaver

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
    monkeypatch.setattr(reading, "NAMES_PAGE", page)
    monkeypatch.setattr(reading, "NAMESPACES_PAGE", page)
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


async def test_history_has_no_cap_and_comes_in_pages(real_backend: Backend, prefix: str) -> None:
    """L6: 12,000 checkpoints; `limit=1` is one round trip, however long the thread."""
    with real_backend.client() as client:
        plain, saver = RedisSaver(client, prefix=prefix), MeasuringSaver(client, prefix=prefix)
        for at in range(12_000):
            plain.put(config_of("t"), Chain(plain).checkpoint(f"{at:05}"), {"step": at}, {})
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
        saver = MeasuringSaver(client, prefix=prefix)
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


async def test_a_thread_of_many_namespaces_is_listed_in_short_pages(real_backend: Backend, prefix: str) -> None:
    """As a subgraph run by `Send` makes them: a page does not look into each of them; a few are listed as one is."""
    with real_backend.client() as client:
        plain, saver = RedisSaver(client, prefix=prefix), MeasuringSaver(client, prefix=prefix)
        for task, step in itertools.product(range(400), range(2)):
            config = config_of("many" if task >= 50 else "few", f"sub:{task}")
            metadata: Any = {"step": step, "even": task % 2 == 0}
            plain.put(config, Chain(plain).checkpoint(f"{step}-{task:03}"), metadata, {})
        whole: RunnableConfig = {"configurable": {"thread_id": "many"}}
        few: RunnableConfig = {"configurable": {"thread_id": "few"}}
        one_id: RunnableConfig = {"configurable": {"thread_id": "many", "checkpoint_id": "1-200"}}
        expected = sorted((f"{step}-{task:03}" for task in range(50, 400) for step in range(2)), reverse=True)
        saver.trips = 0
        assert [id_of(one.config) for one in saver.list(whole)] == expected
        assert saver.trips == 1 + 1 + len(expected) / reading.PAGE
        assert [id_of(one.config) for one in saver.list(whole, filter={"even": True})] == expected[1::2]
        assert [id_of(one.config) for one in saver.list(one_id)] == ["1-200"]
        assert saver.most_commands <= 3 * reading.METADATA_PAGE
        saver.trips = 0
        assert [id_of(one.config) for one in saver.list(whole, limit=3)] == expected[:3]
        assert saver.trips == 3
        assert len(list(saver.list(few))) == 100
        assert saver.trips == 5
        saver.delete_thread("many")
        saver.delete_thread("few")


@pytest.mark.parametrize("filter_", [None, {"thread": "t"}])
@pytest.mark.parametrize("most", [1, 100])
async def test_a_thread_may_change_while_it_is_listed(
    saver: Any, monkeypatch: pytest.MonkeyPatch, most: int, filter_: dict[str, Any] | None
) -> None:
    """What is saved meanwhile is not listed, nor what is deleted; nothing else is missing, whatever the way to list."""
    monkeypatch.setattr(reading, "NAMESPACES_PAGE", most)
    monkeypatch.setattr(reading, "PAGE", 2)
    monkeypatch.setattr(reading, "METADATA_PAGE", 2)
    await fill(saver)
    before = await listed(saver, {"configurable": {"thread_id": "t"}})
    await Chain(saver, "t", "old").put({"a": [0] * 20}, checkpoint_id="1-9", thread="t", run_id="old")
    listing = saver.alist({"configurable": {"thread_id": "t"}}, filter=filter_)
    found = [await anext(listing)]
    await Chain(saver, "t", "new").put({"a": [9] * 20}, checkpoint_id="9", thread="t")
    await saver.adelete_for_runs(["old"])
    found += [one async for one in listing]
    assert found == before


@pytest.mark.parametrize("filter_", [None, {"thread": "t"}])
@pytest.mark.parametrize("most", [1, 100])
async def test_a_list_ends_where_its_thread_does(
    saver: Any, monkeypatch: pytest.MonkeyPatch, most: int, filter_: dict[str, Any] | None
) -> None:
    """Deleted or expired, it has nothing more to list, as if the list were begun then; what was listed was whole."""
    monkeypatch.setattr(reading, "NAMESPACES_PAGE", most)
    monkeypatch.setattr(reading, "PAGE", 2)
    monkeypatch.setattr(reading, "METADATA_PAGE", 2)
    await fill(saver)
    before = await listed(saver, {"configurable": {"thread_id": "t"}})
    listing = saver.alist({"configurable": {"thread_id": "t"}}, filter=filter_)
    found = [await anext(listing)]
    await saver.adelete_thread("t")
    found += [one async for one in listing]
    assert found == before[:2]


async def test_checkpoints_with_many_writes_come_in_short_pages(real_backend: Backend, prefix: str) -> None:
    """A field counts for more than its bytes: to handle it takes longer than to copy a few."""
    with real_backend.client() as client:
        saver = MeasuringSaver(client, prefix=prefix)
        for step in range(8):
            config = saver.put(config_of("t"), Chain(saver).checkpoint(f"{step}"), {"step": step}, {})
            for task in range(4):
                saver.put_writes(config, [("a", 1)] * 300, f"task-{task}")
        saver.trips = 0
        assert [len(one.pending_writes or ()) for one in saver.list(config_of("t"))] == [1200] * 8
        assert saver.trips in (3, 4)
        saver.delete_thread("t")


def _awaiting(saver: RedisSaver) -> Any:
    from tests.shapes import AsyncShape  # noqa: PLC0415

    return AsyncShape(saver)
