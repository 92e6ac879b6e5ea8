"""Rules of the tree, one test each: which package imports which, nothing that is not ours."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.scenario.registry import fault_steps

ROOT = Path(__file__).resolve().parents[2]
BLOB_BYTES_MAX = 600_000
LAB_MODULES_MAX = 8
"""Besides ``__init__`` and ``__main__``."""
TOP_UNITS_MAX = 38


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


@dataclass(frozen=True)
class Read:
    """What the rules ask of a Python file; its syntax tree is not kept."""

    imports: tuple[tuple[str, bool], ...]
    """The absolute modules it imports, and whether it does so at the top level (not for types only)."""


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node; expressions, most of a tree, have none in them."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        below = getattr(node, name, None)
        for child in below if isinstance(below, list) else ():
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


@cache
def read(path: Path) -> Read:
    """Each file is parsed once for all rules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported: list[tuple[str, bool]] = []
    for node in statements(tree):
        if isinstance(node, ast.Import):
            imported += ((alias.name, node in tree.body) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            imported += ((module, node in tree.body) for module in modules)
    return Read(tuple(imported))


def sources(*directories: str) -> list[Path]:
    """Python files below the given directories."""
    return [path for name in directories for path in sorted((ROOT / name).rglob("*.py"))]


def named(path: Path) -> str:
    """The path as seen from the root of the repository."""
    return str(path.relative_to(ROOT))


MUST_NOT_IMPORT = {
    # package: what it must not know, though it lies below
    "lab/locks": ["lab.substrates", "lab.scenario", "checker"],
    "lab/client": ["lab.substrates", "lab.scenario", "checker"],
    "lab/store": ["lab.substrates", "lab.scenario", "checker"],
    "lab/drivers": ["lab.scenario", "checker"],
    "lab/substrates": ["lab.scenario", "checker"],
    "lab/redis_model": ["lab.scenario", "lab.substrates", "checker"],
    "lab/scenario": ["checker"],
    "lab/faults": [
        "lab.locks",
        "lab.substrates.local",
        "lab.substrates.real",
        "lab.substrates.docker",
        "lab.substrates.sim",
        "checker",
    ],
    "lab/report": ["lab.substrates", "lab.locks", "lab.faults"],
    "lab/batch": ["lab.faults"],
}
"""Beside the layers, which import-linter checks: the contracts stand in ``pyproject.toml``."""


def test_no_package_imports_what_it_must_not_know() -> None:
    wrong = [
        f"{named(path)} imports {module}"
        for package, forbidden in MUST_NOT_IMPORT.items()
        for path in sources(package)
        for module, _ in read(path).imports
        if any(module == one or module.startswith(f"{one}.") for one in forbidden)
    ]
    assert wrong == []


NAMES_NO_FAULTS = ("lab/faults", "lab/locks", "lab/redis_model", "lab/report", "lab/substrates")
"""Where the words of faults are not kinds: where they are defined; in a broken lock's command line for a
search; a server's commands; marks in pictures; what is done to a link, and which toxic does it."""
OTHER_MEANINGS = {
    "lab/api/child.py": {"answers"},  # a function
    "lab/api/strategies/options.py": {"drift"},  # how an option of a lock begins
    "lab/examine/kinds.py": {"failover"},  # a lock
    "lab/examine/ledger/words.py": {"drift"},  # a fact
    "lab/selftest/changes.py": {"failover"},  # a lock
    "lab/scenario/fault_step.py": {"pause"},  # an effect
    "lab/scenario/steps.py": {"pause"},  # between the tries of an acquire that insists
    "lab/search/cluster.py": {"reset"},  # what became of a connection
}


def test_no_kind_of_fault_is_a_string() -> None:
    """A kind is its class in ``lab.faults``; only files and command lines name it."""
    faults = fault_steps()
    wrong = [
        f"{name}, line {one.lineno}: {one.value!r}; write {faults[one.value].__name__}"
        for path in sources("lab")
        if not (name := named(path)).startswith(NAMES_NO_FAULTS)
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value in faults
        if one.value not in OTHER_MEANINGS.get(name, ())
    ]
    assert wrong == []


def test_packages_import_only_what_lies_below_them_and_in_no_circle() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-cache",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 kept, 0 broken" in run.stdout


def units(package: str) -> list[str]:
    """The packages and modules right below a package."""
    below = sorted((ROOT / package).iterdir())
    found = [one.stem for one in below if one.suffix == ".py" or (one / "__init__.py").exists()]
    return [name for name in found if not name.startswith("__")]


def test_there_are_few_packages_and_modules_at_the_top() -> None:
    modules = [one for one in units("lab") if (ROOT / "lab" / f"{one}.py").exists()]
    assert len(modules) <= LAB_MODULES_MAX
    assert len(units("lab")) + len(units("checker")) <= TOP_UNITS_MAX


def test_only_runs_and_trials_bring_the_substrate_and_the_locks_together() -> None:
    both = []
    for path in sources("lab"):
        modules = {module for module, _ in read(path).imports}
        substrate = "lab.substrates.substrate" in modules or any(
            module.startswith(("lab.substrates.local", "lab.substrates.docker", "lab.substrates.sim"))
            for module in modules
        )
        lock = "lab.run.lock_properties" in modules or any(
            module.startswith("lab.locks.") for module in modules
        )
        if substrate and (lock or "lab.locks" in modules) and "substrates" not in path.parts:
            both.append(named(path))
    # A run, the request for one, and a trial, whose exceptions are placed in the lock's own code.
    assert both == ["lab/run/execution.py", "lab/run/request.py", "lab/search/runner.py"]


def test_the_command_line_imports_nothing_heavy() -> None:
    for path in sources("lab/cli"):
        if path.name in ("search_output.py", "examine_output.py"):  # imported when the command is called
            continue
        modules = {module for module, top in read(path).imports if top}
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


def test_heavy_packages_are_imported_lazily() -> None:
    at_the_top = [
        f"{named(path)} imports {module}"
        for path in sources("lab", "checker")
        for module, top in read(path).imports
        if top and module.split(".")[0] in HEAVY
        if path.parent.name not in ("timeline", "strategies") and "linearizability" not in path.parts
    ]
    assert at_the_top == []


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
    wrong = []
    for path in tracked():
        if path.suffix in {".png", ".gz", ".parquet", ".pdf"} or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if ADDRESS.search(text) or MACHINE_PATH.search(text):
            wrong.append(named(path))
    assert wrong == []
