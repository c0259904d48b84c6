r"""Every key, index member and field name is formatted here and nowhere else.

The same in words: README, "Key layout". Text from outside (thread ids, namespaces, ids, channels) may hold any character;
it is encoded so that two different texts never meet in one key, and so that the separators below stay unambiguous:

* NUL separates the parts of members and fields, `\\2` begins an entry of a listing. `escape` takes both out of a part.
* An id in a member is encoded so that it holds no colon and still sorts, byte by byte, as the id does as text.
* A prefix or thread id in a key holds no brace and no percent sign of its own, so the braces around the thread id are the
  only ones: they make every key of a thread hash to one cluster slot.
"""

from __future__ import annotations

from dataclasses import dataclass

SEPARATOR = b"\0"
ENTRY = b"\2"
WRITE = b"write:"

_UNSAFE_IN_KEYS = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


def encode(text: str) -> bytes:
    """UTF-8.

    Raises:
        ValueError: it holds a lone surrogate, which has no encoding.
        TypeError: it is no text.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        message = f"{text!r} holds a lone surrogate and cannot be stored; use text that can be encoded as UTF-8"
        raise ValueError(message) from None
    except AttributeError:  # Asking first would cost something for every channel of every checkpoint.
        message = f"{text!r} is {type(text).__name__}; channels, task ids and paths, prefixes and types of values are text"
        raise TypeError(message) from None


def escape(part: bytes) -> bytes:
    """Take the bytes that separate parts out of one of them."""
    if SEPARATOR in part or b"\1" in part or ENTRY in part:
        return part.replace(b"\1", b"\1a").replace(SEPARATOR, b"\1b").replace(ENTRY, b"\1c")
    return part


def unescape(part: bytes) -> bytes:
    """What `escape` was given."""
    if b"\1" in part:
        return part.replace(b"\1c", ENTRY).replace(b"\1b", SEPARATOR).replace(b"\1a", b"\1")
    return part


def to_part(text: str) -> bytes:
    """Text as a part of a member or field."""
    return escape(encode(text))


def from_part(part: bytes) -> str:
    """The text that `to_part` was given."""
    return unescape(part).decode()


def to_id(checkpoint_id: str) -> bytes:
    """A checkpoint id as the last part of a member: without colons, in the same order.

    `:` and `;` are neighbours, so writing them as `;0` and `;1` keeps every comparison as it was.
    """
    encoded = encode(checkpoint_id)
    if b":" in encoded or b";" in encoded:
        return encoded.replace(b";", b";1").replace(b":", b";0")
    return encoded


def from_id(encoded: bytes) -> str:
    """The checkpoint id that `to_id` was given."""
    if b";" in encoded:
        encoded = encoded.replace(b";0", b":").replace(b";1", b";")
    return encoded.decode()


def member(ns: bytes, encoded_id: bytes) -> bytes:
    """A checkpoint's member in the index of its thread."""
    return ns + SEPARATOR + encoded_id


def split_member(of: bytes) -> tuple[bytes, bytes]:
    """Namespace and id of a member, both still encoded."""
    ns, _, encoded_id = of.partition(SEPARATOR)
    return ns, encoded_id


def member_above(ns: bytes) -> bytes:
    """A bound that every member of a namespace lies below."""
    return ns + b"\1"


def entry(channel: bytes, version: bytes) -> bytes:
    """A channel at a version, as listings name it; with its namespace, a field of the channels hash."""
    return channel + SEPARATOR + version


def to_version(version: object) -> bytes:
    """A channel version as a part: equal versions give equal parts, and text never looks like a number.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(version, str):
        return b"s" + to_part(version)
    if isinstance(version, float) and not version.is_integer():
        return repr(version).encode()
    if isinstance(version, (int, float)):
        return b"%d" % int(version)
    message = f"a channel version must be text or a number, not {type(version).__name__}: {version!r}"
    raise TypeError(message)


def write_field(task_id: str, index: int) -> bytes:
    """The field of a checkpoint hash that holds one pending write."""
    return WRITE + to_part(task_id) + SEPARATOR + b"%d" % index


def split_write_field(field: bytes) -> tuple[str, int]:
    """Task id and index of a write."""
    task_id, _, index = field[len(WRITE) :].rpartition(SEPARATOR)
    return from_part(task_id), int(index)


@dataclass(frozen=True, slots=True)
class ThreadKeys:
    """The keys of one thread."""

    thread_id: str
    index: bytes
    channels: bytes
    retained: bytes
    absent: bytes
    """No thread has this key. Where a slot is on its way to another node of a cluster, Redis refuses a call that declares a
    key that is not there, unless none is; so a script that finds keys by itself is not run where it would miss some."""
    base: bytes
    """What the key of each checkpoint hash begins with."""

    def checkpoint(self, ns: bytes, encoded_id: bytes) -> bytes:
        """The hash of one checkpoint (in Lua: `checkpoint_key`)."""
        return self.base + ns + b":" + encoded_id


@dataclass(frozen=True, slots=True)
class Keyspace:
    """All keys under one prefix."""

    prefix: str = "langgraph"

    def __post_init__(self) -> None:
        encode(self.prefix)

    def thread(self, thread_id: str) -> ThreadKeys:
        """The keys of a thread. An empty id becomes `%`: empty braces would not be a hash tag."""
        quoted = thread_id.translate(_UNSAFE_IN_KEYS) or "%"
        stem = encode(f"{self.prefix.translate(_UNSAFE_IN_KEYS)}:{{{quoted}}}:")
        names = (b"index", b"channels", b"retained", b"absent", b"checkpoint:")
        return ThreadKeys(thread_id, *(stem + name for name in names))

    def index_pattern(self) -> bytes:
        """The glob that exactly the index keys under this prefix match."""
        prefix = encode(self.prefix.translate(_UNSAFE_IN_KEYS))
        literal = b"".join(b"\\" + bytes([c]) if c in b"*?[]^\\-" else bytes([c]) for c in prefix)
        return literal + b":{*}:index"

    def thread_id(self, index: bytes) -> str | None:
        """The thread that a key is the index of; `None` for a key of another kind, whose namespace looks like that end."""
        start = len(encode(self.prefix.translate(_UNSAFE_IN_KEYS))) + 2
        quoted = index[start : -len(b"}:index")].decode()
        if "}" in quoted:
            return None
        if quoted == "%":
            return ""
        return quoted.replace("%7B", "{").replace("%7D", "}").replace("%25", "%")
