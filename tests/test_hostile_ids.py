"""Ids, and moments, that nobody thinks of: each test is a fault that the equivalence tests, or reading for them, brought up."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from langgraph.checkpoint.fastredis import BrokenHistoryError, RedisSaver, reading, retention
from tests.conftest import keys_under
from tests.drivers import on_one_server
from tests.model import LEANING, config_of
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from langgraph.checkpoint.fastredis.call import Operation
    from tests.conftest import Savers

LARGE = ["x"] * 20
"""A value that is stored among the channel values, not beside its checkpoint."""


def body(own: str, values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None) -> Any:
    """A checkpoint."""
    channels = {"channel_values": values or {}, "channel_versions": versions or {}}
    return {"v": 4, "id": own, "ts": "", "versions_seen": {}, **channels}


async def test_a_checkpoint_whose_key_looks_like_an_index_is_no_thread(saver: Any) -> None:
    """I1, L4: namespace `x}` and id `index` of one thread spell the index key of another, which is listed once."""
    await saver.aput(config_of("t", "x}"), body("index"), {}, {})
    await saver.aput(config_of("t}:checkpoint:x"), body("1"), {}, {})
    threads = [thread.thread_id async for thread in saver.alist_threads()]
    assert sorted(threads) == ["t", "t}:checkpoint:x"]
    listed = [one.config["configurable"]["thread_id"] async for one in saver.alist(None)]
    assert sorted(listed) == ["t", "t}:checkpoint:x"]


async def test_a_checkpoint_without_an_id_is_refused(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """L6: an empty id means the latest, so nothing stored under it could be read; and a listing that met it never ended."""
    monkeypatch.setattr(reading, "PAGE", 1)
    with pytest.raises(ValueError, match="checkpoint"):
        await saver.aput(config_of("t"), body(""), {}, {})
    assert [one async for one in saver.alist(config_of("t", None), limit=3)] == []


async def test_a_delta_channel_whose_name_is_empty_survives_pruning(saver: Any) -> None:
    """D7: its history is what it was."""
    parent = None
    for step in (1, 2, 3):
        own = str(step)
        await saver.aput(
            config_of("t", "", parent), body(own, {}, {"": float(step)}), {LEANING: {"": (step, step)}}, {"": float(step)}
        )
        await saver.aput_writes(config_of("t", "", own), [("", step)], "task")
        parent = own
    await saver.aprune(["t"])
    found = await saver.aget_delta_channel_history(config=config_of("t"), channels=[""])
    assert found == {"": {"writes": [("task", "", 1), ("task", "", 2)]}}


async def test_a_delta_channel_that_was_never_written_leans_on_nothing(saver: Any, client: redis.Redis, prefix: str) -> None:
    """D7, D8: LangGraph counts its supersteps from the first on, though it has no version; pruning keeps one checkpoint."""
    parent = None
    for step in (1, 2, 3):
        own = str(step)
        await saver.aput(
            config_of("t", "", parent), body(own, {"a": LARGE}, {"a": step}), {LEANING: {"d": (0, step)}}, {"a": step}
        )
        parent = own
    await saver.aprune(["t"])
    assert len([key for key in keys_under(client, prefix) if b":checkpoint:" in key]) == 1


async def test_pruning_does_not_hide_that_an_ancestor_never_arrived(saver: Any) -> None:
    """D7: only its writes did; a delta channel that leans on it is an error before, and not half a history after."""
    await saver.aput_writes(config_of("t", "", "1"), [("d", "written")], "task")
    await saver.aput(config_of("t", "", "1"), body("2", {}, {"d": 1.5}), {LEANING: {"d": (1, 1)}}, {"d": 1.5})
    for _ in range(2):
        with pytest.raises(BrokenHistoryError):
            await saver.aget_delta_channel_history(config=config_of("t"), channels=["d"])
        await saver.aprune(["t"])


def interrupted(saver: RedisSaver, operation: Operation[None], after: int, moment: Callable[[], object]) -> bool:
    """Run an operation, and something else after that many of its requests; whether it has that many."""
    requests = 0
    try:
        request = next(operation)
        while True:
            if requests == after:
                moment()
            requests += 1
            request = operation.send(saver._send(request))  # noqa: SLF001
    except StopIteration:
        return requests > after


class Cut(Exception):  # noqa: N818
    """The process that ran an operation is gone."""


def cut() -> None:
    """End here."""
    raise Cut


@on_one_server
@pytest.mark.parametrize("strategy", ["runs", "prune"])
@pytest.mark.parametrize("early", ["checkpoint", "writes"])
def test_what_is_saved_while_a_thread_is_pruned_stays_whole(
    client: redis.Redis, prefix: str, strategy: str, early: str
) -> None:
    """D8: a checkpoint that arrives in the middle relies on a value and an ancestor that had just been found unused.

    Its writes may have arrived before it, so that it is in the index already.
    """
    saver = RedisSaver(client, prefix=prefix)
    prune: Any = {"runs": retention.delete_for_runs, "prune": retention.prune}[strategy]
    given: Any = (["old"],) if strategy == "runs" else (["t"], "keep_latest")
    history = {"d": {"writes": [("task", "d", "written")]}}
    had_parent: list[bool] = []

    def fork() -> None:
        had_parent.append(saver.get_tuple(config_of("t", "", "1")) is not None)
        saver.put(config_of("t", "", "1"), body("3", {"a": LARGE}, {"a": 1.5, "d": 2.5}), leaning, {"d": 2.5})

    metadata: Any = {"run_id": "old"}
    leaning: Any = {LEANING: {"d": (2, 2)}}
    for after in range(20):
        saver.put(config_of("t"), body("1", {"a": LARGE}, {"a": 1.5, "d": 1.5}), metadata, {"a": 1.5, "d": 1.5})
        saver.put_writes(config_of("t", "", "1"), [("d", "written")], "task")
        saver.put(config_of("t", "", "1"), body("2", {"a": [2] * 20}, {"a": 2.5, "d": 1.5}), metadata, {"a": 2.5})
        if early == "writes":
            saver.put_writes(config_of("t", "", "3"), [("a", 1)], "task")
        if not interrupted(saver, prune(saver._context, *given), after, fork):  # noqa: SLF001
            break
        found = saver.get_tuple(config_of("t"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": LARGE}
        with nullcontext() if had_parent[-1] else pytest.raises(BrokenHistoryError):
            assert saver.get_delta_channel_history(config=config_of("t"), channels=["d"]) == history
        saver.delete_thread("t")
    assert had_parent.count(True) > 2


@on_one_server
@pytest.mark.parametrize("page", [1, 500])
@pytest.mark.parametrize("kept", ["no run", "run 0"])
def test_deleting_runs_cut_short_is_finished_by_repeating_it(
    client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch, page: int, kept: str
) -> None:
    """D4, D5: after each of its requests; no value and no retained ancestor stays behind."""
    monkeypatch.setattr(retention, "PAGE", page)
    left: list[tuple[list[bytes], int]] = []
    for after in range(30):
        saver = RedisSaver(client, prefix=prefix)
        put_runs(saver)
        runs = [f"run {step}" for step in range(6) if f"run {step}" != kept]
        try:
            is_cut = interrupted(saver, retention.delete_for_runs(saver._context, runs), after, cut)  # noqa: SLF001
        except Cut:
            is_cut = True
        saver.delete_for_runs(runs)
        stored = keys_under(client, prefix)
        left.append((stored, client.hlen(f"{prefix}:{{t}}:channels")))
        saver.delete_thread("t")
        if not is_cut:
            break
    assert len(left) > 4
    assert all(one == left[-1] for one in left)


def put_runs(saver: RedisSaver) -> None:
    """A chain of six checkpoints, each of a run of its own; the first is still listed, the second is retained."""
    for step in range(6):
        values, versions = {"a": [step] * 20}, {"a": step + 0.5, "d": 0.5}
        metadata: Any = {"run_id": f"run {step}"} | ({LEANING: {"d": (1, 1)}} if step == 2 else {})
        saver.put(
            config_of("t", "", str(step - 1) if step else None), body(str(step), values, versions), metadata, {"a": step + 0.5}
        )
        if step == 2:
            saver.prune(["t"])
    saver.put(config_of("t"), body("0", {"a": [0] * 20}, {"a": 0.5, "d": 0.5}), {"run_id": "run 0"}, {"a": 0.5})


async def test_late_writes_to_a_retained_ancestor_do_not_outlive_the_thread(
    make_saver: Savers, client: redis.Redis, prefix: str
) -> None:
    """E1, D2: the thread has just expired, but its data, which outlives it by a second, names the ancestor still."""
    saver = make_saver()
    parent = None
    for own in ("1", "2"):
        await saver.aput(
            config_of("t", "", parent), body(own, {}, {"d": float(own)}), {LEANING: {"d": (1, 1)}}, {"d": float(own)}
        )
        parent = own
    await saver.aprune(["t"])
    await saver.aexpire_thread("t", timedelta(milliseconds=100))
    await eventually(lambda: not client.exists(f"{prefix}:{{t}}:index"))
    await saver.aput_writes(config_of("t", "", "1"), [("d", "late")], "task")
    await eventually(lambda: not client.exists(f"{prefix}:{{t}}:retained"))
    await saver.adelete_thread("t")
    await eventually(lambda: keys_under(client, prefix) == [])


async def test_a_fork_of_a_thread_with_integer_versions_leaves_the_other_branch_alone(saver: Any) -> None:
    """L7: both count on from the same version, for different values."""
    root = await saver.aput(config_of("t"), body("1", {"a": LARGE}, {"a": 1}), {}, {"a": 1})
    branches = []
    for own in ("2", "3"):
        version = saver.get_next_version(1, None)
        assert type(version) is int
        assert version > 1
        branches.append(await saver.aput(root, body(own, {"a": [own] * 20}, {"a": version}), {}, {"a": version}))
    found = [(await saver.aget_tuple(branch)).checkpoint["channel_values"] for branch in branches]
    assert found == [{"a": ["2"] * 20}, {"a": ["3"] * 20}]


@pytest.mark.parametrize("run_id", [0, 7, False, 1.5, UUID(int=7)], ids=repr)
async def test_a_run_whose_id_is_no_text_can_be_deleted(saver: Any, run_id: object) -> None:
    """D5: by the same as text; a run of no id is another."""
    await saver.aput(config_of("t"), body("1"), {"run_id": run_id}, {})
    await saver.aput(config_of("t"), body("2"), {"run_id": None}, {})
    await saver.aput(config_of("t"), body("3"), {}, {})
    await saver.adelete_for_runs(["", "None", str(run_id)])
    assert [one.checkpoint["id"] async for one in saver.alist(config_of("t"))] == ["3", "2"]


async def test_counters_of_channels_without_text_for_a_name_lean_on_nothing(saver: Any) -> None:
    """D7: such a channel cannot have a version, so there is nothing to rebuild; the metadata comes back as it was."""
    counters = {1: [1, 1], None: [2, 2]}
    await saver.aput(config_of("t"), body("1"), {LEANING: counters}, {})
    found = await saver.aget_tuple(config_of("t"))
    assert found.metadata[LEANING] == counters
    await saver.aprune(["t"])
    assert await saver.aget_tuple(config_of("t")) == found
