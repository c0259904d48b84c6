"""Results as plain tables, and as data to keep."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.memory import Stored
    from benchmarks.neighbour import Wait
    from benchmarks.rounds import Timing

_PACKAGES = ("redis", "hiredis", "langgraph-checkpoint", "langgraph", "langgraph-checkpoint-fastredis")


def describe_environment(url: str) -> dict[str, str]:
    """What the figures depend on."""
    with redis.Redis.from_url(url) as client:
        info = client.info("server")
    valkey = info.get("valkey_version")
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f} before the run",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
        "server": f"Valkey {valkey}" if valkey else f"Redis {info['redis_version']}",
        "transport": "Unix socket" if url.startswith("unix:") else "TCP",
    }


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, ["-" * width for width in widths], *rows):
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join((first.strip().ljust(widths[0]), *rest)).rstrip()


def environment_lines(environment: dict[str, str]) -> Iterator[str]:
    """One line for each thing that the figures depend on."""
    for name, value in environment.items():
        yield f"{name + ':':<11}{value}"


def timing_lines(timings: Sequence[Timing]) -> Iterator[str]:
    """The timed calls against their limits."""
    yield f"Microseconds of a call, medians of {len(timings[0].rounds['ours'])} rounds. The limit is SET or GET of the same"
    yield "bytes by the same client, plus InMemorySaver's time for the same call. Ratio: median and quartiles over rounds."
    yield ""
    header = ("operation", "thread", "bytes", "saver", "ttl", "ours", "SET/GET", "InMemory", "ours/limit", "quartiles")
    yield from table(header, [_timing_row(timing) for timing in timings])


def _timing_row(timing: Timing) -> tuple[str, ...]:
    case = timing.case
    low, middle, high = timing.ratio()
    return (
        case.operation,
        f"{case.checkpoints:,}",
        f"{case.bytes:,}",
        case.kind,
        "yes" if case.expires else "no",
        *(f"{timing.median(variant):,.0f}" for variant in ("ours", "raw", "memory")),
        f"{middle:.2f}",
        f"{low:.2f}-{high:.2f}",
    )


def neighbour_lines(waits: Sequence[Wait], checkpoints: int) -> Iterator[str]:
    """What a neighbour waits."""
    yield f"Milliseconds that PING takes another client while this is done to a thread of {checkpoints:,} checkpoints."
    yield "Longest script: by the server's slow log, which leaves short ones out."
    yield ""
    header = ("operation", "took", "pings", "median", "99.9 %", "longest", "longest script")
    yield from table(header, [_wait_row(wait) for wait in waits])


def _wait_row(wait: Wait) -> tuple[str, ...]:
    script = "-" if wait.script is None else f"{wait.script:.1f}"
    times = (f"{time:.2f}" for time in (wait.median, wait.most, wait.longest))
    return (wait.operation, f"{wait.took:,.0f}", f"{wait.pings:,}", *times, script)


def memory_lines(stored: Stored, threads: int) -> Iterator[str]:
    """What a checkpoint takes."""
    yield f"Bytes for a checkpoint, of {stored.checkpoints:,} in {threads} threads that grow by a message of 430 bytes at each"
    yield f"superstep, in {stored.keys:,} keys. Serialized: what InMemorySaver holds for them, without any overhead."
    yield ""
    sizes = (stored.usage, stored.used, stored.serialized)
    yield from table(
        ("MEMORY USAGE", "used_memory", "serialized"), [tuple(f"{size / stored.checkpoints:,.0f}" for size in sizes)]
    )


def timings_data(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """All rounds of all cases, to be kept as JSON."""
    return [
        {
            "operation": timing.case.operation,
            "checkpoints": timing.case.checkpoints,
            "bytes": timing.case.bytes,
            "saver": timing.case.kind,
            "ttl": timing.case.expires,
            "microseconds": timing.rounds,
        }
        for timing in timings
    ]
