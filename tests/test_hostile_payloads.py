"""Hostile text in every place that takes text from outside, and everything that a serializer takes or refuses.

A call does what the reference does, or is refused with a `ValueError` or `TypeError` before anything is sent; never a third.
HOSTILE_EXAMPLES in the environment, how many random scripts are run, turns the first test into a hunt.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Send
from pydantic import BaseModel

from langgraph.checkpoint.fastredis import BrokenHistoryError
from tests import servers
from tests.conftest import KINDS, keys_under
from tests.drivers import on_one_server
from tests.model import LEANING, Reference, exact
from tests.recording import AsyncRecordingSaver, RecordingSaver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis


pytestmark = pytest.mark.newest

EXAMPLES = os.environ.get("HOSTILE_EXAMPLES")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 40),
    derandomize=EXAMPLES is None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

PIECES = [*"ab:;{}%*\0\0\1\2\n é'1\x7f\uffff\ud800\U0001f600", "%7B", "?[a-]\\", "\r\n", "write:", "None", "index", ""]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=4).map("".join) | st.sampled_from(["x" * 300, "\0" * 9, "\1a", "\1b", "a"])
NO_TEXT: list[Any] = [None, 0, 7, -1, True, 1.5, b"x", ["x"], ("x",), {"a": "x"}, UUID(int=7), 10**30]
LARGE = ["x"] * 20
LIMITS = st.sampled_from([None, None, 0, 1, 2])


class Asked(NamedTuple):
    """A call, and every text from outside that it is given."""

    method: str
    given: dict[str, Any]
    ids: list[Any]
    """Ids of threads, namespaces, checkpoints and runs: text, or what has one form as text."""
    names: list[Any]
    """Channels, tasks and paths: text only."""
    lacks: bool = False
    """Whether something is missing without which the call makes no sense."""

    @property
    def is_refused(self) -> bool:
        """Whether it is given something that cannot be stored under its name."""
        return self.lacks or not all(map(is_id, self.ids)) or not all(map(is_text, self.names))


def is_text(value: object) -> bool:
    """Whether it can be stored as text."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_id(value: object) -> bool:
    """Whether it is text, or has one form as text."""
    return is_text(value) or (isinstance(value, (int, UUID)) and not isinstance(value, bool))


def text_of(value: object) -> Any:
    """An id as text."""
    return value if value is None else str(value)


class Places:
    """Draws what to put where: from a few texts, so that they meet in different places; now and then what is none."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.texts = draw(st.lists(TEXTS, min_size=2, max_size=5, unique=True))
        self.calls = 0
        self.known: list[tuple[dict[str, Any], dict[Any, Any]]] = []
        """Of each checkpoint, how it is addressed, and its metadata."""

    def text(self) -> Any:
        """Something for a place that takes text."""
        return self.draw(st.sampled_from([*self.texts[:1] * 12, *self.texts * 4, self.draw(st.sampled_from(NO_TEXT))]))

    def texts_of(self, most: int) -> list[Any]:
        """Some of that."""
        return [self.text() for _ in range(self.draw(st.integers(0, most)))]

    def one_of(self, *choices: Any) -> Any:
        """One of these."""
        return self.draw(st.sampled_from(choices))

    def config(self, own: Any, *, ns: Any = "", of_known: bool = False) -> tuple[dict[str, Any], list[Any]]:
        """A config, and the ids in it; the latter is, mostly, that of a checkpoint which was saved, if it was not refused."""
        parts = {"thread_id": self.text(), "checkpoint_ns": ns, "checkpoint_id": own}
        if of_known and self.one_of(True, True, True, False):  # noqa: FBT003
            known = self.one_of(*self.known)[0]
            parts = {**known, "checkpoint_id": self.one_of(None, known["checkpoint_id"])}
        ids = [parts["thread_id"], parts["checkpoint_ns"] or "", parts["checkpoint_id"] or ""]
        return {"configurable": {name: part for name, part in parts.items() if part is not None or name == "thread_id"}}, ids

    def mapping(self) -> dict[Any, Any]:
        """Any keys, any values."""
        keys = [key for key in self.texts_of(2) if key.__hash__]
        return {key: self.text() for key in keys}

    def filter(self) -> dict[Any, Any] | None:
        """None, or one that some checkpoint may match."""
        metadata = self.one_of(*self.known)[1]
        wanted: dict[Any, Any] | None = self.one_of(None, None, {**metadata}, {"run_id": metadata["run_id"]}, self.mapping())
        return wanted

    # The calls.

    def put(self) -> Asked:
        """Channels, versions, run, metadata, and what the config brings into that."""
        own, above, ns = self.text(), self.text(), self.text()
        own = str(own) if is_id(own) else own
        above = above if isinstance(own, str) and isinstance(above, str) and above < own else None
        config, ids = self.config(above, ns=ns)
        channels = {channel: self.version() for channel in self.texts_of(3) if channel.__hash__}
        values = {channel: self.one_of(LARGE, 1, self.text()) for channel in channels if self.one_of(True, True, False)}  # noqa: FBT003
        leaning = {channel: (1, 1) for channel in channels if channel not in values}
        metadata = {**self.mapping(), "run_id": self.text(), **({LEANING: leaning} if leaning else {})}
        config["metadata"] = {key: value for key, value in self.mapping().items() if isinstance(key, str)}
        checkpoint = {"v": 4, "id": own, "ts": "", "versions_seen": {}, "channel_values": values, "channel_versions": channels}
        run = metadata["run_id"]
        names = [own, *channels, *([run] if isinstance(run, str) else [])]
        names += [version for version in channels.values() if not isinstance(version, (int, float))]
        self.known.append(({**config["configurable"], "checkpoint_id": own}, metadata))
        call = {"config": config, "checkpoint": checkpoint, "metadata": metadata, "new_versions": dict(channels)}
        return Asked("put", call, ids, names, lacks=own == "")

    def version(self) -> Any:
        """A version that no value has had."""
        self.calls += 1
        version = self.text()
        return f"{version}{self.calls}" if isinstance(version, str) else self.one_of(version, self.calls + 0.5, self.calls)

    def put_writes(self) -> Asked:
        """Channel, task and path."""
        task, path = self.text(), self.text()
        config, ids = self.config(self.text(), ns=self.text(), of_known=True)
        own = config["configurable"].get("checkpoint_id")
        channels = [channel for channel in (*self.texts_of(2), self.draw(st.sampled_from(self.texts))) if channel.__hash__]
        writes = [(channel, self.one_of(LARGE, 1, self.text())) for channel in channels]
        names = [task, path, *channels]
        call = {"config": config, "writes": writes, "task_id": task, "task_path": path}
        return Asked("put_writes", call, ids, names, lacks=own in (None, ""))

    def get_tuple(self) -> Asked:
        """Any id."""
        config, ids = self.config(self.one_of(None, self.text()), ns=self.one_of(None, self.text()), of_known=True)
        return Asked("get_tuple", {"config": config}, ids, [])

    def list(self) -> Asked:
        """Any filter, any bound."""
        config, ids = self.config(self.one_of(None, self.text()), ns=self.one_of(None, self.text()), of_known=True)
        if self.one_of(True, False, False):  # noqa: FBT003
            config, ids = None, []  # type: ignore[assignment]
        bound = self.one_of(None, None, self.text())
        before = None if bound is None else {"configurable": {"checkpoint_id": bound}}
        limit = self.draw(LIMITS) if config else None
        call = {"config": config, "filter": self.filter(), "before": before, "limit": limit}
        return Asked("list", call, [*ids, *([] if bound in (None, "") else [bound])], [])

    def get_delta_channel_history(self) -> Asked:
        """Any channels."""
        config, ids = self.config(self.one_of(None, self.text()), ns=self.text(), of_known=True)
        channels = [channel for channel in (*self.texts_of(2), self.draw(st.sampled_from(self.texts))) if channel.__hash__]
        return Asked("get_delta_channel_history", {"config": config, "channels": channels}, ids, channels)

    def prune(self) -> Asked:
        """Several threads, of which the last may be the one that is refused."""
        threads = [self.one_of(*self.known)[0]["thread_id"], *self.texts_of(2)]
        return Asked("prune", {"thread_ids": threads, "strategy": self.one_of("keep_latest", "delete")}, threads, [])

    def delete_for_runs(self) -> Asked:
        """Several runs."""
        runs = [self.one_of(*self.known)[1]["run_id"], *self.texts_of(2)]
        return Asked("delete_for_runs", {"run_ids": runs}, runs, [])

    def copy_thread(self) -> Asked:
        """Two threads."""
        source, target = self.text(), self.text()
        return Asked("copy_thread", {"source_thread_id": source, "target_thread_id": target}, [source, target], [])

    def delete_thread(self) -> Asked:
        """One thread."""
        thread = self.text()
        return Asked("delete_thread", {"thread_id": thread}, [thread], [])

    def expire_thread(self) -> Asked:
        """One thread."""
        thread = self.text()
        return Asked("expire_thread", {"thread_id": thread, "ttl": timedelta(hours=1)}, [thread], [])

    def persist_thread(self) -> Asked:
        """One thread."""
        thread = self.text()
        return Asked("persist_thread", {"thread_id": thread}, [thread], [])


WRITING = ["put", "put", "put", "put", "put_writes", "put_writes", "put_writes"]
READING = ["get_tuple", "get_tuple", "list", "list", "list", "get_delta_channel_history"]
WHOLE = ["prune", "delete_for_runs", "copy_thread", "delete_thread", "expire_thread", "persist_thread"]


@st.composite
def scripts(draw: Any) -> tuple[Any, list[Asked]]:
    """The end of a prefix, and a few calls."""
    places = Places(draw)
    methods = draw(st.lists(st.sampled_from([*WRITING, *READING, *WHOLE]), min_size=4, max_size=12))
    return places.text(), [getattr(places, method)() for method in ("put", "put", *methods)]


def lowered(method: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The same for the reference, which takes text only."""
    call = {**asked}
    for name in ("config", "before"):
        if call.get(name):
            parts = {key: part for key, part in call[name]["configurable"].items() if key != "checkpoint_id" or part != ""}
            call[name] = {**call[name], "configurable": {key: text_of(part) for key, part in parts.items()}}
    if method in ("prune", "delete_for_runs"):
        name = "thread_ids" if method == "prune" else "run_ids"
        call[name] = [str(one) for one in call[name]]
    return call


def stored(client: redis.Redis, root: str) -> dict[bytes, Any]:
    """All that the server holds under a prefix."""
    found: dict[bytes, Any] = {}
    for key in keys_under(client, root):
        is_set = client.type(key) == b"zset"
        found[key] = client.zrange(key, 0, -1) if is_set else client.hgetall(key)
    return found


class Run:
    """A saver, whose requests are seen, beside the reference."""

    def __init__(self, saver: Any, client: redis.Redis, root: str, loop: asyncio.AbstractEventLoop) -> None:
        self.saver = saver
        self.client = client
        self.root = root
        self.loop = loop
        self.model = Reference()

    def ask(self, method: str, **given: Any) -> Any:
        """Call a method of the saver; of a listing, all of it."""
        if isinstance(self.saver, RecordingSaver):
            found = getattr(self.saver, method)(**given)
            return [*found] if method.startswith("list") else found
        return self.loop.run_until_complete(self._ask(method, given))

    async def _ask(self, method: str, given: dict[str, Any]) -> Any:
        found = getattr(self.saver, f"a{method}")(**given)
        return [one async for one in found] if method.startswith("list") else await found

    def check(self, asked: Asked) -> None:
        """Ask for one thing."""
        before = stored(self.client, self.root)
        self.saver.sent.clear()
        try:
            found = self.ask(asked.method, **asked.given)
        except BrokenHistoryError:
            found = BrokenHistoryError
        except (ValueError, TypeError) as refused:
            self.nothing_was_done(asked, type(refused), before)
            return
        assert not asked.is_refused
        expected = self.expected(asked)
        if asked.method == "list" and asked.given["config"] is None:
            found, expected = (sorted(some, key=by_thread) for some in (found, expected))
        assert exact(found) == exact(expected)
        self.nothing_differs()

    def nothing_was_done(self, asked: Asked, refused: type[Exception], before: Any) -> None:
        """Nothing was sent, the server holds what it held, and there was a reason."""
        assert self.saver.sent == []
        assert stored(self.client, self.root) == before
        assert asked.is_refused or refused is self.error_of_reference(asked)

    def expected(self, asked: Asked) -> Any:
        """What the reference answers."""
        if asked.method in ("expire_thread", "persist_thread"):
            return str(asked.given["thread_id"]) in self.model.list_threads()
        try:
            found = getattr(self.model, asked.method)(**lowered(asked.method, asked.given))
        except BrokenHistoryError:
            return BrokenHistoryError
        return [*found] if asked.method == "list" else found

    def error_of_reference(self, asked: Asked) -> type[Exception] | None:
        """What another one, which is not to keep the half of it, says to the same."""
        try:
            getattr(Reference(), asked.method)(**lowered(asked.method, asked.given))
        except Exception as error:  # noqa: BLE001 whichever it is, it is compared
            return type(error)
        return None

    def nothing_differs(self) -> None:
        """Of all that is stored."""
        infos = self.ask("list_threads")
        assert sorted((one.thread_id, one.checkpoints) for one in infos) == sorted(self.model.list_threads().items())
        found, expected = (sorted(some, key=by_thread) for some in (self.ask("list", config=None), self.model.list(None)))
        assert exact(found) == exact(expected)

    def end(self) -> None:
        """Delete all that is listed; nothing is left."""
        for thread in self.ask("list_threads"):
            self.ask("delete_thread", thread_id=thread.thread_id)
        assert stored(self.client, self.root) == {}


def by_thread(found: Any) -> tuple[str, ...]:
    """An order for what comes in none."""
    return tuple(found.config["configurable"][name] for name in ("thread_id", "checkpoint_ns", "checkpoint_id"))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop that all calls of a test run on."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize(("backend", "kind"), [*zip(servers.ALL, cycle(KINDS), strict=False)], indirect=True)
def test_hostile_text_is_data_or_refused_before_anything_is_sent(
    backend: servers.Backend, kind: str, client: redis.Redis, loop: asyncio.AbstractEventLoop
) -> None:
    """I1, I2: in every place, in any combination; what is stored under one text is never met under another."""
    shared = backend.async_client()

    def make(prefix: Any) -> Any:
        return RecordingSaver(client, prefix=prefix) if kind == "sync" else AsyncRecordingSaver(shared, prefix=prefix)

    @SETTINGS
    @given(script=scripts())
    def run_scripts(script: tuple[Any, list[Asked]]) -> None:
        end, calls = script
        root = f"test-{uuid4().hex}"
        if not is_text(end):
            with pytest.raises((ValueError, TypeError)):
                make(f"{root}{end}" if isinstance(end, str) else end)
            end = ""
        run = Run(make(f"{root}:{end}"), client, root, loop)
        for asked in calls:
            run.check(asked)
        run.end()

    try:
        run_scripts()
    finally:
        loop.run_until_complete(shared.aclose())


class Colour(Enum):
    """An enumeration of the user's."""

    RED = "\0"


@dataclass
class Point:
    """A dataclass of the user's."""

    x: Any


class Model(BaseModel):
    """A pydantic model of the user's."""

    x: Any


class Unknown:
    """Nothing that a serializer knows."""


def nested(levels: int, kind: type) -> Any:
    """A value this deep."""
    value: Any = 1
    for _ in range(levels):
        value = {"in": value} if kind is dict else kind([value])
    return value


class Endless(list[Any]):
    """A list that holds itself."""

    def __init__(self) -> None:
        super().__init__()
        self.append(self)


PAYLOADS: list[Any] = [
    *(math.nan, math.inf, -math.inf, -0.0, 5e-324, 2**63 - 1, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400, 1j),
    *("\ud800", ["\ud800"] * 20, {"\ud800": 1}, "\0" * 33, "\udfff" * 40, "\uffff\U0010ffff", "é" * 33),
    *(b"\0\1\2", bytearray(b"\0\1\2"), memoryview(b"\0\1\2"), [memoryview(b"x")], bytes(range(256)), (), (1, (2,)), []),
    *({1, "a"}, frozenset({(1, 2)}), deque([1, 2]), {1: "a"}, {None: 1}, {(1, 2): 3}, {1.5: 1}, {b"k": 1}, {True: 1}, range(3)),
    *(datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Paris")), datetime.max),  # noqa: DTZ901
    *(date.min, time(1, 2, 3, 4), timedelta(days=-1, microseconds=1), ZoneInfo("Asia/Tokyo"), timezone.utc),
    *(UUID(int=0), Decimal("1.10"), Decimal("NaN"), Fraction(1, 3), Colour.RED, Point({"y": Point(b"\0")}), Model(x=[1])),
    *(Point("\ud800"), Model(x=Unknown()), Unknown(), Unknown, len, re.compile("a"), Path("/\0"), IPv4Address(1)),
    *(ValueError("why", 1), KeyError("\0"), OSError(2, "no"), StopIteration(), UnicodeDecodeError("utf-8", b"x", 0, 1, "?")),
    *(nested(levels, kind) for levels in (100, 500, 1000, 1100) for kind in (list, tuple, dict)),
    *(Endless(), object(), (one for one in "abc"), Interrupt("?", id="\0"), Send("n", {"x": {1}}), _DeltaSnapshot({"a": {1}})),
    *(_DeltaSnapshot(Unknown()), HumanMessage("\0"), [HumanMessage("hi", additional_kwargs={"x": b"\xff"})], Command(resume=1)),
]


def outcome(serde: Any, call: Callable[[], Any]) -> Any:
    """What a call gives, in the form in which it would be stored, so that types count; or the type of its error."""
    try:
        found = call()
        return [serde.dumps_typed(one) for one in found]
    except (Exception, RecursionError) as error:  # noqa: BLE001 whichever it is, it is compared
        return type(error)


def offers(saver: Any, at: Any, value: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """How a value is saved, as each thing that it can be, and read again."""
    body: Any = {"v": 4, "id": "1", "ts": "", "versions_seen": {}, "channel_values": {}, "channel_versions": {"c": 1.5}}
    with_value = {**body, "channel_values": {"c": value}}
    first = {"configurable": {**at["configurable"], "checkpoint_id": "1"}}

    def read(*names: str) -> Any:
        found = saver.get_tuple(at)
        return [getattr(found, name) for name in names]

    return {
        "channel": (
            lambda: saver.put(at, with_value, {}, {"c": 1.5}),
            lambda: [saver.get_tuple(at).checkpoint["channel_values"]["c"]],
        ),
        "metadata": (lambda: saver.put(at, body, {"m": value}, {"c": 1.5}), lambda: read("metadata")),
        "versions seen": (
            lambda: saver.put(at, {**body, "versions_seen": {"n": value}}, {}, {}),
            lambda: [saver.get_tuple(at).checkpoint["versions_seen"]],
        ),
        "write": (lambda: saver.put_writes(first, [("c", 1), ("c", value)], "t"), lambda: read("pending_writes")),
        "error": (lambda: saver.put_writes(first, [("__error__", value)], "t"), lambda: read("pending_writes")),
    }


@on_one_server
def test_every_payload_is_stored_as_the_reference_stores_it_or_refused_as_it_refuses_it(
    client: redis.Redis, prefix: str
) -> None:
    """V1, V2, W6: in every place that takes a value; one that is refused leaves nothing, not even the write before it."""
    saver = RecordingSaver(client, prefix=prefix)
    refused = 0
    for number, value in enumerate(PAYLOADS):
        for place in offers(saver, {"configurable": {}}, value):
            at: Any = {"configurable": {"thread_id": f"{number} {place}", "checkpoint_ns": ""}}
            reference = InMemorySaver()
            (save, read), (save_there, read_there) = (offers(one, at, value)[place] for one in (saver, reference))
            if place in ("write", "error"):
                for one in (saver, reference):
                    offers(one, at, 0)["channel"][0]()
            before = stored(client, prefix)
            saver.sent.clear()
            found, expected = (outcome(saver.serde, lambda call=call: [call()]) for call in (save, save_there))  # type: ignore[misc]
            assert found == expected, (place, number, type(value))
            if isinstance(found, type):
                refused += 1
                assert saver.sent == []
                assert stored(client, prefix) == before
            else:
                assert outcome(saver.serde, read) == outcome(saver.serde, read_there), (place, number, type(value))
            saver.delete_thread(at["configurable"]["thread_id"])
    assert refused > 100
    assert stored(client, prefix) == {}
