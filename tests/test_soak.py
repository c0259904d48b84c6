"""The short form of the soak in `tests.soak`: a few agents, and each kind of trouble once or twice."""

from __future__ import annotations

import pytest

from tests.soak.soaking import Plan, soak

pytestmark = pytest.mark.newest  # LangGraph's `interrupt` in async nodes needs Python 3.11

TROUBLE = {"kill_primary", "kill_replica", "freeze_primary", "kill_connections", "flush_scripts", "move_slot"}
OTHERS = {"list", "list_threads", "copy_thread", "delete_thread"}


async def test_agents_on_a_cluster_in_trouble_end_as_they_would_have_in_peace() -> None:
    """And leave nothing behind. That their states are those of their twins is looked at by the soak itself."""
    report = await soak(Plan(agents=12, seconds=0, turns=3, pace=2))
    assert report.threads >= report.plan.agents
    assert report.figures.done.keys() >= TROUBLE | OTHERS
