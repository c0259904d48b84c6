"""The command: measures the parts asked for, prints their tables and, on request, keeps the raw results."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import report
from benchmarks.cases import all_cases
from benchmarks.memory import THREADS, measure_memory
from benchmarks.neighbour import watch_neighbour
from benchmarks.rounds import Timing, time_cases
from benchmarks.server import NAMES, serve
from benchmarks.stage import LONG, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTS = ("memory", "calls", "neighbour")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks", description="Each operation against the raw limit.")
    parser.add_argument("--server", default="valkey", help=f"{', '.join(NAMES)}, or a URL (default: valkey)")
    parser.add_argument("--unix", action="store_true", help="talk to it through a Unix socket instead of loopback TCP")
    parser.add_argument("--only", choices=PARTS, help="measure just this part")
    parser.add_argument("--seconds", type=float, default=60, help="how long to time calls (default: 60)")
    parser.add_argument("--quick", action="store_true", help="a few seconds in all; the figures are rough")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the raw results")
    return parser.parse_args()


def main() -> None:
    """Measure and report."""
    options = parse()
    seconds, long, threads, longest = (1.0, 500, 2, 2000) if options.quick else (options.seconds, LONG, THREADS, 20_000)
    parts = (options.only,) if options.only else PARTS
    with serve(options.server, unix=options.unix) as url:
        environment = report.describe_environment(url)
        show(report.environment_lines(environment))
        results: dict[str, Any] = {"environment": environment}
        if "memory" in parts:
            stored = measure_memory(url, threads)
            show(report.memory_lines(stored, threads))
            results["memory"] = report.plain(stored)
        if "calls" in parts:
            timings = asyncio.run(time_calls(url, long, seconds))
            show(report.timing_lines(timings))
            results["calls"] = report.timings_data(timings)
        if "neighbour" in parts:
            waits = watch_neighbour(url, longest)
            show(report.neighbour_lines(waits, longest))
            results["neighbour"] = [report.plain(wait) for wait in waits]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


async def time_calls(url: str, long: int, seconds: float) -> list[Timing]:
    """Time all cases on a server."""
    stage = Stage(url, long)
    try:
        return await time_cases(stage, all_cases(stage), seconds)
    finally:
        await stage.aclose()


def show(lines: Iterable[str]) -> None:
    """Print a part of the report."""
    sys.stdout.write("\n".join((*lines, "", "")))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
