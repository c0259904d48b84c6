"""A soak: many agents on a cluster of real servers, while nodes die, connections are killed, scripts flushed and slots moved.

    make soak ARGS='--agents 100 --seconds 180 --seed 1'

Afterwards every thread must be what its twin on `InMemorySaver` is, and no key may be left without its thread.

Why that can be asked for at all
    Replicas of a cluster follow as they can, so a primary that dies takes saves along that it had acknowledged. The savers here
    are made with `wait=Wait(replicas=1)`, and each primary has exactly one replica: what a save has returned for is on the one
    server that can take over. Both copies would have to die to lose it, so the trouble lets a killed node follow again before
    it touches another (`Cluster.wait_until_ok`). Until then nothing of that shard is confirmed, and its agents repeat.

    A slot that moves is a hole in this: MIGRATE returns before the target's replica has the keys. A primary that dies in those
    milliseconds takes confirmed saves along, and no client can know. So the trouble lets replicas catch up after a move, as
    somebody who reshards has to who cannot lose anything.

    Savers without `wait` did lose acknowledged saves, within 40 seconds of kills and freezes: an ancestor of a delta channel
    had gone with its primary, and the next read said so (`BrokenHistoryError`).

    Primaries are killed (SIGKILL) or frozen for longer than the cluster waits for them (SIGSTOP, SIGCONT). One that wakes up
    may take writes until it hears that it is none any more, but its only replica is gone, so it confirms none of them; and what
    it answers to a read is not stale for the one who waited for it meanwhile, the only one who writes to that thread.

Why agents do everything exactly once
    See `tests.soak.driving`.
"""
