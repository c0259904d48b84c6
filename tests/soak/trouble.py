"""Makes trouble in a cluster: one kind after the other, in an order that a seed decides."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import redis

from tests.clusters import NODE_TIMEOUT, slot_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from random import Random

    from tests.clusters import Cluster
    from tests.soak.driving import Clock
    from tests.soak.figures import Figures
    from tests.soak.tending import Threads

PATIENCE = 60.0
"""Seconds within which a cluster must be whole again, on a machine with more to do."""
BETWEEN = (0.1, 0.5)
"""Seconds between two kinds of trouble, at least and at most."""

STEP = 0.01
"""Seconds between two batches of keys that move."""


class Trouble:
    """Trouble for a cluster and for those who use it.

    Args:
        cluster: It.
        clock: Until when.
        figures: Where it is counted.
        rng: What decides.
        threads: The slots of which are moved.
    """

    def __init__(self, cluster: Cluster, clock: Clock, figures: Figures, rng: Random, threads: Threads) -> None:
        self._cluster = cluster
        self._clock = clock
        self._figures = figures
        self._rng = rng
        self._threads = threads

    def make(self) -> None:
        """Make trouble until the clock closes, and leave a cluster that is whole; all kinds come before any comes again."""
        kinds = [
            *(self.kill_primary, self.kill_replica, self.freeze_primary),
            *(self.kill_connections, self.flush_scripts, self.move_slot) * 2,
        ]
        while self._clock.is_open:
            self._rng.shuffle(kinds)
            for kind in kinds:
                time.sleep(self._rng.uniform(*BETWEEN))
                if self._clock.is_open:
                    kind()
                    self._figures.done[kind.__name__] += 1
            self._clock.is_held_open = False

    def kill_primary(self) -> None:
        """SIGKILL; its replica takes over, and it comes back as the replica of that one."""
        node = self._rng.choice(self._cluster.primaries())
        began = time.monotonic()
        self._cluster.kill(node)
        self._wait(meddling=True)
        self._figures.takeovers.append(time.monotonic() - began)
        self._cluster.restart(node)
        self._wait()

    def kill_replica(self) -> None:
        """SIGKILL; meanwhile nothing that its primary saves is confirmed."""
        primaries = self._cluster.primaries()
        node = self._rng.choice([one for one in self._cluster.live() if one not in primaries])
        self._cluster.kill(node)
        time.sleep(self._rng.uniform(0, 2 * NODE_TIMEOUT / 1000))
        self._cluster.restart(node)
        self._wait()

    def freeze_primary(self) -> None:
        """SIGSTOP, until after its replica has taken over; then it goes on where it was."""
        node = self._rng.choice(self._cluster.primaries())
        (replica,) = self._cluster.replicas(node)
        assert node.server
        os.kill(node.server.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: bool(replica.places()[replica.id].slots), seconds=PATIENCE)
        finally:
            os.kill(node.server.pid, signal.SIGCONT)
        self._wait()

    def kill_connections(self) -> None:
        """All of a node's clients have to connect again."""
        with suppress(redis.ConnectionError):  # that of the one who asks may be among them
            self._rng.choice(self._cluster.live()).ask("CLIENT KILL TYPE normal")

    def flush_scripts(self) -> None:
        """No node knows any script."""
        for node in self._cluster.live():
            node.ask("SCRIPT FLUSH")

    def move_slot(self) -> None:
        """The slot of a thread that is being worked on goes to another primary, slowly."""
        slot = slot_of(f"{{{self._rng.choice(self._threads.open() or self._threads.begun).thread_id}}}")
        owner = self._cluster.owner(slot)
        to = self._rng.choice([node for node in self._cluster.primaries() if node is not owner])
        self._cluster.move_slot(slot, to, batch=2, between=lambda: time.sleep(STEP))
        self._cluster.wait_until_replicated(to, seconds=PATIENCE)
        self._wait()

    def _wait(self, *, meddling: bool = False) -> None:
        """Until the cluster is whole; with small trouble meanwhile, perhaps."""
        deadline = time.monotonic() + PATIENCE
        while meddling and time.monotonic() < deadline:
            with suppress(AssertionError):
                self._cluster.wait_until_ok(seconds=self._rng.uniform(*BETWEEN))
                return
            self._rng.choice([self.kill_connections, self.flush_scripts])()
        self._cluster.wait_until_ok(seconds=PATIENCE)
