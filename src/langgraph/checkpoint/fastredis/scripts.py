"""The Lua scripts, read once at import from the project's `lua/` folder.

A wheel carries that folder beside this module; an editable install reads the live files of the repository. A line
`--@include name` stands for `lua/shared/name.lua`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

_HERE = Path(__file__).resolve()
_INSTALLED = _HERE.parent / "lua"
FOLDER = _INSTALLED if _INSTALLED.is_dir() else _HERE.parents[4] / "lua"
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that the server keeps under the SHA-1 of its source."""

    name: str
    source: str
    sha: str
    writes: bool
    """Whether it changes anything; else it may run on a replica."""


def _shared(include: re.Match[str]) -> str:
    return (FOLDER / "shared" / f"{include[1]}.lua").read_text(encoding="utf-8")


def _load(name: str, *, writes: bool = False) -> Script:
    source = _INCLUDE.sub(_shared, (FOLDER / f"{name}.lua").read_text(encoding="utf-8"))
    return Script(name, source, sha1(source.encode(), usedforsecurity=False).hexdigest(), writes)


COPY = _load("copy", writes=True)
DELETE = _load("delete", writes=True)
DESCRIBE = _load("describe")
EXPIRE = _load("expire", writes=True)
EXPIRE_INDEX = _load("expire_index", writes=True)
EXPIRE_PAGE = _load("expire_page", writes=True)
GET = _load("get")
HISTORY = _load("history")
LIST = _load("list")
LIST_METADATA = _load("list_metadata")
MARK = _load("mark", writes=True)
NAMES = _load("names")
PRUNE = _load("prune", writes=True)
PUT = _load("put", writes=True)
PUT_WRITES = _load("put_writes", writes=True)
READ = _load("read")
READ_METADATA = _load("read_metadata")
SURVEY = _load("survey")
SURVEY_VALUES = _load("survey_values")
