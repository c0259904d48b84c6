"""Operations that move a thread's deadline: of all its keys, since a thread lives and dies as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.checkpoint.fastredis import address, scripts
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.expiry import to_milliseconds

if TYPE_CHECKING:
    from datetime import timedelta

    from langgraph.checkpoint.fastredis.context import Context
    from langgraph.checkpoint.fastredis.keys import ThreadKeys

# Setting a deadline takes a server about three microseconds a key: a page holds it for one and a half milliseconds.
PAGE = 500


def expire_thread(context: Context, thread_id: str, ttl: timedelta) -> Operation[bool]:
    """Give a thread a deadline `ttl` from now; `False` where there is no such thread."""
    lifetime = to_milliseconds(ttl)
    return (yield from move(context.keyspace.thread(address.to_text(thread_id, "thread_id")), lifetime))


def persist_thread(context: Context, thread_id: str) -> Operation[bool]:
    """Take a thread's deadline away; `False` where there is no such thread."""
    return (yield from move(context.keyspace.thread(address.to_text(thread_id, "thread_id")), 0))


def refresh(context: Context, thread: ThreadKeys, left: int) -> Operation[None]:
    """After a read that found the index with `left` ms to live: move the deadline if reads do, and it is due."""
    if context.expiry.refresh_on_read and 0 <= left < context.expiry.least:
        yield from move(thread, context.expiry.lifetime, due=context.expiry.least)


def move(thread: ThreadKeys, lifetime: int, *, due: int = 0) -> Operation[bool]:
    """Set the deadline `lifetime` ms ahead, or take it away where that is 0; `due`: only if less than that is left."""
    status, *rest = yield Call(
        scripts.EXPIRE, (thread.index, thread.channels, thread.retained, thread.absent), (thread.base, lifetime, PAGE, due)
    )
    if status == b"long":
        deadline, first = rest
        return (yield from _move_long(thread, deadline, first, due))
    return bool(status == b"moved")


def _move_long(thread: ThreadKeys, deadline: bytes, first: bytes, due: int) -> Operation[bool]:
    """Move the deadline page by page.

    The index is moved before the last pass over the data, so that what is saved meanwhile takes the new deadline from it or
    is met by that pass. A later deadline reaches the data first too: cut short, no part may expire before its thread.
    """
    if first:
        yield from _move_data(thread, first)
    alive: int = yield Call(scripts.EXPIRE_INDEX, (thread.index,), (deadline, due))
    yield from _move_data(thread, b"=")
    return bool(alive)


def _move_data(thread: ThreadKeys, deadline: bytes) -> Operation[None]:
    for members in (thread.retained, thread.index):
        cursor = b""
        while True:
            cursor = yield Call(
                scripts.EXPIRE_PAGE,
                (members, thread.channels, thread.retained, thread.index, thread.absent),
                (thread.base, deadline, cursor, PAGE),
            )
            if not cursor:
                break
