"""What a caller of the savers may catch; errors of Redis itself pass through as they are."""


class FastRedisError(Exception):
    """The base of the errors that the savers raise about stored data and about their own use."""


class IncompleteCheckpointError(FastRedisError):
    """A piece of a checkpoint is no longer stored, so that it cannot be read whole.

    Redis loses single keys when its `maxmemory-policy` evicts them, or when somebody deletes them by hand.
    """


class BrokenHistoryError(FastRedisError):
    """An ancestor that a delta channel leans on is no longer stored, so that its value cannot be rebuilt."""


class UnsupportedFormatError(FastRedisError):
    """A checkpoint was stored in a layout that this version does not know."""


class BusyThreadError(FastRedisError):
    """A thread changed while it was worked on: written to all the time while it was pruned, or deleted while it was copied."""


class ConcurrentRunError(FastRedisError):
    """With `guard`: the first save of a run found that another run had saved into the thread since this one read it.

    Nothing was saved. Run again, from what the thread is now.

    Attributes:
        began_at: id of the checkpoint that this run read as the latest; `None` where there was none.
        latest: id of the one that is the latest now.
    """

    def __init__(self, message: str, began_at: str | None, latest: str) -> None:
        super().__init__(message)
        self.began_at = began_at
        self.latest = latest


class NotConfirmedError(FastRedisError):
    """With `wait`: a mutation has happened on the server, but is not known to have reached replicas or disk in time."""


class ReadOnlySaverError(FastRedisError):
    """A saver that only reads was asked to write; nothing was written."""


class ServerWarning(UserWarning):
    """What `setup` found about a server that works, and may yet lose or leak what is stored in it."""


class SaverClosedError(FastRedisError, RuntimeError):
    """A saver was used after it had been closed."""
