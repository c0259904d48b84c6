"""Real clusters: processes on loopback ports that know each other, can be killed, and hand slots around.

    with Cluster(servers.binary("valkey-9")) as cluster:  # three primaries, a replica each
        saver = RedisSaver.from_url(cluster.url)
        cluster.move_slot(slot, cluster.primaries()[0])
        cluster.kill(cluster.owner(slot))
        cluster.wait_until_ok()  # a replica has taken over

All ends with the `with` block, or with the process. Methods may be called from any thread, one at a time.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redis.crc import key_slot

from tests.nodes import Node
from tests.ports import lasting_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

SLOTS = 16_384
NODE_TIMEOUT = 1000
"""Milliseconds of silence after which a node counts as failed; a replica takes over about two seconds later."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a node says of one node of the cluster."""

    id: str
    is_primary: bool
    primary: str
    slots: frozenset[int]


class ClusterNode(Node):
    """One server of a cluster."""

    def __init__(self, binary: str, port: int, settings: Sequence[str]) -> None:
        super().__init__(binary, port, settings)
        self.id = self.ask("CLUSTER MYID")

    def places(self) -> dict[str, Place]:
        """The whole cluster as this node sees it, by node id."""
        found = [_place(line.split()) for line in self.ask("CLUSTER NODES").splitlines()]
        return {place.id: place for place in found}


def _place(fields: list[str]) -> Place:
    ranges = [one.split("-") for one in fields[8:] if not one.startswith("[")]
    slots = frozenset(slot for one in ranges for slot in range(int(one[0]), int(one[-1]) + 1))
    return Place(fields[0], "master" in fields[2], fields[3], slots)


class Cluster:
    """A cluster that serves all slots once the object exists.

    Args:
        binary: A Redis or Valkey server.
        primaries: How many share the slots.
        replicas: How many replicas there are in all, one for each primary in turn.
        options: Further arguments of each server.

    Attributes:
        nodes: All of them, the first primaries first, whatever has become of them since.
        url: Of all nodes, for a saver.
    """

    def __init__(self, binary: str, *, primaries: int = 3, replicas: int = 3, options: Sequence[str] = ()) -> None:
        self.nodes: list[ClusterNode] = []
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="fastredis-cluster-"))
            for _ in range(primaries + replicas):
                port = lasting_port()
                node = ClusterNode(binary, port, [*_settings(Path(directory), port), *options])
                self.nodes.append(node)
                stack.callback(node.stop)
            self._join(primaries)
            self._stack = stack.pop_all()
        self.url = f"redis+cluster://{','.join(node.address for node in self.nodes)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all nodes."""
        self._stack.close()

    def live(self) -> list[ClusterNode]:
        """The nodes that run."""
        return [node for node in self.nodes if node.server]

    def primaries(self) -> list[ClusterNode]:
        """The running nodes that own slots."""
        return [node for node in self.live() if node.places()[node.id].slots]

    def owner(self, slot: int) -> ClusterNode:
        """The running node that owns a slot."""
        return next(node for node in self.live() if slot in node.places()[node.id].slots)

    def other(self, slot: int) -> ClusterNode:
        """A primary that does not own a slot."""
        return next(node for node in self.primaries() if slot not in node.places()[node.id].slots)

    def replicas(self, primary: ClusterNode) -> list[ClusterNode]:
        """The running replicas of a node."""
        return [node for node in self.live() if node.places()[node.id].primary == primary.id]

    def keys(self, prefix: str) -> list[bytes]:
        """The keys that savers with this prefix have stored, on any running node."""
        return sorted({key for node in self.live() for key in node.client.scan_iter(f"{prefix}:*", count=1000)})

    def kill(self, node: ClusterNode) -> None:
        """SIGKILL."""
        node.stop()

    def restart(self, node: ClusterNode) -> None:
        """Start a killed node again: with its port and its place in the cluster, but without data.

        So `wait_until_ok` after the kill, or have no replicas: a primary that comes back before a replica has taken over
        empties them all.
        """
        node.start()

    def move_slot(self, slot: int, to: ClusterNode, *, batch: int = 10, between: Callable[[], object] = bool) -> None:
        """Move a slot with its keys to another primary, as `redis-cli --cluster reshard` does; `between` batches too."""
        source = self.owner(slot)
        to.ask("CLUSTER SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER SETSLOT", slot, "MIGRATING", to.id)
        between()
        while keys := source.client.cluster("GETKEYSINSLOT", slot, batch):
            source.client.migrate("127.0.0.1", to.port, keys, 0, 5000)
            between()
        for node in [to, source, *self.primaries()]:
            node.ask("CLUSTER SETSLOT", slot, "NODE", to.id)

    def wait_until_ok(self, *, seconds: float = 20) -> None:
        """Return once running nodes own all slots, all know it, and the replicas follow."""
        wait_until(self._is_ok, seconds=seconds)

    def wait_until_replicated(self, node: ClusterNode, *, seconds: float = 20) -> None:
        """Return once the replicas of a node have what it has now."""
        written = int(node.info("INFO replication")["master_repl_offset"])
        following = self.replicas(node)
        wait_until(
            lambda: all(int(one.info("INFO replication")["slave_repl_offset"]) >= written for one in following), seconds=seconds
        )

    def _is_ok(self) -> bool:
        views = {node.id: node.places() for node in self.live()}
        owners = {node_id: view[node_id].slots for node_id, view in views.items() if view[node_id].slots}
        return (
            sum(map(len, owners.values())) == SLOTS
            and all({place.id: place.slots for place in view.values() if place.slots} == owners for view in views.values())
            and all(node.info("CLUSTER INFO")["cluster_state"] == "ok" for node in self.live())
            and all(_follows(node, owners) for node in self.live() if node.id not in owners)
        )

    def _join(self, primaries: int) -> None:
        for at, node in enumerate(self.nodes):
            node.ask("CLUSTER SET-CONFIG-EPOCH", at + 1)
            for other in self.nodes[:at]:
                node.ask("CLUSTER MEET", "127.0.0.1", other.port)
        for at, node in enumerate(self.nodes[:primaries]):
            node.ask("CLUSTER ADDSLOTS", *range(at * SLOTS // primaries, (at + 1) * SLOTS // primaries))
        known = {node.id for node in self.nodes}
        wait_until(lambda: all(node.places().keys() == known for node in self.nodes), seconds=20)
        for at, node in enumerate(self.nodes[primaries:]):
            node.ask("CLUSTER REPLICATE", self.nodes[at % primaries].id)
        self.wait_until_ok()


def _follows(node: ClusterNode, owners: dict[str, frozenset[int]]) -> bool:
    replication = node.info("INFO replication")
    return node.places()[node.id].primary in owners and replication.get("master_link_status") == "up"


def _settings(directory: Path, port: int) -> list[str]:
    return [
        *("--cluster-enabled", "yes"),
        *("--cluster-config-file", str(directory / f"{port}.conf")),
        *("--cluster-node-timeout", str(NODE_TIMEOUT)),
        *("--cluster-announce-ip", "127.0.0.1"),
        *("--repl-diskless-sync-delay", "0"),
    ]


def slot_of(key: str | bytes) -> int:
    """The slot of a key."""
    return int(key_slot(key.encode() if isinstance(key, str) else key))
