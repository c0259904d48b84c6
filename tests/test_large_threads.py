"""A thread of 20,000 checkpoints: every operation on it goes in pages that hold the server for a moment only.

How long such a moment is, is measured in `benchmarks/`; here the work and the size of each page are bounded.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.build import Chain, config_of, id_of
from tests.conftest import keys_under
from tests.recording import MeasuringSaver, RecordingSaver

if TYPE_CHECKING:
    from tests.servers import Backend

LENGTH = 20_000
SEED_AT = 19_000
COMMANDS = 1_600
"""Commands in one script call at most: three for each of a page's 500 checkpoints, and some."""
BYTES = 3 << 20
"""Size of a call or reply at most: a megabyte, and the checkpoint that went past it, and what is said beside."""


async def long_thread(saver: Any) -> Chain:
    """20,000 checkpoints with a delta channel whose seed is a thousand steps back."""
    chain = Chain(_Quick(saver), "long")
    for step in range(LENGTH):
        counters = {"items": (step - SEED_AT, step - SEED_AT)} if step > SEED_AT else {}
        changed = {"plain": [step] * 20, **({"items": ["seed"]} if step == SEED_AT else {})}
        await chain.put(changed, cleared=["items"] if step > SEED_AT else [], counters_since_delta_snapshot=counters)
        chain.values.pop("items", None)
    return chain


class _Quick:
    """A saver's `aput`, without a hop to a thread."""

    def __init__(self, saver: Any) -> None:
        self.get_next_version = saver.get_next_version
        self._saver = saver

    async def aput(self, *args: Any) -> Any:
        return self._saver.put(*args)


async def test_a_long_thread_is_worked_on_in_short_pages(real_backend: Backend, prefix: str) -> None:
    """Listed, expired, pinned, copied, pruned and deleted; its delta channel stays whole."""
    with real_backend.client() as client:
        saver = MeasuringSaver(client, prefix=prefix)
        plain = RecordingSaver(client, prefix=prefix)
        chain = await long_thread(plain)
        history = saver.get_delta_channel_history(config=chain.config, channels=["items"])
        assert history["items"]["seed"] == ["seed"]
        assert [found.metadata["step"] for found in saver.list(config_of("long"))] == list(range(LENGTH - 1, -1, -1))
        assert saver.expire_thread("long", timedelta(hours=1))
        assert min(client.pttl(key) for key in client.scan_iter(match=f"{prefix}:*", count=5000)) > 3_500_000
        assert saver.persist_thread("long")
        saver.copy_thread("long", "copy")
        assert [thread.checkpoints for thread in saver.list_threads()] == [LENGTH, LENGTH]
        saver.prune(["copy"])
        assert [id_of(found.config) for found in saver.list(config_of("copy"))] == [id_of(chain.config)]
        assert saver.get_delta_channel_history(config=config_of("copy"), channels=["items"]) == history
        assert client.hlen(f"{prefix}:{{copy}}:channels") == LENGTH - SEED_AT + 1
        saver.delete_thread("long")
        saver.delete_thread("copy")
        assert keys_under(client, prefix) == []
        assert saver.most_commands <= COMMANDS
        assert saver.most_bytes <= BYTES
