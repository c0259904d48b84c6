"""Free ports on the loopback interface, for the tests that need TCP."""

from __future__ import annotations

import random
import socket

BUS = 10_000
"""How far above its own port a cluster node listens for the others, where it is told nothing else."""


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def lasting_port() -> int:
    """A port that is free, and so is the one for a cluster's bus; outgoing connections take neither.

    Systems give these the ports from 32768 up, so that a server that is killed finds its port free when it comes back.
    """
    while True:
        port = random.SystemRandom().randrange(BUS, 32_768 - BUS)
        if _is_free(port) and _is_free(port + BUS):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
