"""The command: measures the parts asked for, prints their tables and, on request, keeps the raw results."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import memory, neighbour, report
from benchmarks.cases import all_cases
from benchmarks.memory import THREADS
from benchmarks.rounds import Timing, time_cases
from benchmarks.server import NAMES, serve
from benchmarks.stage import LONG, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    threads: int
    """Threads of the graph whose memory is measured."""
    seconds: float
    """How long calls are timed."""
    long: int
    """Checkpoints in the long threads of the timed calls."""
    longest: int
    """Checkpoints in the threads that a neighbour has to bear."""
    quiet: float
    """Seconds for each figure that the neighbour's are compared with."""


QUICK = Scale(threads=2, seconds=1, long=500, longest=2000, quiet=0.5)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks", description="Each operation against the raw limit.")
    parser.add_argument("--server", default="valkey", help=f"{', '.join(NAMES)}, or a URL (default: valkey)")
    parser.add_argument("--unix", action="store_true", help="talk to it through a Unix socket instead of loopback TCP")
    parser.add_argument("--only", choices=MEASURE, help="measure just this part")
    parser.add_argument("--seconds", type=float, default=60, help="how long to time calls (default: 60)")
    parser.add_argument("--quick", action="store_true", help="ten seconds in all; the figures are rough")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the raw results")
    return parser.parse_args()


def main() -> None:
    """Measure and report."""
    options = parse()
    scale = QUICK if options.quick else Scale(THREADS, options.seconds, LONG, longest=20_000, quiet=2)
    with serve(options.server, unix=options.unix) as url:
        environment = report.describe_environment(url)
        show(report.environment_lines(environment))
        results: dict[str, Any] = {"environment": environment}
        for part in (options.only,) if options.only else MEASURE:
            results[part] = MEASURE[part](url, scale)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def measure_memory(url: str, scale: Scale) -> dict[str, Any]:
    """What a checkpoint takes in the server's memory."""
    stored = memory.measure(url, scale.threads)
    show(report.memory_lines(stored, scale.threads))
    return asdict(stored)


def measure_calls(url: str, scale: Scale) -> list[dict[str, Any]]:
    """What a call takes."""
    timings = asyncio.run(time_calls(url, scale))
    show(report.timing_lines(timings))
    return report.timings_data(timings)


def measure_neighbour(url: str, scale: Scale) -> list[dict[str, Any]]:
    """What others wait."""
    waits = neighbour.watch(url, scale.longest, scale.quiet)
    show(report.neighbour_lines(waits, scale.longest))
    return [asdict(wait) for wait in waits]


MEASURE: dict[str, Callable[[str, Scale], Any]] = {
    "memory": measure_memory,
    "calls": measure_calls,
    "neighbour": measure_neighbour,
}


async def time_calls(url: str, scale: Scale) -> list[Timing]:
    """Time all cases on a server."""
    stage = Stage(url, scale.long)
    try:
        stage.set_up()
        return await time_cases(stage, all_cases(stage), scale.seconds)
    finally:
        await stage.aclose()


def show(lines: Iterable[str]) -> None:
    """Print a part of the report."""
    sys.stdout.write("\n".join((*lines, "", "")))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
