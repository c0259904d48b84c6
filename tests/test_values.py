"""Channel values: what is stored comes back, and nothing is stored twice (cases V2 to V10)."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from langgraph.checkpoint.fastredis import history
from tests.build import Chain, config_of, delta_chain, listed
from tests.conftest import keys_under

if TYPE_CHECKING:
    import redis

    from tests.conftest import Savers


def stored_bytes(client: redis.Redis, prefix: str) -> int:
    """The size of all values under a prefix, in hashes."""
    hashes = [key for key in keys_under(client, prefix) if client.type(key) == b"hash"]
    return sum(len(value) for key in hashes for value in client.hvals(key))


async def values_of(chain: Chain) -> dict[str, Any]:
    """The latest channel values."""
    found = await chain.latest()
    assert found is not None
    return found.checkpoint["channel_values"]


@pytest.mark.parametrize(
    "value",
    [
        {"value": 1, "id": "x"},
        {"lc": 1, "type": "constructor", "id": ["a", "b"], "kwargs": {}},
        {"lc": 2, "type": "constructor", "id": ["builtins", "eval"], "args": ["1"]},
        {"__type__": "x", "type": "send", "node": "n", "arg": {}},
    ],
)
async def test_a_dict_that_looks_like_an_object_stays_a_dict(saver: Any, value: dict[str, Any]) -> None:
    """V2: as a channel value, a write, and metadata."""
    chain = Chain(saver)
    await chain.put({"c": value}, extra=value)
    await chain.write(("c", value))
    found = await chain.latest()
    assert found is not None
    assert found.checkpoint["channel_values"] == {"c": value}
    assert found.pending_writes == [("task", "c", value)]
    assert found.metadata["extra"] == value  # type: ignore[typeddict-item]


async def test_channels_that_did_not_change_are_part_of_every_checkpoint(saver: Any) -> None:
    """V3: also where the caller names too few new versions."""
    chain = Chain(saver)
    await chain.put({"a": [1] * 20, "b": 1})
    await chain.put({"c": [3] * 20})
    assert await values_of(chain) == {"a": [1] * 20, "b": 1, "c": [3] * 20}
    checkpoint = chain.checkpoint("z")
    checkpoint["channel_values"]["d"] = {"new": [1] * 20}
    checkpoint["channel_versions"]["d"] = 1
    await saver.aput(chain.config, checkpoint, {}, {})
    assert await values_of(chain) == {"a": [1] * 20, "b": 1, "c": [3] * 20, "d": {"new": [1] * 20}}


async def test_a_thread_that_lost_its_values_in_the_middle_of_a_run_is_stored_whole_again(
    saver: Any, client: redis.Redis, prefix: str
) -> None:
    """V3: the save that finds them missing brings them."""
    chain = Chain(saver, "t")
    await chain.put({"a": [1] * 20, "b": [2] * 20})
    client.delete(*keys_under(client, prefix))
    await chain.put({"b": [3] * 20})
    assert await values_of(chain) == {"a": [1] * 20, "b": [3] * 20}


async def test_a_cleared_channel_is_absent(saver: Any) -> None:
    """V4: small and large, even where it is cleared under the version it had."""
    chain = Chain(saver)
    await chain.put({"a": [1] * 20, "b": 1, "c": [1] * 20})
    await chain.put({}, cleared=["a", "b"])
    assert await values_of(chain) == {"c": [1] * 20}
    checkpoint = chain.checkpoint("z")
    del checkpoint["channel_values"]["c"]
    await saver.aput(chain.config, checkpoint, {}, {"c": checkpoint["channel_versions"]["c"]})
    assert await values_of(chain) == {}


async def test_a_value_stays_visible_while_its_version_does_not_change(saver: Any) -> None:
    """V5, V11: small or large, a snapshot included; though later checkpoints are not handed it any more."""
    chain = Chain(saver)
    await chain.put({"large": _DeltaSnapshot([1] * 20), "small": 7, "other": 1})
    del chain.values["large"], chain.values["small"]
    for step in range(3):
        await chain.put({"other": step})
        assert await values_of(chain) == {"large": _DeltaSnapshot([1] * 20), "small": 7, "other": step}
    assert type((await values_of(chain))["large"]) is _DeltaSnapshot
    found = await saver.aget_delta_channel_history(config=chain.config, channels=["large", "small"])
    assert found == {
        "large": {"writes": [], "seed": _DeltaSnapshot([1] * 20)},
        "small": {"writes": [], "seed": 7},
    }


@pytest.mark.parametrize("seed", [None, 0, False, "", "plain", [], ["plain"], _DeltaSnapshot(None)], ids=repr)
async def test_every_stored_value_is_a_seed(saver: Any, seed: object) -> None:
    """V6: the writes of the ancestor that stores it count."""
    chain = Chain(saver)
    await chain.put({"items": seed})
    await chain.write(("items", "first"), ("other", 1))
    del chain.values["items"]
    await chain.put(cleared=["items"])
    found = await saver.aget_delta_channel_history(config=config_of(chain.thread_id), channels=["items", "unknown"])
    assert found == {"items": {"writes": [("task", "items", "first")], "seed": seed}, "unknown": {"writes": []}}
    assert await saver.aget_delta_channel_history(config=chain.config, channels=[]) == {}


@dataclass
class Known:
    """A type of the user's."""

    text: str


async def read_everything(saver: Any, chain: Chain) -> list[Any]:
    """A value by every way: checkpoint, write, metadata, list, filtered list, history's writes and seed."""
    tuples = [await saver.aget_tuple(chain.config), await saver.aget_tuple(config_of(chain.thread_id))]
    tuples += await listed(saver, config_of(chain.thread_id), filter={"step": 1})
    found = [
        value
        for one in tuples
        for value in (one.checkpoint["channel_values"]["a"], one.pending_writes[0][2], one.metadata["extra"])
    ]
    items = (await saver.aget_delta_channel_history(config=chain.config, channels=["items"]))["items"]
    return [*found, items["seed"], items["writes"][0][2]]


async def thread_of(saver: Any, value: object) -> Chain:
    """A thread that holds the value wherever one can be."""
    chain = Chain(saver)
    await chain.put({"items": value})
    await chain.write(("items", value))
    del chain.values["items"]
    await chain.put({"a": value}, cleared=["items"], extra=value)
    await chain.write(("a", value))
    return chain


async def test_an_encrypting_serializer_holds_on_every_path(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """V7: no value, write or metadata is stored in the clear, and all come back."""
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    saver = make_saver(serde=serde)
    chain = await thread_of(saver, "top-secret")
    await chain.put({"large": ["top-secret"] * 20})
    chain.config = chain.configs[1]
    hashes = [key for key in keys_under(client, prefix) if client.type(key) == b"hash"]
    values: list[Any] = [value for key in hashes for value in client.hvals(key)]
    saved = b"".join(values)
    assert b"top-secret" not in saved
    assert b"+aes" in saved
    assert set(await read_everything_at(saver, chain)) == {"top-secret"}


async def read_everything_at(saver: Any, chain: Chain) -> list[Any]:
    """As `read_everything`, where the thread has a newer checkpoint."""
    one = await saver.aget_tuple(chain.config)
    items = (await saver.aget_delta_channel_history(config=chain.config, channels=["items"]))["items"]
    values = [one.checkpoint["channel_values"]["a"], one.pending_writes[0][2], one.metadata["extra"]]
    return [*values, items["seed"], items["writes"][0][2]]


async def test_the_allowlist_reaches_every_load(make_saver: Savers) -> None:
    """V7: a copy with a wider list revives what the saver itself may not; both share one client."""
    saver = make_saver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    allowing = saver.with_allowlist([(Known.__module__, Known.__name__)])
    if make_saver.kind == "sync":
        allowing = type(saver)(allowing)
    chain = await thread_of(saver, Known("x"))
    assert {type(value) for value in await read_everything(allowing, chain)} == {Known}
    assert not any(type(value) is Known for value in await read_everything(saver, chain))


@pytest.mark.newest
async def test_a_class_that_is_gone_does_not_make_a_checkpoint_unreadable(saver: Any) -> None:
    """V8: the rest comes back, and of the object its data."""
    module = ModuleType("soon_gone")
    module.Gone = type("Gone", (Known,), {"__module__": "soon_gone"})  # type: ignore[attr-defined]
    sys.modules["soon_gone"] = module
    chain = Chain(saver)
    await chain.put({"gone": module.Gone("data"), "other": [1] * 20})
    del sys.modules["soon_gone"]
    values = await values_of(chain)
    assert values == {"gone": {"text": "data"}, "other": [1] * 20}


async def test_bytes_are_stored_as_bytes(saver: Any, client: redis.Redis, prefix: str) -> None:
    """V9: ten megabytes take ten megabytes."""
    chain = Chain(saver)
    await chain.put({"a": b"\x00\xff" * 5_000_000})
    await chain.write(("a", b"\xff\x00" * 5_000_000))
    assert 20_000_000 <= stored_bytes(client, prefix) < 20_002_000
    assert await values_of(chain) == {"a": b"\x00\xff" * 5_000_000}


async def test_a_value_that_never_changes_is_stored_once(saver: Any, client: redis.Redis, prefix: str) -> None:
    """V10: a hundred checkpoints, 100 kB."""
    chain = Chain(saver)
    await chain.put({"large": b"x" * 100_000})
    for step in range(99):
        await chain.put({"a": step})
    assert stored_bytes(client, prefix) < 160_000
    assert await values_of(chain) == {"large": b"x" * 100_000, "a": 98}


async def test_what_changes_while_a_save_is_under_way_is_stored_as_it_was(make_saver: Savers) -> None:
    """The state is packed before the first await, in both savers' async methods."""
    for saver in (make_saver.sync(), make_saver.asynchronous()):
        chain = Chain(saver)
        value, write = ["before"], ["before"]
        put = saver.aput(config_of(chain.thread_id), {**chain.checkpoint("1"), **at_version_1(value)}, {}, {"a": 1})
        writes = saver.aput_writes(config_of(chain.thread_id, "", "1"), [("a", write)], "task")
        tasks = [asyncio.ensure_future(put), asyncio.ensure_future(writes)]
        await asyncio.sleep(0)
        value[0] = write[0] = "after"
        await asyncio.gather(*tasks)
        found = await saver.aget_tuple(config_of(chain.thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": ["before"]}
        assert found.pending_writes == [("task", "a", ["before"])]


def at_version_1(value: object) -> Any:
    """The parts of a checkpoint that say that channel `a` has a value."""
    return {"channel_values": {"a": value}, "channel_versions": {"a": 1}}


async def test_a_delta_channel_is_rebuilt_over_many_pages(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pages; in the order of the steps."""
    chain = await delta_chain(saver, 12, seed_at=2)
    for page in (1, 4, 500):
        monkeypatch.setattr(history, "PAGE", page)
        rebuilt = await saver.aget_delta_channel_history(config=chain.config, channels=["items", "plain"])
        assert rebuilt["items"]["seed"] == ["seed"]
        assert [write[2] for write in rebuilt["items"]["writes"]] == [f"write-{step}" for step in range(2, 11)]
        assert rebuilt["plain"] == {"writes": [], "seed": [10] * 20}
