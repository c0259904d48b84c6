"""What is shipped: a wheel, built from the source archive, that carries the scripts and shadows nobody's package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from langgraph.checkpoint.fastredis.scripts import FOLDER

ROOT = Path(__file__).parents[1]
PACKAGE = "langgraph/checkpoint/fastredis/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built as for a release: source archive first, wheel from that."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_carries_every_script_as_it_is(wheel: zipfile.ZipFile) -> None:
    """Beside the package, where the loader looks first."""
    scripts = {f"{PACKAGE}lua/{path.relative_to(FOLDER)}": path.read_bytes() for path in FOLDER.rglob("*.lua")}
    assert {name: wheel.read(name) for name in wheel.namelist() if name.endswith(".lua")} == scripts


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """Typed; no module above ours, since LangGraph's packages are there too; no tests, demo or benchmarks."""
    files = [name for name in wheel.namelist() if ".dist-info/" not in name]
    assert f"{PACKAGE}py.typed" in files
    assert [name for name in files if not name.startswith(PACKAGE)] == []
    modules = {f"{PACKAGE}{path.name}" for path in (ROOT / "src" / PACKAGE).glob("*.py")}
    assert {name for name in files if name.endswith(".py")} == modules


def test_the_core_needs_two_packages(wheel: zipfile.ZipFile) -> None:
    """The rest are extras."""
    (metadata,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("METADATA"))
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert [line.split()[1].partition(">")[0].partition("<")[0] for line in needed] == [
        "langgraph-checkpoint",
        "redis[hiredis]",
    ]
