"""`make demo`, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import redis

    from tests.servers import Backend

ROOT = Path(__file__).parents[1]
SHOWN = (
    r"20 turns, 40 messages, the last 'You said: hello 19'",
    r"median \d+\.\d ms a turn",
    r"second process: asked 'refund 30 euros\?', answers yes",
    r"resumed: 'Done: refunded'",
    r"(?s)step  3.*step  2.*step  1.*step  0.*step -1",
    r"without the tool: 'You said: Never mind, thanks\.'",
    r"now 7 checkpoints; the 5 old ones are as they were",
    r"120 lines rebuilt; 0\.\d MB stored, the whole log at each turn is 7\.3 MB",
    r"pruned to 1 checkpoint; the log is the same",
    r"thread 'chat': 60 checkpoints, expires in 1:0\d",
    r"told to expire in 0\.1 s; \d\.\d s later the server holds 0 keys of ours",
)


def run_demo(**environment: str) -> str:
    """What it prints."""
    clean = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    command = [sys.executable, "-m", "demo"]
    done = subprocess.run(command, cwd=ROOT, env=clean | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_shows_it_all_on_an_embedded_server() -> None:
    """With figures, and the right ones where they do not depend on the machine."""
    printed = run_demo()
    for pattern in SHOWN:
        assert re.search(pattern, printed), (pattern, printed)


def test_the_demo_on_a_server_of_the_users_leaves_it_as_it_was(real_backend: Backend) -> None:
    """Under a prefix of its own."""
    client: redis.Redis
    with real_backend.client(db=5) as client:
        client.set("the user's", "value")
        printed = run_demo(REDIS_URL=f"{real_backend.url}?db=5")
        assert "the one of REDIS_URL" in printed
        assert client.keys() == [b"the user's"]
        client.delete("the user's")
