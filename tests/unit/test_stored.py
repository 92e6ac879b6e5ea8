"""Nothing that is stored goes unchecked: gallery, golden histories, corpus of trials.

Their verdicts are checked again in ``test_gallery``, ``checker/test_golden`` and ``sim/test_search``.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from lab.errors import ExitCode, LabError
from lab.run.stored import read_run

ROOT = Path(__file__).resolve().parents[2]
GALLERY, GOLDEN, CORPUS = ROOT / "reports" / "gallery", ROOT / "tests" / "golden", ROOT / "tests" / "corpus"
RUNS = sorted(path.parent for path in GALLERY.glob("*/verdict.json"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_of_the_gallery_is_whole(run: Path) -> None:
    assert {"scenario.yaml", "history.jsonl", "verdict.json"} <= {path.name for path in run.iterdir()}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_checking_a_stored_run_again_changes_nothing_that_was_decided(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    kept = json.loads((copy / "verdict.json").read_text())
    result = read_run(copy)
    result.write()
    assert result.exit_code == kept["exit_code"] == ExitCode.EXPECTED
    again = json.loads((copy / "verdict.json").read_text())
    for name in ("scenario", "expected", "mismatches", "unknown", "verdict"):
        assert again[name] == kept[name], name


def test_a_history_that_was_changed_is_noticed(tmp_path: Path) -> None:
    run = next(run for run in RUNS if run.name == "partition-clockjump")
    copy = Path(shutil.copytree(run, tmp_path / run.name))
    lines = (copy / "history.jsonl").read_text().splitlines(keepends=True)
    bob = next(at for at, line in enumerate(lines) if '"f":"acquire"' in line and '"client":"bob"' in line)
    reported = [line for line in lines[bob:] if '"client":"bob"' not in line]
    (copy / "history.jsonl").write_text("".join([*lines[:bob], *reported]))
    code = ExitCode.USAGE
    with contextlib.suppress(LabError):  # refused as damaged, or judged: a pass it must not be
        code = read_run(copy).exit_code
    assert code != ExitCode.EXPECTED


def test_every_golden_history_has_its_answer_and_every_answer_its_history() -> None:
    histories = {path.name.removesuffix(".jsonl") for path in GOLDEN.glob("*.jsonl")}
    answers = {path.name.removesuffix(".expected.json") for path in GOLDEN.glob("*.expected.json")}
    assert histories == answers
    assert len(list(GOLDEN.iterdir())) == 2 * len(histories)


def test_the_corpus_is_made_of_trials_that_say_what_they_find() -> None:
    assert {path.suffix for path in CORPUS.iterdir()} == {".json"}
    assert all("--" in path.stem for path in CORPUS.iterdir())
