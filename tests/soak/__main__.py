"""`python -m tests.soak`: soak for a while, and print what came of it."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests import servers
from tests.soak.report import lines
from tests.soak.soaking import Plan, soak


def main() -> None:
    """Soak as the command line says."""
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--agents", type=int, default=plan.agents)
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="until the last thread is begun")
    parser.add_argument("--seed", type=int, default=plan.seed)
    parser.add_argument("--server", choices=servers.REAL, default=plan.server)
    parser.add_argument("--turns", type=int, default=plan.turns, help="of each thread")
    parser.add_argument("--pace", type=float, default=plan.pace, help="seconds that a human takes at most")
    parser.add_argument("--quiet", type=float, default=plan.quiet, help="share of the time before the trouble begins")
    report = asyncio.run(soak(Plan(**vars(parser.parse_args()))))
    sys.stdout.writelines(f"{line}\n" for line in lines(report))


main()
