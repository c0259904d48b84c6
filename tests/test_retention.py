"""Deleting, pruning and copying threads (cases D1 to D9)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from langgraph.checkpoint.fastredis import ThreadInfo, retention, survey
from tests.build import Chain, config_of, delta_chain, id_of, listed
from tests.conftest import keys_under

if TYPE_CHECKING:
    import redis
    from langgraph.checkpoint.base import CheckpointTuple

    from tests.conftest import Savers

NAMESPACES = ("", "child:1", "a|b:2", "__empty__")


async def history(saver: Any, config: Any) -> Any:
    """The history of the delta channel of `delta_chain`."""
    return (await saver.aget_delta_channel_history(config=config, channels=["items"]))["items"]


def without_parent(found: CheckpointTuple | None) -> CheckpointTuple:
    """A checkpoint but for its parent."""
    assert found is not None
    return found._replace(parent_config=None)


async def test_delete_thread_leaves_the_server_as_it_was(saver: Any, client: redis.Redis, prefix: str) -> None:
    """D1, D2: all namespaces; also writes whose checkpoint never arrived."""
    await Chain(saver, "other").put({"a": [1] * 20})
    before = {key: client.dump(key) for key in keys_under(client, prefix)}
    for ns in NAMESPACES:
        chain = Chain(saver, "t", ns)
        for step in range(3):
            await chain.put({"a": [step] * 20})
            await chain.write(("a", step))
        await saver.aput_writes(config_of("t", ns, "never-arrived"), [("a", 1)], "task")
    await saver.adelete_thread("t")
    assert {key: client.dump(key) for key in keys_under(client, prefix)} == before


async def test_writes_whose_checkpoint_never_arrived_are_listed_with_the_threads(saver: Any) -> None:
    """D2: so that somebody can find and delete them."""
    await saver.aput_writes(config_of("t", "", "never-arrived"), [("a", 1)], "task")
    assert [thread async for thread in saver.alist_threads()] == [ThreadInfo("t", 1, None)]
    assert await saver.aget_tuple(config_of("t")) is None
    assert await listed(saver, config_of("t")) == []
    await saver.aprune(["t"])
    assert [thread async for thread in saver.alist_threads()] == [ThreadInfo("t", 1, None)]


async def test_prune_removes_writes_that_the_thread_has_left_behind(saver: Any, client: redis.Redis, prefix: str) -> None:
    """D2: but not those of a checkpoint that is still on its way."""
    chain = Chain(saver, "t")
    await saver.aput_writes(config_of("t", "", "0-never-arrived"), [("a", 1)], "task")
    await chain.put({"a": [1] * 20})
    await saver.aput_writes(config_of("t", "", "z-on-its-way"), [("a", 1)], "task")
    await saver.aprune(["t"])
    hashes = [key for key in keys_under(client, prefix) if b":checkpoint:" in key]
    assert [key.rpartition(b":")[2].decode() for key in hashes] == [id_of(chain.config), "z-on-its-way"]


async def test_a_save_into_a_deleted_thread_is_a_new_thread(saver: Any) -> None:
    """D3: it is listed, and can be deleted (that nothing is left is checked after every test)."""
    chain = Chain(saver, "t")
    await chain.put({"a": [1] * 20, "b": [2] * 20})
    await saver.adelete_thread("t")
    await chain.write(("a", 1))
    await chain.put({"a": [3] * 20})
    found = await chain.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": [3] * 20, "b": [2] * 20}
    assert [thread.thread_id async for thread in saver.alist_threads()] == ["t"]


@pytest.mark.parametrize("cut", range(1, 12))
async def test_a_deletion_cut_short_is_finished_by_repeating_it(
    make_saver: Savers, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """D4: after each of its commands; until its end the thread reads as its latest state or not at all."""
    monkeypatch.setattr(retention, "PAGE", 1)
    saver = make_saver()
    chain = await delta_chain(saver, 6, seed_at=2)
    await saver.aprune([chain.thread_id])
    await chain.put({"plain": [6] * 20}, cleared=["items"], counters_since_delta_snapshot={"items": (1, 1)})
    latest = await chain.latest()
    sender = make_saver.sync()
    deletion = retention.delete_thread(sender._context, chain.thread_id)  # noqa: SLF001
    request = next(deletion)
    for _ in range(cut):
        try:
            request = deletion.send(sender._send(request))  # noqa: SLF001
        except StopIteration:
            break
    assert await chain.latest() in (latest, None)
    await saver.adelete_thread(chain.thread_id)
    assert keys_under(client, prefix) == []


async def test_only_the_runs_checkpoints_go_in_all_namespaces_and_threads(saver: Any) -> None:
    """D5: and if the newest went, latest is the next one."""
    chains = [Chain(saver, thread_id, ns) for thread_id in ("t", "u") for ns in ("", "child:1")]
    for chain in chains:
        for run_id in ("old", "kept", "new"):
            await chain.put({"a": [run_id] * 20}, run_id=run_id)
            await chain.write(("a", run_id))
    whole = [await listed(saver, config_of(chain.thread_id, chain.ns)) for chain in chains]
    await saver.adelete_for_runs(["new", "no such run"])
    for chain, before in zip(chains, whole, strict=True):
        assert await listed(saver, config_of(chain.thread_id, chain.ns)) == before[1:]
        assert await chain.latest() == before[1]
    await saver.adelete_for_runs(["old"])
    for chain, before in zip(chains, whole, strict=True):
        assert await chain.latest() == before[1]._replace(parent_config=None)


async def test_deleting_every_run_of_a_thread_leaves_nothing(saver: Any, client: redis.Redis, prefix: str) -> None:
    """D5: values too."""
    chain = Chain(saver, "t")
    for run_id in ("one", "two"):
        await chain.put({"a": [run_id] * 20}, run_id=run_id)
    await saver.adelete_for_runs(["one", "two"])
    assert keys_under(client, prefix) == []


async def test_deleting_an_old_run_keeps_what_a_newer_one_leans_on(saver: Any) -> None:
    """D5: no longer listed, not to be read by id, but walked through."""
    chain = Chain(saver, "t")
    for step, run_id in enumerate(("old", "old", "old", "new")):
        counters = {"items": (step, step)} if step else {}
        changed = {} if step else {"items": ["seed"]}
        await chain.put(changed, cleared=["items"] if step else [], run_id=run_id, counters_since_delta_snapshot=counters)
        chain.values.clear()
        await chain.write(("items", step))
    before = await history(saver, chain.config)
    await saver.adelete_for_runs(["old"])
    assert await history(saver, chain.config) == before
    assert [write[2] for write in before["writes"]] == [0, 1, 2]
    assert len(await listed(saver, config_of("t"))) == 1
    assert await saver.aget_tuple(chain.configs[1]) is None


@pytest.mark.parametrize("seed_at", [0, 3, 7])
async def test_prune_keeps_the_state_and_the_histories_it_needs(saver: Any, seed_at: int) -> None:
    """D7: for seeds near and far."""
    chain = await delta_chain(saver, 8, seed_at=seed_at)
    latest, before = await chain.latest(), await history(saver, chain.config)
    await saver.aprune([chain.thread_id])
    assert len(await listed(saver, config_of(chain.thread_id))) == 1
    found = await chain.latest()
    assert without_parent(found) == without_parent(latest)
    if seed_at < 7:
        assert found == latest
        assert await history(saver, chain.config) == before
    await saver.aprune([chain.thread_id])
    assert await chain.latest() == found


async def test_prune_keeps_exactly_the_values_that_are_named(saver: Any, client: redis.Redis, prefix: str) -> None:
    """D8: none that nothing names, none fewer; forks and namespaces included."""
    chain = Chain(saver, "t")
    await chain.put({"old": [0] * 20, "kept": [1] * 20})
    await chain.put({"old": [2] * 20})
    fork = Chain(saver, "t")
    fork.config, fork.versions, fork.values = chain.configs[0], dict(chain.versions), dict(chain.values)
    await fork.put({"old": [3] * 20})
    await Chain(saver, "t", "child:1").put({"other": [4] * 20})
    await saver.aprune(["t"])
    fields: list[Any] = client.hkeys(f"{prefix}:{{t}}:channels")
    assert sorted(field.rpartition(b"\0")[0] for field in fields) == [b"\0kept", b"\0old", b"child:1\0other"]
    found = await fork.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == {"old": [3] * 20, "kept": [1] * 20}


async def test_pruned_threads_hold_one_checkpoint_per_namespace(saver: Any, client: redis.Redis, prefix: str) -> None:
    """Without delta channels exactly one; its writes stay; there is nothing to lead back to."""
    chains = [Chain(saver, "t", ns) for ns in NAMESPACES]
    for chain in chains:
        for step in range(4):
            await chain.put({"a": [step] * 20})
            await chain.write(("a", step))
    latest = [await chain.latest() for chain in chains]
    await saver.aprune(["t", "no such thread"])
    assert [await chain.latest() for chain in chains] == [without_parent(found) for found in latest]
    assert len([key for key in keys_under(client, prefix) if b":checkpoint:" in key]) == len(NAMESPACES)


async def test_the_same_id_in_two_namespaces_is_two_checkpoints(saver: Any) -> None:
    """D9: pruning one does not take the other's writes."""
    one, two = Chain(saver, "t", "one"), Chain(saver, "t", "two")
    for chain in (one, two):
        await chain.put({"a": [chain.ns] * 20}, checkpoint_id="1")
        await chain.write(("a", chain.ns))
    await one.put({"a": ["newer"] * 20}, checkpoint_id="2")
    before = await two.latest()
    await saver.aprune(["t"])
    assert await two.latest() == before
    assert before is not None
    assert before.pending_writes == [("task", "a", "two")]


@pytest.mark.parametrize("page", [1, 100])
async def test_a_copy_is_the_whole_thread(saver: Any, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    """All namespaces, writes and retained ancestors; the source stays as it is."""
    monkeypatch.setattr(retention, "COPY_PAGE", page)
    chain = await delta_chain(saver, 5, thread_id="source")
    await saver.aprune(["source"])
    chain.config = (await chain.latest()).config  # type: ignore[union-attr]
    await chain.put({"plain": [9] * 20}, cleared=["items"], counters_since_delta_snapshot={"items": (5, 5)})
    await Chain(saver, "source", "child:1").put({"a": [1] * 20})
    await saver.aput_writes(config_of("source", "", "on-its-way"), [("a", 1)], "task")
    await saver.acopy_thread("source", "target")
    await saver.acopy_thread("source", "source")
    await saver.acopy_thread("no such thread", "nothing")

    def elsewhere(found: CheckpointTuple) -> Any:
        parent = found.parent_config and id_of(found.parent_config)
        return found.checkpoint, found.metadata, found.pending_writes, found.config["configurable"]["checkpoint_ns"], parent

    copied, source = await listed(saver, config_of("target", None)), await listed(saver, config_of("source", None))
    assert [elsewhere(found) for found in copied] == [elsewhere(found) for found in source]
    assert len(copied) == 3
    assert await history(saver, config_of("target")) == await history(saver, config_of("source"))
    assert [thread.checkpoints async for thread in saver.alist_threads()] == [4, 4]


async def test_a_long_thread_is_surveyed_and_pruned_in_pages(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the pages, the outcome is the same."""
    for module, name in ((survey, "PAGE"), (survey, "ALL_VALUES_PAGE"), (survey, "VALUES_PAGE"), (retention, "PAGE")):
        monkeypatch.setattr(module, name, 2)
    chain = await delta_chain(saver, 9, seed_at=3)
    latest, before = await chain.latest(), await history(saver, chain.config)
    await saver.aprune([chain.thread_id])
    assert await chain.latest() == latest
    assert await history(saver, chain.config) == before
    assert len(await listed(saver, config_of(chain.thread_id))) == 1


class _Counting(survey.Survey):
    looks = 0

    def get(self, member: bytes | None) -> survey.Surveyed | None:
        self.looks += 1
        return super().get(member)


def test_ancestors_are_looked_at_once_however_many_lean_on_them() -> None:
    """Also where their parents go round in a circle."""
    thread = _Counting()
    ids = [b"%03d" % at for at in range(300)]
    for parent, own in itertools.pairwise((ids[-1], *ids)):
        thread.listed[b"\0" + own] = survey.Surveyed(b"\0" + own, b"\2items\0" + b"1\0", parent, None, b"items\0")
    assert thread.leaned_on(thread.listed) == thread.listed.keys()
    assert thread.looks <= 2 * 300
