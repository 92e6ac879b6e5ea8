"""The file of a campaign's results, whatever became of it; and the interval that shares are given with."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.batch.campaign import known_results, open_results
from lab.batch.rate import wilson
from lab.batch.row import Row
from lab.errors import LabError
from tests.sim.campaign_tasks import Plain

ONE, OTHER = Plain(name="one"), Plain(name="other")


def kept(file: Path, count: int = 3) -> None:
    with open_results(file, ONE, resume=False) as results:
        for seed in range(count):
            results.append(Row(seed, findings=("overlap",)))


def reopened(file: Path) -> list[int]:
    with open_results(file, ONE, resume=True) as results:
        return sorted(known_results(results))


def test_results_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "results.jsonl"
    kept(file)
    with open_results(file, ONE, resume=True) as results:
        assert known_results(results) == {seed: Row(seed, findings=("overlap",)) for seed in range(3)}
        results.append(Row(1, 1))
    with open_results(file, ONE, resume=True) as results:
        assert known_results(results)[1] == Row(1, 1), "the last result of a seed counts"


def test_a_file_cut_anywhere_loses_at_most_the_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with open_results(file, ONE, resume=False) as results:
        results.append(Row(0))
        results.append(Row(1))
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        complete = max(whole[:length].count(b"\n") - 1, 0)
        assert reopened(file) == list(range(complete))
        with open_results(file, ONE, resume=True) as results:
            results.append(Row(50))
        assert reopened(file) == [*range(complete), 50]


def test_a_lost_seed_counts_as_missing(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    with open_results(file, ONE, resume=False) as results:
        results.append(Row(1, 3, lost=True))
        results.append(Row(2, 3, reasons=("it raised",)))
    assert reopened(file) == [2]


def test_a_damaged_line_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    kept(file)
    text = file.read_bytes().splitlines(keepends=True)
    text[2] = b'{"seed":"one"}\n'
    file.write_bytes(b"".join(text))
    with pytest.raises(LabError) as caught:
        reopened(file)
    assert caught.value.where == f"{file}:3"


def test_results_are_not_mixed_up(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    kept(file)
    with pytest.raises(LabError, match="3 seeds already"):
        open_results(file, ONE, resume=False)
    for resume in (True, False):  # what --resume would refuse is not to be resumed
        with pytest.raises(LabError, match="another task"):
            open_results(file, OTHER, resume=resume)
    kept(tmp_path / "none.jsonl", count=0)
    with open_results(tmp_path / "none.jsonl", OTHER, resume=False) as results:
        results.append(Row(1))
    with pytest.raises(LabError, match="another task"):
        reopened(tmp_path / "none.jsonl")
    with open_results(file, ONE, resume=True), pytest.raises(LabError, match="another lab is writing"):
        open_results(file, ONE, resume=True)
    assert reopened(file) == [0, 1, 2]


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="cannot be kept"):
        open_results(tmp_path / "file" / "results.jsonl", ONE, resume=False)


# Newcombe (1998), "Two-sided confidence intervals for the single proportion", table I, method 3.
@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_intervals_as_published(hits: int, trials: int, low: float, high: float) -> None:
    interval = wilson(hits, trials)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)
    mirrored = wilson(trials - hits, trials)
    assert (round(1 - mirrored.high, 4), round(1 - mirrored.low, 4)) == (low, high)


def test_intervals_at_the_edges() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)
    assert wilson(10_000, 10_000).high == 1.0
    assert 0 < wilson(0, 10_000).high < 0.0004
    for hits, trials, confidence in ((2, 1, 0.95), (-1, 1, 0.95), (0, 1, 1.0)):
        with pytest.raises(ValueError, match="no such sample"):
            wilson(hits, trials, confidence)
