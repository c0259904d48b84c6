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


class SaverClosedError(FastRedisError, RuntimeError):
    """A saver was used after it had been closed."""
