"""Processes that run agents are killed at random moments; `make crash` does the same a hundred times for each saver.

What is promised, for each durability, and where LangGraph says so, is in `crashes/rules.py`. The moments are the same for
all savers; what is checked holds whatever the timing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crashes.nursery import Nursery
from tests.crashes.story import THREADS, draw_kills, tell
from tests.crashes.witness import SAVERS, Place
from tests.crashes.worker import Job
from tests.drivers import DURABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import Backend

pytestmark = pytest.mark.newest
KILLS = 3


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where workers live and die."""
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(params=SAVERS)
def place(request: pytest.FixtureRequest, real_backend: Backend, prefix: str, tmp_path: Path) -> Place:
    """Each saver in turn, LangGraph's own for SQLite too: what holds for both is what LangGraph promises."""
    if "Sqlite" in request.param:
        return Place(request.param, str(tmp_path / "checkpoints"))
    return Place(request.param, real_backend.url, prefix)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_killed_agents_go_on_to_the_same_end_and_repeat_no_step_that_was_stored(
    nursery: Nursery, place: Place, durability: str
) -> None:
    """State, history and each step's runs, of four threads at once; then they are deleted, and nothing is left."""
    figures = tell(nursery, Job(place, durability, THREADS), draw_kills(durability, KILLS))
    assert figures.kills >= 1
    assert figures.repeated <= figures.allowed
