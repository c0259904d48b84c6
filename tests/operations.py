"""Each public method of the savers in the forms that differ in what is sent: a table that tests of faults go through."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.build import config_of, listed
from tests.conftest import assert_agree
from tests.world import SHORT, TTL, assert_between, assert_old_or_new, assert_outlived

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from types import ModuleType

    from tests.world import Seen, World

PACKAGE = "langgraph.checkpoint.fastredis"
REFRESHING = {"default_ttl": 60, "refresh_on_read": True}


def whole(seen: Seen, old: Seen, new: Seen) -> None:
    """After one atomic step: it has happened or not."""
    assert_old_or_new(seen, old, new)
    assert_agree(seen.milliseconds)


def moving(seen: Seen, old: Seen, new: Seen) -> None:
    """While the deadline of a long thread moves: its keys need not agree, but nothing goes too early."""
    assert_old_or_new(seen, old, new)
    assert_outlived(seen)


def in_pages(seen: Seen, old: Seen, new: Seen) -> None:
    """On the way from the old state to the new one."""
    assert_between(seen, old, new)
    assert_agree(seen.milliseconds)


def in_pages_and_moving(seen: Seen, old: Seen, new: Seen) -> None:
    """Both at once."""
    assert_between(seen, old, new)
    assert_outlived(seen)


@dataclass(frozen=True)
class Operation:
    """A call of a method, on a world with some threads."""

    name: str
    method: str
    threads: tuple[str, ...]
    call: Callable[[Any, World], Awaitable[Any]]
    """What it returns is the same on each run."""
    page: int | None = None
    """The size that all pages are made."""
    options: Mapping[str, Any] = field(default_factory=lambda: {"ttl": TTL})
    """Of the saver."""
    check: Callable[[Seen, Seen, Seen], None] = whole
    """Whether a state, seen after a call was cut short, is one that it may leave, given those before and after a whole call."""

    @property
    def moves(self) -> bool:
        """Whether it moves the deadline of a long thread, in pages."""
        return self.check in (moving, in_pages_and_moving)

    @contextmanager
    def pages(self) -> Iterator[None]:
        """Patches the size of pages inside the `with` block."""
        with pytest.MonkeyPatch.context() as patches:
            for module, name in _page_sizes() if self.page else ():
                # That one counts all keys of the server, the others checkpoints.
                patches.setattr(module, name, (self.page or 0) * (8 if name == "SCAN_PAGE" else 1))
            yield


@cache
def _page_sizes() -> list[tuple[ModuleType, str]]:
    """Where the sizes of pages are."""
    modules = [module for name, module in sys.modules.items() if name.startswith(PACKAGE)]
    return [
        (one, name) for one in modules for name, size in vars(one).items() if name.endswith("PAGE") and isinstance(size, int)
    ]


def put(which: str) -> Any:
    """Save the next checkpoint of a thread."""
    return lambda saver, world: saver.aput(*world.next[which])


async def put_again(saver: Any, world: World) -> Any:
    """Save the latest checkpoint once more, with other metadata."""
    last = world.last["plain"]
    return await saver.aput(*last._replace(metadata={**last.metadata, "step": 99}))


async def put_on_top_of_the_latest(saver: Any, world: World) -> Any:
    """Read and save, as a run does."""
    await saver.aget_tuple(config_of("plain"))
    return await saver.aput(*world.next["plain"])


def write(which: str, *channels: str, number: int = -1) -> Any:
    """Save writes on a thread's latest checkpoint, or another: of the task that has saved some there."""
    writes = [(channel, ["written"]) for channel in channels]

    async def call(saver: Any, world: World) -> Any:
        config = world.chains[which].configs[number]
        await saver.aput_writes(config, writes, f"task-{len(world.chains[which].configs) - 1}", "path")

    return call


async def write_early(saver: Any, world: World) -> Any:
    """Save writes on a checkpoint that has not arrived."""
    put = world.next["plain"]
    await saver.aput_writes(config_of("plain", "", put.checkpoint["id"]), [("small", 1)], "task")


def get(*at: str) -> Any:
    """Read the latest checkpoint."""
    return lambda saver, _world: saver.aget_tuple(config_of(*at))


def get_by_id(which: str, number: int) -> Any:
    """Read one checkpoint."""
    return lambda saver, world: saver.aget_tuple(world.chains[which].configs[number])


def list_(which: str | None, **options: Any) -> Any:
    """List in an order that does not depend on that of threads."""
    config: Any = which and {"configurable": {"thread_id": which}}

    async def call(saver: Any, _world: World) -> Any:
        found = await listed(saver, config, **options)
        return found if which else sorted(found, key=lambda one: str(one.config["configurable"]))

    return call


def history(which: str, number: int | None = None) -> Any:
    """The history of the delta channel, from the latest checkpoint or another."""

    def call(saver: Any, world: World) -> Any:
        config = config_of(which) if number is None else world.chains[which].configs[number]
        return saver.aget_delta_channel_history(config=config, channels=["items", "unknown"])

    return call


def method(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a method that takes the same arguments in each world."""
    return lambda saver, _world: getattr(saver, name)(*arguments, **options)


async def list_threads(saver: Any, _world: World) -> Any:
    """The threads, without what changes as time goes by."""
    return sorted([(one.thread_id, one.checkpoints, one.expires_in is None) async for one in saver.alist_threads()])


of_put = partial(Operation, method="put")
of_writes = partial(Operation, method="put_writes")
of_get = partial(Operation, method="get_tuple")
of_list = partial(Operation, method="list", page=2)
of_history = partial(Operation, method="get_delta_channel_history")
of_delete = partial(Operation, method="delete_thread", check=in_pages)
of_prune = partial(Operation, method="prune", check=in_pages)
of_runs = partial(Operation, method="delete_for_runs", check=in_pages)
of_copy = partial(Operation, method="copy_thread", page=2, check=in_pages)
of_expire = partial(Operation, method="expire_thread")
of_persist = partial(Operation, method="persist_thread")

ALL = ("delta", "pruned", "plain")

OPERATIONS = [
    of_put("put the first", threads=(), call=put("new")),
    of_put("put on top", threads=("plain",), call=put("plain")),
    of_put("put on a delta channel", threads=("delta",), call=put("delta")),
    of_put("put again", threads=("plain",), call=put_again),
    of_put("put with values that are lost", threads=("plain",), call=put("gone")),
    of_put("put into a pinned thread", threads=("pinned",), call=put("pinned")),
    of_put("put when due", threads=("due",), call=put("due")),
    of_put("put when a long thread is due", threads=("long due",), call=put("long due"), page=4, check=moving),
    of_put("put with a guard", threads=("plain",), call=put_on_top_of_the_latest, options={"guard": True, "ttl": TTL}),
    of_writes("write regular", threads=("plain",), call=write("plain", "large", "small")),
    of_writes("write special", threads=("plain",), call=write("plain", "__interrupt__", "__error__")),
    of_writes("write both", threads=("plain",), call=write("plain", "large", "__interrupt__", "small", "__error__")),
    of_writes("write early", threads=("plain",), call=write_early),
    of_writes("write on a retained checkpoint", threads=("pruned",), call=write("pruned", "items", number=-2)),
    of_writes("write when due", threads=("due",), call=write("due", "large")),
    of_writes("write when a long thread is due", threads=("long due",), call=write("long due", "large"), page=4, check=moving),
    of_get("get the latest", threads=("plain",), call=get("plain")),
    of_get("get the latest past writes that came early", threads=("delta",), call=get("delta", "child")),
    of_get("get by id", threads=("delta",), call=get_by_id("delta", 3)),
    of_get("get what is not there", threads=("plain",), call=get("unknown")),
    of_get("get when due", threads=("due",), call=get("due"), options={"ttl": REFRESHING}),
    of_get(
        "get when a long thread is due",
        threads=("long due",),
        call=get("long due"),
        page=4,
        check=moving,
        options={"ttl": REFRESHING},
    ),
    of_list("list a thread", threads=("delta",), call=list_("delta")),
    of_list("list a few", threads=("delta",), call=list_("delta", limit=3)),
    of_list("list filtered", threads=("delta",), call=list_("delta", filter={"run_id": "run-1"})),
    of_list("list all threads", threads=("pruned", "plain"), call=list_(None)),
    of_list("list all threads filtered", threads=("pruned", "plain"), call=list_(None, filter={"step": 2})),
    of_list(
        "list when a long thread is due",
        threads=("long due",),
        call=list_("long due"),
        page=4,
        check=moving,
        options={"ttl": REFRESHING},
    ),
    of_history("history from the latest", threads=("delta",), call=history("delta")),
    of_history("history in pages", threads=("delta",), call=history("delta", -1), page=1),
    of_history("history of a pruned thread", threads=("pruned",), call=history("pruned"), page=2),
    of_delete("delete", threads=("delta", "plain"), call=method("adelete_thread", "delta"), check=whole),
    of_delete("delete in pages", threads=("delta", "plain"), call=method("adelete_thread", "delta"), page=2),
    of_delete("delete a pruned thread in pages", threads=("pruned",), call=method("adelete_thread", "pruned"), page=2),
    of_prune("prune", threads=("delta", "plain"), call=method("aprune", ["delta", "plain"])),
    of_prune("prune in pages", threads=("delta",), call=method("aprune", ["delta"]), page=2),
    of_prune("prune a pruned thread", threads=("pruned", "plain"), call=method("aprune", ["pruned"]), page=2),
    of_prune("prune all away", threads=ALL, call=method("aprune", [*ALL], strategy="delete"), page=3),
    of_runs("delete an old run", threads=("delta", "plain"), call=method("adelete_for_runs", ["run-0"]), page=2),
    of_runs("delete the newest run", threads=("pruned",), call=method("adelete_for_runs", ["run-1"]), page=2),
    of_runs("delete all runs", threads=("delta",), call=method("adelete_for_runs", ["run-0", "run-1"]), page=2),
    of_copy("copy", threads=("delta",), call=method("acopy_thread", "delta", "copy")),
    of_copy("copy a pruned thread", threads=("pruned",), call=method("acopy_thread", "pruned", "copy")),
    of_copy(
        "copy onto a thread that is due",
        threads=("plain", "long due"),
        call=method("acopy_thread", "plain", "long due"),
        page=4,
        check=in_pages_and_moving,
    ),
    of_expire("expire", threads=("plain",), call=method("aexpire_thread", "plain", timedelta(hours=3))),
    of_expire("expire nothing", threads=("plain",), call=method("aexpire_thread", "unknown", SHORT)),
    of_expire(
        "expire later in pages",
        threads=("pruned",),
        call=method("aexpire_thread", "pruned", timedelta(hours=3)),
        page=2,
        check=moving,
    ),
    of_expire(
        "expire sooner in pages",
        threads=("long due",),
        call=method("aexpire_thread", "long due", timedelta(minutes=10)),
        page=4,
        check=moving,
    ),
    of_expire(
        "expire a pinned thread", threads=("pinned",), call=method("aexpire_thread", "pinned", SHORT), page=2, check=moving
    ),
    of_persist("persist", threads=("plain",), call=method("apersist_thread", "plain")),
    of_persist("persist in pages", threads=("long due",), call=method("apersist_thread", "long due"), page=4, check=moving),
    Operation("list threads", "list_threads", ALL, list_threads, page=2),
    Operation("set up", "setup", ("plain",), method("asetup"), options={}),
]
