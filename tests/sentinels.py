"""Real servers watched by real sentinels: processes on loopback ports, the primary of which can be killed or demoted.

    with Sentinels(servers.binary("valkey-9")) as sentinels:  # a primary, two replicas, three sentinels
        saver = RedisSaver.from_url(sentinels.url)
        sentinels.kill_primary()
        sentinels.wait_until_ok()  # a replica has become the primary

All ends with the `with` block, or with the process.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from tests.nodes import Node
from tests.ports import lasting_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

SERVICE = "service"
DOWN_AFTER = 500
"""Milliseconds of silence after which a sentinel takes the primary for dead; a failover takes about three seconds more."""
_SETTINGS = {"down-after-milliseconds": str(DOWN_AFTER), "failover-timeout": "2000"}


class Sentinels:
    """A primary with two replicas, and three sentinels that know each other and all of them once the object exists.

    Attributes:
        nodes: The servers, the first primary first, whatever has become of them since.
        sentinels: The sentinels.
        url: For a saver.
    """

    def __init__(self, binary: str) -> None:
        self.nodes: list[Node] = []
        self.sentinels: list[Node] = []
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fastredis-sentinels-")))
            for at in range(3):
                following = ["--replicaof", "127.0.0.1", str(self.nodes[0].port)] if at else []
                self.nodes.append(Node(binary, lasting_port(), ["--repl-diskless-sync-delay", "0", *following]))
                stack.callback(self.nodes[-1].stop)
            wait_until(lambda: all(_follows(node, self.nodes[0]) for node in self.nodes[1:]), seconds=20)
            for at in range(3):
                program = _program(binary, directory / str(at), self.nodes[0].port)
                self.sentinels.append(Node(program, lasting_port(), []))
                stack.callback(self.sentinels[-1].stop)
                _hurry(self.sentinels[-1])
            self.wait_until_ok()
            self._stack = stack.pop_all()
        self.url = f"redis+sentinel://{','.join(one.address for one in self.sentinels)}/{SERVICE}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all of them."""
        self._stack.close()

    def live(self) -> list[Node]:
        """The servers that run."""
        return [node for node in self.nodes if node.server]

    def primary(self) -> Node:
        """The server that the sentinels name."""
        port = self._ports()[0]
        return next(node for node in self.nodes if node.port == port)

    def kill_primary(self) -> Node:
        """SIGKILL."""
        primary = self.primary()
        primary.stop()
        return primary

    def restart(self, node: Node) -> None:
        """Start a killed server again, as a replica of the primary."""
        node.start()
        node.ask("REPLICAOF 127.0.0.1", self.primary().port)
        self.wait_until_ok()

    def follow(self, node: Node) -> None:
        """Have a server that is on its own follow the primary."""
        primary = self.primary()
        node.ask("CONFIG SET min-replicas-to-write", 0)
        node.ask("REPLICAOF 127.0.0.1", primary.port)
        wait_until(lambda: _follows(node, primary))
        for one in self.sentinels:
            one.ask("SENTINEL REMOVE", SERVICE)
        self._watch(primary)  # anew, or they would learn of the replica in ten seconds' time
        self.wait_until_ok()

    def demote_primary(self) -> Node:
        """Tell the sentinels to make another one the primary; this one lives on, in the end as its replica."""
        primary = self.primary()
        wait_until(lambda: self._is_replaced(primary), seconds=20)
        return primary

    def replace_primary(self, *, knows: bool = True) -> Node:
        """Have another one the primary behind the back of all clients: their connections to this one stay.

        Where it `knows`, it is a replica now; otherwise it has lost its replicas, and takes no more writes without one.
        """
        primary, heir, *others = sorted(self.live(), key=lambda node: node != self.primary())
        if not knows:
            primary.ask("CONFIG SET min-replicas-to-write", 1)
        for one in self.sentinels:
            one.ask("SENTINEL REMOVE", SERVICE)
        heir.ask("REPLICAOF NO ONE")
        followers = [*others, primary] if knows else others
        for node in followers:
            node.ask("REPLICAOF 127.0.0.1", heir.port)
        wait_until(lambda: all(_follows(node, heir) for node in followers))
        wait_until(lambda: primary.info("INFO replication")["connected_slaves"] == "0")
        self._watch(heir)
        return primary

    def _watch(self, primary: Node) -> None:
        for one in self.sentinels:
            one.ask("SENTINEL MONITOR", SERVICE, "127.0.0.1", primary.port, 2)
            one.ask("SENTINEL SET", SERVICE, *itertools.chain(*_SETTINGS.items()))

    def wait_until_replicated(self) -> None:
        """Return once the replicas have what the primary has now."""
        written = int(self.primary().info("INFO replication")["master_repl_offset"])
        following = [node for node in self.live() if node != self.primary()]
        wait_until(lambda: all(int(one.info("INFO replication")["slave_repl_offset"]) >= written for one in following))

    def wait_until_ok(self, *, seconds: float = 30) -> None:
        """Return once all sentinels name the same running primary, and know that all other running servers follow it."""
        wait_until(self._is_ok, seconds=seconds)

    def _ports(self) -> list[int]:
        """What each sentinel takes for the primary."""
        named = [one.client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE) for one in self.sentinels]
        return [int(address[1]) for address in named]

    def _is_replaced(self, primary: Node) -> bool:
        if self._ports()[0] == primary.port:
            with contextlib.suppress(redis.exceptions.ResponseError):  # it is under way, or no replica is known to be fit yet
                self.sentinels[0].ask("SENTINEL FAILOVER", SERVICE)
            return False
        return True

    def _is_ok(self) -> bool:
        ports = self._ports()
        primary = next(node for node in self.nodes if node.port == ports[0])
        if len(set(ports)) > 1 or primary.server is None:
            return False
        others = [node for node in self.live() if node != primary]
        known: list[Any] = [one.client.sentinel_master(SERVICE) for one in self.sentinels]
        return (
            primary.info("INFO replication")["role"] == "master"
            and all(_follows(node, primary) for node in others)
            and all(one["num-other-sentinels"] == len(self.sentinels) - 1 and one["num-slaves"] >= len(others) for one in known)
        )


def _follows(node: Node, primary: Node) -> bool:
    told = node.info("INFO replication")
    return told.get("master_link_status") == "up" and told.get("master_port") == str(primary.port)


def _hurry(sentinel: Node) -> None:
    """Have it look around more often, where it can be told to; before Redis 7.0 a demotion takes ten seconds."""
    with contextlib.suppress(redis.exceptions.ResponseError):
        sentinel.ask("SENTINEL DEBUG PUBLISH-PERIOD 250 INFO-PERIOD 500")


def _program(binary: str, directory: Path, port: int) -> str:
    """A program that is a sentinel: it takes the arguments of a server, and has a file that it may write to."""
    directory.mkdir()
    settings = directory / "sentinel.conf"
    settings.write_text(
        f"sentinel monitor {SERVICE} 127.0.0.1 {port} 2\n"
        + "".join(f"sentinel {name} {SERVICE} {value}\n" for name, value in _SETTINGS.items())
    )
    program = directory / "sentinel"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(binary)} {shlex.quote(str(settings))} --sentinel "$@"\n')
    program.chmod(0o700)
    return str(program)
