"""What can be compared between two runs of an agent: ids and times differ, so they get names or are left out."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import BaseMessage
from langgraph.types import Send, StateSnapshot
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{32}\b")


class Names:
    """Puts what differs from run to run out of the way: ids become `<0>`, `<1>`…, in the order in which they appear."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def text(self, text: str) -> str:
        """A text, with names for the ids in it."""
        return _ID.sub(lambda found: self._names.setdefault(found[0], f"<{len(self._names)}>"), text)

    def known(self, text: str) -> str:
        """The same, for an order in which to name: ids that have no name yet stay without."""
        return _ID.sub(lambda found: self._names.get(found[0], "<?>"), text)

    def __call__(self, value: Any) -> Any:
        """A value, with names for the ids in it. Its type stays visible."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            shown: Any = _place(cast("RunnableConfig", value)) if value.keys() == {"configurable"} else value
            return {self(key): self(shown[key]) for key in sorted(shown, key=lambda key: self.known(str(key)))}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return self._fields(value, value._asdict())
        if isinstance(value, (list, tuple)):
            return type(value)(map(self, value))
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if isinstance(value, Send):
            return self._fields(value, {"node": value.node, "arg": value.arg})
        if isinstance(value, (BaseMessage, BaseModel)):
            return self._fields(value, dict(value))
        if dataclasses.is_dataclass(value):
            return self._fields(value, {one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
        if isinstance(value, BaseException):
            return self._fields(value, {"args": value.args})
        return value

    def _fields(self, value: Any, fields: Mapping[str, Any]) -> tuple[str, Any]:
        shown = {name: _place(one) if name in ("config", "parent_config") else one for name, one in fields.items()}
        shown.pop("created_at", None)
        return type(value).__name__, {name: self(one) for name, one in shown.items()}


def first_difference(ours: Any, reference: Any, path: str = "") -> str | None:
    """Where two values differ and how; states are too large to be shown whole."""
    if type(ours) is type(reference) and isinstance(ours, dict) and ours.keys() == reference.keys():
        pairs = [(f"{path}[{key!r}]", one, reference[key]) for key, one in ours.items()]
    elif type(ours) is type(reference) and isinstance(ours, (list, tuple)) and len(ours) == len(reference):
        pairs = [(f"{path}[{at}]", one, reference[at]) for at, one in enumerate(ours)]
    else:
        return (
            None if ours == reference else f"{path}: ours is {_shown(ours, reference)}, the reference {_shown(reference, ours)}"
        )
    return next(filter(None, (first_difference(one, other, at) for at, one, other in pairs)), None)


def _shown(value: Any, other: Any) -> str:
    if isinstance(value, list) and isinstance(other, list):
        return f"{len(value)} items, {[one for one in value if one not in other]} not in the other"
    return repr(value)


def id_of(config: RunnableConfig) -> str:
    """The checkpoint that a config names."""
    return str(config["configurable"]["checkpoint_id"])


def _place(config: RunnableConfig | None) -> dict[str, Any] | None:
    """Which checkpoint of its thread a config names; `InMemorySaver` hands on whatever else it was given."""
    keys = ("checkpoint_ns", "checkpoint_id")
    return None if config is None else {key: config["configurable"][key] for key in keys if key in config["configurable"]}


def without_parent(state: StateSnapshot) -> StateSnapshot:
    """A state as it is, not as it came about; those of subgraphs too."""
    tasks = tuple(
        task._replace(state=without_parent(task.state)) if isinstance(task.state, StateSnapshot) else task
        for task in state.tasks
    )
    return state._replace(parent_config=None, tasks=tasks)


def by_namespace(stored: Iterable[CheckpointTuple], names: Names) -> dict[str, Any]:
    """Stored checkpoints as they can be compared, namespace by namespace."""
    groups: defaultdict[str, list[CheckpointTuple]] = defaultdict(list)
    for one in stored:
        groups[one.config["configurable"]["checkpoint_ns"]].append(one)
    in_order = sorted(groups, key=lambda ns: (names.known(ns), id_of(groups[ns][-1].config)))
    return {names(ns): [names(_stripped(one)) for one in groups[ns]] for ns in in_order}


def _stripped(found: CheckpointTuple) -> CheckpointTuple:
    """Without its time, and with versions that count updates only: their fractions are random, their types the saver's own."""
    checkpoint: dict[str, Any] = {**found.checkpoint}
    del checkpoint["ts"]
    checkpoint["channel_versions"] = _counts(checkpoint["channel_versions"])
    checkpoint["channel_values"] = {
        channel: _settled(channel, value) for channel, value in checkpoint["channel_values"].items()
    }
    checkpoint["versions_seen"] = {node: _counts(seen) for node, seen in checkpoint["versions_seen"].items()}
    return found._replace(checkpoint=cast("Any", checkpoint))


def _settled(channel: str, value: Any) -> Any:
    """A value that does not depend on when it was saved: a sync run that ends with an interrupt fills joins meanwhile."""
    return type(value) if channel.startswith("join:") else value


def _counts(versions: Mapping[str, Any]) -> dict[str, int]:
    # Ours skips a random number of integers, so that only which channels have a version can be compared of those.
    return {
        channel: -1 if isinstance(version, int) else int(str(version).partition(".")[0])
        for channel, version in versions.items()
    }
