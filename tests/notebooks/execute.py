"""Executing the notebooks: ``python -m tests.notebooks.execute [--write] [--on SUBSTRATE] [NAME …]``.

``--write`` renews the outputs that are kept, which are those of the simulation.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PATIENCE_S = 1500


def read(path: Path) -> Any:
    """A notebook as it is kept."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path, on: str = "sim") -> Any:
    """Execute a notebook in a directory of its own, its runs on this substrate; the file is left as it is.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = read(path)
    with _surroundings(on) as directory:
        client = NotebookClient(
            notebook,
            timeout=PATIENCE_S,
            startup_timeout=300,
            resources={"metadata": {"path": str(directory)}},
        )
        client.execute()
    return notebook


@contextmanager
def _surroundings(on: str) -> Iterator[Path]:
    """A directory to work in, and an environment in which the kernel finds this checkout."""
    wanted = {"LOCK_LAB_ON": on, "PYTHONPATH": str(ROOT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    with (
        tempfile.TemporaryDirectory(prefix="nb-") as directory,
        tempfile.TemporaryDirectory(prefix="nb-") as runtime,
    ):
        wanted["JUPYTER_RUNTIME_DIR"] = runtime
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield Path(directory)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def texts(notebook: Any) -> list[str]:
    """What the cells printed, however many pieces it came in; pictures stand as a word each."""
    found: list[str] = []
    for cell in notebook.cells:
        printed = ""
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                printed += str(output.text) if output.name == "stdout" else ""
            elif "image/svg+xml" in output.get("data", {}):
                printed += "a picture"
            else:
                printed += str(output.get("data", {}).get("text/plain", output.output_type))
        found += [printed] if printed else []
    return found


def main() -> None:
    """Execute all notebooks, or those that are named, and keep the outputs if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="notebooks, as 1-the-critique; all of them if absent")
    parser.add_argument("--write", action="store_true", help="keep the outputs")
    parser.add_argument("--on", default="sim", help="where the runs take place: sim, local, docker")
    asked = parser.parse_args()
    if asked.write and asked.on != "sim":
        parser.error("what is kept are the outputs of the simulation, which are the same every time")
    for path in NOTEBOOKS:
        if asked.names and path.stem not in asked.names:
            continue
        notebook = executed(path, asked.on)
        for cell in notebook.cells:
            cell.metadata = {}
            for output in cell.get("outputs", ()):
                if "image/svg+xml" in output.get("data", {}):
                    output.data = {"image/svg+xml": output.data["image/svg+xml"]}
        if asked.write:
            nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        same = sum(one == other for one, other in zip(texts(notebook), texts(read(path)), strict=True))
        sys.stdout.write(f"{path.name}: {same} of {len(texts(notebook))} outputs as they are kept\n")


if __name__ == "__main__":
    main()
