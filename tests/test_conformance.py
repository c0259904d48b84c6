"""LangGraph's own conformance suite, on every server and both savers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from tests.conftest import Savers


@pytest.mark.parametrize("capability", [capability.value for capability in Capability])
async def test_each_capability_is_detected_and_passed(make_saver: Savers, capability: str) -> None:
    """The sync saver through its async methods, as the suite calls no others."""

    @checkpointer_test(name=f"{make_saver.kind} saver on {make_saver.backend.name}")
    async def fresh_saver() -> AsyncGenerator[BaseCheckpointSaver[float], None]:
        yield make_saver.sync() if make_saver.kind == "sync" else make_saver.asynchronous()

    report = await validate(fresh_saver, capabilities={capability})
    result = report.results[capability]
    assert (result.detected, result.passed, result.tests_failed, result.failures) == (True, True, 0, [])
    assert result.tests_passed > 0
