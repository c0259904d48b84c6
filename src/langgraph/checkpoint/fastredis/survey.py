"""How the checkpoints of a thread hang together, read in pages, for operations that take some of them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from langgraph.checkpoint.fastredis import keys, records, scripts
from langgraph.checkpoint.fastredis.call import Call, Operation
from langgraph.checkpoint.fastredis.reading import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from langgraph.checkpoint.fastredis.keys import ThreadKeys

# A checkpoint takes a server about five microseconds; to name a value a third of one, or two where it has to scan for them.
# So a page takes about two milliseconds.
PAGE = 500
ALL_VALUES_PAGE = 5000
VALUES_PAGE = 1000


class Surveyed(NamedTuple):
    """A checkpoint among its kin. Without a listing it has not arrived: there are only writes."""

    member: bytes
    listing: bytes | None
    parent_id: bytes | None
    run: bytes | None
    delta: bytes | None

    @property
    def parent(self) -> bytes | None:
        """The member of its parent."""
        ns, _ = keys.split_member(self.member)
        return keys.member(ns, self.parent_id) if self.parent_id else None

    def listed(self, channel: bytes) -> records.ListedChannel | None:
        """What it lists of a channel; found without parsing the others, for walks ask each ancestor about each channel."""
        listing = self.listing or b""
        begins = listing.find(keys.ENTRY + channel + keys.SEPARATOR)
        if begins < 0:
            return None
        ends = listing.find(keys.ENTRY, begins + 1)
        (found,) = records.parse_listing(listing[begins : None if ends < 0 else ends])
        return found

    def stored_fields(self) -> Iterator[bytes]:
        """The fields of the channels hash that it names."""
        ns, _ = keys.split_member(self.member)
        return (listed.field(ns) for listed in records.parse_listing(self.listing or b"") if listed.is_stored)


class Survey:
    """A thread as it was read. What is saved meanwhile may be missing, but its values are never taken for unused."""

    def __init__(self) -> None:
        self.listed: dict[bytes, Surveyed] = {}
        self.retained: dict[bytes, Surveyed] = {}
        self.fields: set[bytes] = set()

    def get(self, member: bytes | None) -> Surveyed | None:
        """A checkpoint that has arrived, listed or not."""
        found = member and (self.listed.get(member) or self.retained.get(member))
        return found if found and found.listing is not None else None

    def _seeds(self, at: Surveyed, channel: bytes) -> bool:
        """Whether a checkpoint stores a value of a channel: a walk for that channel ends there."""
        listed = at.listed(channel)
        ns, _ = keys.split_member(at.member)
        return listed is not None and (bool(listed.holding) or listed.field(ns) in self.fields)

    def leaned_on(self, survivors: Iterable[bytes]) -> set[bytes]:
        """The ancestors that delta channels of the survivors lean on."""
        kept: set[bytes] = set()
        walked: set[tuple[bytes, bytes]] = set()
        for survivor in survivors:
            at = self.get(survivor)
            for channel in records.parse_delta(at.delta or b"") if at else ():
                kept.update(self._walk(at, channel, walked))
        return kept

    def _walk(self, at: Surveyed | None, channel: bytes, walked: set[tuple[bytes, bytes]]) -> Iterator[bytes]:
        while at and at.parent and (at.parent, channel) not in walked:
            walked.add((at.parent, channel))
            at = self.get(at.parent)
            if at:
                yield at.member
                if self._seeds(at, channel):
                    return


def survey_thread(thread: ThreadKeys) -> Operation[Survey]:
    """Read a thread: its values before its checkpoints, so that a value saved in between is not known, hence not unused."""
    survey = Survey()
    cursor = b"0"
    while True:
        cursor, fields = yield Call(
            scripts.SURVEY_VALUES, (thread.channels,), (cursor, ALL_VALUES_PAGE, VALUES_PAGE, PAGE_BYTES)
        )
        survey.fields.update(fields)
        if cursor == b"0":
            break
    yield from _survey_set(thread, thread.index, survey.listed)
    yield from _survey_set(thread, thread.retained, survey.retained)
    return survey


def _survey_set(thread: ThreadKeys, members: bytes, found: dict[bytes, Surveyed]) -> Operation[None]:
    cursor = b""
    while True:
        cursor, entries = yield Call(scripts.SURVEY, (members, thread.absent), (thread.base, cursor, PAGE, PAGE_BYTES))
        found.update((entry[0], Surveyed(*entry)) for entry in entries)
        if not cursor:
            return
