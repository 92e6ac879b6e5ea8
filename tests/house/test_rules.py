"""The house rules, as tests: sizes, walls between rooms, nothing in the repository that is not ours."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
BLOB_BYTES_MAX = 600_000


def tracked() -> list[Path]:
    """Every file git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def sources(*rooms: str) -> list[Path]:
    """Python files below the given directories."""
    return [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]


ALL_PYTHON = sources("lab", "checker", "tests", "benchmarks")


@pytest.mark.parametrize("path", ALL_PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= FILE_LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The absolute modules a file imports, and whether it does so at the top level (not for types only)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Import):
                yield from ((alias.name, parent is tree) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module, parent is tree
                yield from ((f"{node.module}.{alias.name}", parent is tree) for alias in node.names)


WALLS = {
    # room: what it must not import
    "checker": ["lab"],
    "lab/locks": [
        "lab.substrates",
        "lab.scenario",
        "lab.faults",
        "lab.run.execution",
        "lab.run.steps",
        "checker",
    ],
    "lab/substrates": [
        "lab.locks",
        "lab.scenario",
        "lab.faults",
        "lab.run.execution",
        "lab.run.steps",
        "checker",
    ],
    "lab/faults": [
        "lab.locks",
        "lab.substrates.local",
        "lab.substrates.real",
        "lab.substrates.docker",
        "lab.substrates.sim",
        "lab.run.execution",
        "lab.run.steps",
        "checker",
    ],
    "lab/scenario": ["lab.locks", "lab.substrates", "lab.faults", "lab.run.execution", "checker"],
    "lab/report": ["lab.substrates", "lab.locks", "lab.faults", "lab.run.execution"],
    "lab/client": ["lab.substrates", "lab.scenario", "lab.faults", "lab.run.execution", "checker"],
    "lab/drivers": [
        "lab.locks",
        "lab.scenario",
        "lab.faults",
        "lab.run.execution",
        "lab.run.steps",
        "checker",
    ],
    "lab/store": [
        "lab.substrates",
        "lab.scenario",
        "lab.faults",
        "lab.run.execution",
        "lab.locks",
        "checker",
    ],
    "lab/tools": ["lab.substrates", "lab.scenario", "lab.locks", "lab.run.execution", "checker"],
}


@pytest.mark.parametrize("room", WALLS)
def test_walls_between_rooms(room: str) -> None:
    for path in sources(room):
        for module, _ in imports(path):
            for forbidden in WALLS[room]:
                wrong = module == forbidden or module.startswith(forbidden + ".")
                assert not wrong, f"{path.relative_to(ROOT)} imports {module}"


def test_only_run_brings_the_substrate_and_the_locks_together() -> None:
    both = []
    for path in sources("lab"):
        modules = {module for module, _ in imports(path)}
        substrate = "lab.substrates.substrate" in modules or any(
            module.startswith(("lab.substrates.local", "lab.substrates.docker", "lab.substrates.sim"))
            for module in modules
        )
        lock = "lab.run.lock_properties" in modules or any(
            module.startswith("lab.locks.") for module in modules
        )
        if substrate and (lock or "lab.locks" in modules) and "substrates" not in path.parts:
            both.append(str(path.relative_to(ROOT)))
    assert both == ["lab/run/execution.py"]


def test_the_command_line_imports_nothing_heavy() -> None:
    for path in sources("lab/cli"):
        modules = {module for module, top in imports(path) if top}
        modules = {module for module in modules if not module.startswith(("lab.cli.options", "lab.errors"))}
        assert {module.split(".")[0] for module in modules} <= {
            "__future__",
            "collections",
            "functools",
            "importlib",
            "shlex",
            "sys",
            "pathlib",
            "typing",
            "typer",
        }


HEAVY = ("matplotlib", "networkx", "scipy", "numba", "polars", "docker", "hypothesis")


@pytest.mark.parametrize("room", ["lab", "checker"])
def test_heavy_packages_are_imported_lazily(room: str) -> None:
    for path in sources(room):
        for module, top in imports(path):
            if top and path.parent.name != "timeline" and "linearizability" not in path.parts:
                assert module.split(".")[0] not in HEAVY, (
                    f"{path.relative_to(ROOT)} imports {module} at the top"
                )


def test_no_large_blobs() -> None:
    large = [path for path in tracked() if path.stat().st_size > BLOB_BYTES_MAX]
    assert large == []


# An address to download from belongs into a tool's own configuration; the one exception is the pinned,
# hash-checked release of Toxiproxy, which has no other way to a machine without Go.
ADDRESS = re.compile(
    r'"resolved": *"https?://|registry *= *"https?://|(--|_)index-url|^(deb|FROM) .*https?://', re.M
)
MACHINE_PATH = re.compile(r"/(home|Users)/[a-z]|/(work|root)/")


def test_no_machine_paths_and_no_download_addresses() -> None:
    guilty = []
    for path in tracked():
        if path.suffix in {".png", ".gz", ".parquet", ".pdf"} or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if ADDRESS.search(text) or MACHINE_PATH.search(text):
            guilty.append(str(path.relative_to(ROOT)))
    assert guilty == []
