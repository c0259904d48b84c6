"""Where workers are born and killed: a process with one thread that has imported all they need, and forks one for each life.

Starting Python and importing LangGraph takes over a second; a fork takes milliseconds. A process with threads, as one that
runs tests or graphs may be, must not be forked: so the nursery is a process of its own, spoken to in lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crashes.events import Ran, decode, encode
from tests.crashes.witness import Place
from tests.crashes.worker import Job, work

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.crashes.events import Event

ROOT = Path(__file__).parents[2]
LONGEST = 30
"""Seconds after which a worker that hangs is ended."""
STEP = f'"event": "{Ran.__name__}"'.encode()


@dataclass(frozen=True, slots=True)
class Kill:
    """When to kill a worker."""

    step: int
    """After as many steps have run in it, those of all threads counted."""
    delay: float
    """Seconds to wait then."""


@dataclass(frozen=True, slots=True)
class Life:
    """The life of a worker."""

    events: list[Event]
    was_killed: bool
    """Or has finished all its threads."""


class Nursery:
    """The nursery, as seen from outside."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.crashes.nursery"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.communicate()

    def live(self, job: Job, kill: Kill | None) -> Life:
        """Let a worker do its job, to its end or until it is killed.

        Raises:
            RuntimeError: it ended otherwise; its traceback is on standard error.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([asdict(job), kill and asdict(kill)]).encode() + b"\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline())
        events = [decode(line.encode()) for line in reply["lines"]]
        if reply["status"] not in {0, -signal.SIGKILL}:
            message = f"a worker ended with status {reply['status']} after {events[-10:]}"
            raise RuntimeError(message)
        return Life(events, was_killed=reply["status"] != 0)


def serve() -> None:
    """Let one worker after the other live, as told on standard input."""
    for line in sys.stdin:
        job, kill = json.loads(line)
        lines, status = live(job, Kill(**kill) if kill else None)
        print(json.dumps({"lines": lines, "status": status}), flush=True)  # noqa: T201 the reply


def live(job: dict[str, Any], kill: Kill | None) -> tuple[list[str], int]:
    """Fork a worker, collect what it reports, and kill it at the given moment: the lines, and how it ended."""
    assert threading.active_count() == 1
    reports, reported = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reports)
        be_worker(job, reported)
    os.close(reported)
    lines = []
    steps = 0
    with open(reports, "rb") as pipe:  # noqa: PTH123 a descriptor
        for line in pipe:
            lines.append(line.decode())
            steps += STEP in line
            if kill and STEP in line and steps == kill.step:
                time.sleep(kill.delay)
                os.kill(pid, signal.SIGKILL)  # not waited for yet, so that the id is still its own
    return lines, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def be_worker(given: dict[str, Any], reported: int) -> None:
    """Do the job and end, without going back to what the nursery was about to do."""
    signal.alarm(LONGEST)
    status = 1
    try:
        place = Place(**given["place"])
        job = Job(place, given["durability"], tuple(given["threads"]))
        work(job, lambda event: os.write(reported, encode(event)))
        status = 0
    except BaseException:  # noqa: BLE001 whatever it is, the traceback is all that is left of it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
