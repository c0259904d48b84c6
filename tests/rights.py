"""The rights that the README says a user needs, and a user that has these and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
_ACL = re.search(r"ACL SETUSER my-app ([^`]+)```", README)
PASSWORD = "secret"  # noqa: S105 of servers that live for a second


def granted() -> list[str]:
    """The rules of the README's user."""
    assert _ACL
    return _ACL[1].split()


def create_user(admin: redis.Redis, name: str, pattern: str) -> None:
    """A user with those rights, to keys of this pattern."""
    version: dict[str, Any] = admin.info("server")
    # As the README says: older ones know no CLIENT SETINFO, and so no rule for it.
    is_old = tuple(map(int, version["redis_version"].split("."))) < (7, 2)
    rules = [rule for rule in granted() if not is_old or rule != "+client|setinfo"]
    admin.execute_command("ACL", "SETUSER", name, *[rule.replace("~langgraph:*", f"~{pattern}") for rule in rules])
