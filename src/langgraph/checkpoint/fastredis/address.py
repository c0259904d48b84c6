"""Which checkpoint a `RunnableConfig` speaks of; refuses, before anything is sent, what names none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.runnables import RunnableConfig


class Address(NamedTuple):
    """A thread, a namespace in it (`None`: all of them), and a checkpoint in that (`None`: the latest)."""

    thread_id: str
    namespace: str | None
    checkpoint_id: str | None

    def config(self) -> RunnableConfig:
        """The config that names exactly this checkpoint."""
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.namespace or "",
                "checkpoint_id": self.checkpoint_id,
            }
        }


def to_text(value: object, name: str) -> str:
    """An id as text: `1` and `"1"` are the same id.

    Raises:
        ValueError: there is none.
        TypeError: it is something that has no one form as text, as a mapping.
    """
    if value is None:
        message = f"{name} is missing; without it the state of different users would meet in one place"
        raise ValueError(message)
    if isinstance(value, str):
        return value
    if isinstance(value, (int, UUID)) and not isinstance(value, bool):
        return str(value)
    message = f"{name} must be text (or an integer or UUID), not {type(value).__name__}: {value!r}"
    raise TypeError(message)


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    configurable = config.get("configurable")
    if not configurable or configurable.get("thread_id") is None:
        message = "the config names no thread; pass {'configurable': {'thread_id': '...'}}"
        raise ValueError(message)
    return configurable


def parse(config: RunnableConfig) -> Address:
    """Read a config; an absent namespace stays `None`, an empty checkpoint id counts as absent."""
    configurable = _configurable(config)
    namespace = configurable.get("checkpoint_ns")
    return Address(
        to_text(configurable["thread_id"], "thread_id"),
        None if namespace is None else to_text(namespace, "checkpoint_ns"),
        parse_id(configurable),
    )


def parse_id(configurable: Mapping[str, Any]) -> str | None:
    """The checkpoint id of a config's `configurable`, if there is one."""
    checkpoint_id = configurable.get("checkpoint_id")
    return None if checkpoint_id in (None, "") else to_text(checkpoint_id, "checkpoint_id")
