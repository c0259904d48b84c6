"""Times the variants of all cases in turn, round by round, so that noise of the machine meets them alike."""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.cases import Arguments, Case
    from benchmarks.stage import Stage

LEAST = 4
"""Rounds at least: quartiles need some."""

LIMIT = ("raw", "memory")
"""What the limit of a call is made of."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What the rounds of a case gave: for each variant, the median microseconds of a call in each round."""

    case: Case
    rounds: dict[str, list[float]] = field(default_factory=lambda: {"ours": [], "raw": [], "memory": []})

    def median(self, variant: str) -> float:
        """Microseconds of a call."""
        return statistics.median(self.rounds[variant])

    def ratio(self) -> tuple[float, float, float]:
        """Ours by its limit, within each round: lower quartile, median, upper quartile."""
        ratios = [ours / (raw + memory) for ours, raw, memory in zip(*self.rounds.values(), strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        return low, middle, high


async def time_cases(stage: Stage, cases: list[Case], seconds: float) -> list[Timing]:
    """Go through all cases again and again, for about that many seconds."""
    timings = [Timing(case) for case in cases]
    for timing in timings:
        await _add_round(Timing(timing.case), 0)
    gc.collect()
    gc.freeze()  # what the stage holds would otherwise be looked through in the middle of a call
    deadline = monotonic() + seconds
    number = 0
    while number < LEAST or monotonic() < deadline:
        for timing in timings:
            await _add_round(timing, number)
        stage.tidy()
        number += 1
    gc.unfreeze()
    return timings


async def _add_round(timing: Timing, number: int) -> None:
    """Time our calls and those of the limit; each goes first in every other round."""
    inputs = timing.case.inputs()
    for names in (("ours",), LIMIT)[:: 1 if number % 2 else -1]:
        await _time(timing, names, inputs)


async def _time(timing: Timing, names: Sequence[str], inputs: list[Arguments]) -> None:
    """Add the median microseconds of a call of each variant, called by turns."""
    taken: dict[str, list[float]] = {name: [] for name in names}
    for arguments in inputs:
        for name in names:
            call = timing.case.variants[name]
            start = perf_counter()
            if timing.case.kind == "async":
                await call(**arguments)
            else:
                call(**arguments)
            taken[name].append(perf_counter() - start)
    for name in names:
        timing.rounds[name].append(statistics.median(taken[name]) * 1e6)
