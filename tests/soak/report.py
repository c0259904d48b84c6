"""What came of a soak, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from tests.soak.soaking import Report


def lines(report: Report) -> Iterator[str]:
    """The table, in Markdown."""
    yield "| what | figure |"
    yield "|---|---|"
    for name, value in _rows(report):
        yield f"| {name} | {value} |"


def _rows(report: Report) -> Iterator[tuple[str, str]]:
    plan, figures = report.plan, report.figures
    yield "plan", f"{plan.agents} agents, {plan.seconds:.0f} s, seed {plan.seed}, {plan.server}"
    yield "threads, equal to their twins", f"{report.threads}, {report.pruned} of them pruned"
    yield "turns", f"{report.threads * plan.turns}"
    yield "supersteps", f"{report.supersteps}"
    yield "calls", f"{sum(map(len, figures.took.values())):,}, and {figures.failed.total()} that failed"
    yield "errors that agents met", _counts(figures.errors)
    yield "errors of calls", _counts(figures.failed)
    yield "done", _counts(figures.done)
    seconds = sorted(figures.takeovers) or [0.0]
    yield "failovers took", f"{seconds[0]:.1f} to {seconds[-1]:.1f} s, median {seconds[len(seconds) // 2]:.1f} s"
    for name, in_trouble in (("quiet", False), ("trouble", True)):
        shares = (figures.percentile(share, in_trouble=in_trouble) for share in (0.5, 0.99, 0.999, 1))
        yield f"a call in {name}: p50, p99, p99.9, longest", ", ".join(f"{one:.1f} ms" for one in shares)
    yield "wall time", ", ".join(f"{name} {value:.0f} s" for name, value in report.seconds.items())


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"
