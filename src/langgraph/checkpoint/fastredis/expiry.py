"""How long threads live: the `ttl` options of a saver, in milliseconds.

A thread has one deadline. It never comes sooner than `ttl` after the last write, and at most a tenth of `ttl` later: so it
need not be moved with every write, but once in a tenth of a `ttl`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

_RIGHT_WAYS = "Use ttl=timedelta(hours=1), or LangGraph's mapping in minutes: ttl={'default_ttl': 60}."
_IGNORED = {"sweep_interval_minutes", "strategy"}
_LONGEST = 2**52


class TTLConfig(TypedDict, total=False):
    """LangGraph's mapping of TTL options.

    `sweep_interval_minutes` and `strategy` of the same mapping in `langgraph.json` are accepted and ignored: the server
    itself removes what has expired.
    """

    default_ttl: float | None
    """Minutes that a thread lives after its last write. Absent or `None`: for ever."""
    refresh_on_read: bool
    """Whether a read counts as a write does. Default: no."""
    sweep_interval_minutes: int
    strategy: str


@dataclass(frozen=True, slots=True)
class Expiry:
    """What a saver does about deadlines."""

    least: int = 0
    """Milliseconds that a thread must live after a write; 0: the saver sets no deadline."""
    refresh_on_read: bool = False

    @property
    def lifetime(self) -> int:
        """Milliseconds that a deadline is set ahead, 0 for none."""
        return math.ceil(self.least * 1.1)


def to_milliseconds(ttl: object) -> int:
    """A time to live in milliseconds.

    Raises:
        TypeError: it is no `timedelta`.
        ValueError: it is shorter than a millisecond, or longer than Redis can count.
    """
    if not isinstance(ttl, timedelta):
        message = f"ttl={ttl!r} does not say its unit: some libraries mean seconds, others minutes. {_RIGHT_WAYS}"
        raise TypeError(message)
    milliseconds = ttl // timedelta(milliseconds=1)
    if not 0 < milliseconds < _LONGEST:
        message = f"ttl={ttl!r} must be positive, at least a millisecond, and less than 100,000 years. {_RIGHT_WAYS}"
        raise ValueError(message)
    return milliseconds


def _minutes(ttl: object) -> timedelta:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        message = f"default_ttl={ttl!r} must be a number of minutes. {_RIGHT_WAYS}"
        raise TypeError(message)
    try:
        return timedelta(minutes=ttl)
    except (ValueError, OverflowError):
        message = f"default_ttl={ttl!r} is not a number of minutes that a thread can live. {_RIGHT_WAYS}"
        raise ValueError(message) from None


def _from_mapping(options: Mapping[str, object]) -> Expiry:
    if unknown := set(options) - {"default_ttl", "refresh_on_read"} - _IGNORED:
        message = f"unknown ttl options {sorted(map(str, unknown))}. {_RIGHT_WAYS}"
        raise ValueError(message)
    refresh = options.get("refresh_on_read", False)
    if not isinstance(refresh, bool):
        message = f"refresh_on_read={refresh!r} must be True or False"
        raise TypeError(message)
    minutes = options.get("default_ttl")
    return Expiry(0 if minutes is None else to_milliseconds(_minutes(minutes)), refresh_on_read=refresh)


def parse_ttl(ttl: timedelta | TTLConfig | None) -> Expiry:
    """Read the `ttl` argument of a saver.

    Raises:
        TypeError: the unit is not clear, as with a bare number.
        ValueError: it is not positive, too long, or has an unknown option.
    """
    if ttl is None:
        return Expiry()
    if isinstance(ttl, Mapping):
        return _from_mapping(ttl)
    return Expiry(to_milliseconds(ttl))
