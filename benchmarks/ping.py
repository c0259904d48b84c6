"""The neighbour: a client in a process of its own that sends PING after PING until its standard input ends.

Run as `python -m benchmarks.ping URL`. It writes a line once it is under way, and at the end its waits: seconds, as doubles.
"""

from __future__ import annotations

import sys
import threading
from array import array
from time import perf_counter

import redis


def main(url: str) -> None:
    """Ping until standard input ends."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    waits = array("d")
    with redis.Redis.from_url(url) as client:
        connection = client.connection_pool.get_connection()
        for _ in range(1000):
            client.ping()
        sys.stdout.buffer.write(b"ready\n")
        sys.stdout.buffer.flush()
        while not ended.is_set():
            start = perf_counter()
            connection.send_command("PING")
            connection.read_response()
            waits.append(perf_counter() - start)
    sys.stdout.buffer.write(waits.tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
