"""Executing the notebooks; ``python -m tests.notebooks.execute --write`` renews the outputs that are kept."""

from __future__ import annotations

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


def executed(path: Path) -> Any:
    """Execute a notebook in a directory of its own, on the simulation; the file is left as it is.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = read(path)
    with _surroundings() as directory:
        client = NotebookClient(
            notebook,
            timeout=PATIENCE_S,
            startup_timeout=300,
            resources={"metadata": {"path": str(directory)}},
        )
        client.execute()
    return notebook


@contextmanager
def _surroundings() -> Iterator[Path]:
    """A directory to work in, and an environment in which the kernel finds this checkout."""
    wanted = {"LOCK_LAB_ON": "sim", "PYTHONPATH": str(ROOT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
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
    """Execute all notebooks, or those that are named, and keep the outputs."""
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    for path in NOTEBOOKS:
        if names and path.stem not in names:
            continue
        notebook = executed(path)
        for cell in notebook.cells:
            cell.metadata = {}
            for output in cell.get("outputs", ()):
                if "image/svg+xml" in output.get("data", {}):
                    output.data = {"image/svg+xml": output.data["image/svg+xml"]}
        if "--write" in sys.argv:
            nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        sys.stdout.write(f"{path.name}: {len(texts(notebook))} outputs\n")


if __name__ == "__main__":
    main()
