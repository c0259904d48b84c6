"""The command `make crash`: a hundred kills for each saver in each durability, and a table of what came of them."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import redis

from langgraph.checkpoint.fastredis.embedded import EmbeddedServer
from tests.crashes.nursery import Nursery
from tests.crashes.story import THREADS, Figures, draw_kills, tell
from tests.crashes.witness import SAVERS, Place
from tests.crashes.worker import Job
from tests.drivers import DURABILITIES

LONGEST_STORY = 12
"""Kills after which a job is left in peace to finish: with durability "exit" it may otherwise take for ever."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m tests.crashes", description="Kill processes that run agents.")
    parser.add_argument("--kills", type=int, default=100, help="for each saver in each durability (default: 100)")
    parser.add_argument("--seed", default="", help="another seed, other moments")
    parser.add_argument("--savers", nargs="+", choices=SAVERS, default=SAVERS, help="just these")
    parser.add_argument("--durabilities", nargs="+", choices=DURABILITIES, default=DURABILITIES, help="just these")
    return parser.parse_args()


def main() -> None:
    """Kill, check and show; a broken promise ends it with an error."""
    options = parse()
    with EmbeddedServer() as server, Nursery() as nursery, tempfile.TemporaryDirectory() as directory:
        with redis.Redis.from_url(server.url) as client:
            what = client.info("server")
        names = ("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite", "redis")
        show(*(f"{name} {version(name)}," for name in names), f"{what.get('server_name', 'redis')}", python())
        show("\n| durability | saver | kills | threads | steps run | of them again | again, a kill | allowed | seconds |")
        show("|---|---|--:|--:|--:|--:|--:|--:|--:|")
        for durability in options.durabilities:
            for saver in options.savers:
                on_file = "Sqlite" in saver
                address = str(Path(directory) / saver) if on_file else server.url
                place = Place(saver, address, "" if on_file else f"crash-{uuid4().hex}")
                show(*measure(nursery, Job(place, durability, THREADS), options.kills, options.seed))
        show("\nEvery thread ended as without kills; no step ran again that was stored; no row or key was left.")


def measure(nursery: Nursery, job: Job, kills: int, seed: str) -> list[str]:
    """Tell stories until there were as many kills; a row of the table."""
    began = time.monotonic()
    total = Figures()
    threads = 0
    while total.kills < kills:
        most = min(LONGEST_STORY, kills - total.kills)
        total += tell(nursery, job, draw_kills(f"{seed}-{threads}", most))
        threads += len(job.threads)
    seconds = time.monotonic() - began
    figures = (total.kills, threads, total.steps, total.repeated, f"{total.repeated / total.kills:.1f}", total.allowed)
    return ["|", " | ".join((job.durability, job.place.saver, *map(str, figures), f"{seconds:.0f}")), "|"]


def python() -> str:
    """The version of Python."""
    return f"on Python {sys.version.split()[0]}"


def show(*words: str) -> None:
    """Print a line at once."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
