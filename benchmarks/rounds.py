"""Times the variants of all cases in turn, round by round, so that noise of the machine meets them alike."""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.cases import Arguments, Case
    from benchmarks.stage import Stage

LEAST = 4
"""Rounds at least: quartiles need some."""


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
    """Time each variant once; another begins each time."""
    case = timing.case
    inputs = case.inputs()
    names = list(timing.rounds)
    for at in range(len(names)):
        name = names[(number + at) % len(names)]
        timing.rounds[name].append(await _time(case.variants[name], inputs, awaits=case.kind == "async"))


async def _time(call: Callable[..., Any], inputs: list[Arguments], *, awaits: bool) -> float:
    """The median microseconds of a call."""
    taken: list[float] = []
    for arguments in inputs:
        start = perf_counter()
        if awaits:
            await call(**arguments)
        else:
            call(**arguments)
        taken.append(perf_counter() - start)
    return statistics.median(taken) * 1e6
