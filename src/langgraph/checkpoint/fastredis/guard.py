"""`guard=`: a run that another has overtaken is refused at its first save.

A run begins by reading the latest checkpoint of its namespace, in the context (`contextvars`) in which it saves, or of which
that one is a copy. What it read is remembered there. Until its first checkpoint is stored, its saves tell the script which
checkpoints the namespace may have as its latest: the one that was read, and those of the run itself. A run that was sent to an
older checkpoint by its id saves on top of that one, and is not looked at: forks and time travel go on as they do.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from langgraph.checkpoint.fastredis import keys
from langgraph.checkpoint.fastredis.errors import ConcurrentRunError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langgraph.checkpoint.base import CheckpointTuple

    from langgraph.checkpoint.fastredis.address import Address


@dataclass(slots=True)
class Run:
    """A run as far as its first checkpoint."""

    at: Address
    """Its thread and namespace."""
    began_at: str | None
    """The latest checkpoint of the namespace when it was read."""
    own: set[str] = field(default_factory=set[str])
    """The checkpoints that the run has sent."""
    is_under_way: bool = False
    """Whether one of them is stored."""


_MOST = 100
# By guard, thread, namespace and the checkpoint that the run began at; the ones noted last are at the end.
_Key: TypeAlias = "tuple[Guard, str, str, str | None]"
_runs: ContextVar[Mapping[_Key, Run]] = ContextVar("_runs")


class Guard:
    """What a saver and its copies know of the runs that save through them."""

    def note(self, at: Address, found: CheckpointTuple | None) -> None:
        """Remember where a run begins, if that is what this read is for: it asked for the latest checkpoint.

        A run may look at its thread again before it has saved, or at others. Whoever names the checkpoint that a run began at
        means to save on it, whatever has been saved since.
        """
        known = dict(_runs.get({}))
        key = self, at.thread_id, at.namespace or "", at.checkpoint_id or (found.checkpoint["id"] if found else None)
        run = known.pop(key, None)
        if at.checkpoint_id is None:
            known[key] = run if run and not run.is_under_way else Run(at, key[3])
            _runs.set(dict([*known.items()][-_MOST:]))
        elif run:
            _runs.set(known)


def run_on(guard: Guard | None, base: Address) -> Run | None:
    """The run that saves on top of a checkpoint, if there is a guard and it is a run that another might have overtaken."""
    if guard is None:
        return None
    own = guard, base.thread_id, base.namespace or ""
    runs = (run for key, run in _runs.get({}).items() if key[:3] == own and not run.is_under_way)
    return next((run for run in runs if base.checkpoint_id in {run.began_at, *run.own}), None)


def allowed(run: Run | None, ns: bytes) -> Sequence[bytes]:
    """The members that may be the latest of the namespace, as the scripts take them; empty: any."""
    if run is None or run.is_under_way:
        return ()
    return [keys.member(ns, keys.to_id(one)) if one else b"" for one in (run.began_at, *run.own)]


def note_stored(run: Run | None) -> None:
    """A checkpoint of the run is stored: whoever has read an older one is overtaken by it now."""
    if run:
        run.is_under_way = True


def check(run: Run, latest: bytes) -> None:
    """Look at the latest checkpoint that a script refused to save on.

    Raises:
        ConcurrentRunError: it is another run's. (A checkpoint of this run may overtake writes that were sent before it.)
    """
    found = keys.from_id(keys.split_member(latest)[1])
    if run.is_under_way or found in run.own:
        return
    message = (
        f"this run read checkpoint {run.began_at!r} as the latest of thread {run.at.thread_id!r}, namespace"
        f" {run.at.namespace or ''!r}, and another run has saved {found!r} since: nothing was saved. Run again, from the"
        " latest; or fork, from a checkpoint that you name"
    )
    raise ConcurrentRunError(message, run.began_at, found)
