"""The notebooks are executed as they are, and print what is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="SKIPPED: nbclient is not installed (extra notebooks)")
pytest.importorskip("ipykernel", reason="SKIPPED: ipykernel is not installed (extra notebooks)")

from tests.notebooks.execute import NOTEBOOKS, executed, read, texts

LONG = ("3-plotting-safety-violations", "4-search")
"""Eighty runs, and two searches; the others show that notebooks work at all."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else ())
        for path in NOTEBOOKS
    ],
)
def test_the_outputs_are_current(path: Path) -> None:
    kept = read(path)
    assert texts(executed(path)) == texts(kept), "python -m tests.notebooks.execute --write renews them"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS[:2], ids=lambda path: path.stem)
def test_on_real_redis_the_verdicts_are_the_same(path: Path) -> None:
    assert texts(executed(path, "local")) == texts(read(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept_small_and_without_errors_or_paths(path: Path) -> None:
    kept = read(path)
    assert path.stat().st_size < 600_000
    code = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.execution_count for cell in code)
    assert all(output.output_type != "error" for cell in code for output in cell.outputs)
    assert not any("/tmp" in text or "/home" in text for text in texts(kept))


def test_there_are_six() -> None:
    assert len(NOTEBOOKS) == 6
