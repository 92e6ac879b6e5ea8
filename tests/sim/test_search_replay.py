"""Trials that were kept: run again they come to the same; what is no trial is one clear error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.errors import ExitCode, LabError
from lab.examine.programs import Setting, split
from lab.examine.violations.judge import violations
from lab.search.command import Asked, save, search_of
from lab.search.replay import read_trial, replay, trial_of
from lab.search.runner import run_trial, trials
from tests.sim.shown_trials import CASES
from tests.sim.test_search_runner import drawn

pytestmark = pytest.mark.usefixtures("_patched")

FINDING, TRIAL = CASES["a client stands still as it sends"]


@pytest.mark.full
def test_a_trial_that_was_kept_comes_to_the_same() -> None:
    for trial in drawn("redlock", 5, 3, everything=True):
        with trials():
            first = run_trial(trial).digest()
        assert replay(trial.key(), "kept.json").digest() == first
        assert trial_of(trial.key().decode(), "kept.json") == trial


@pytest.mark.full
def test_what_a_search_saves_is_read_again(tmp_path: Path) -> None:
    asked = Asked(TRIAL.lock, FINDING, out=tmp_path / "found.yaml")
    saved = save(asked, TRIAL)
    assert saved.scenario is not None
    assert read_trial(saved.path) == TRIAL
    cancelled = msgspec.structs.replace(TRIAL, demand_ns=0)
    unordered = save(asked, cancelled)
    assert (unordered.path.suffix, unordered.scenario) == (".json", None)
    assert "does not show unavailable" in unordered.why_not
    assert read_trial(unordered.path) == cancelled


def changed(*path: str | int, to: Any) -> bytes:
    data = msgspec.json.decode(TRIAL.key())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return msgspec.json.encode(data)


def fault(**fields: Any) -> bytes:
    """The trial with a pause of other fields in place of its fault."""
    body = {"client": "alice", "at": {"alice": "granted"}, **fields}
    return changed("faults", 0, to={"pause": {name: value for name, value in body.items() if value}})


@pytest.mark.parametrize(
    ("text", "where", "seen"),
    [
        (b"{", "kept.json", "no JSON"),
        (b"\xff", "kept.json", "no JSON"),
        (b"title: no trial", "kept.json", "no JSON"),
        (b"[]", "kept.json", "Expected `object`"),
        (b"{}", "kept.json", "missing required field `lock`"),
        (changed("nodes", to="five"), "kept.json, key nodes", "Expected `int`"),
        (changed("node", to=5), "kept.json", "unknown field `node`"),
        (changed("faults", 0, to={"puase": {}}), "kept.json, key faults[0]", "puase"),
        (fault(at={"alice": "granted", "nht": 2}), "kept.json, key faults[0]", "two events"),
        (changed("clients", "alice", 0, "hold_ns", to=-1), "kept.json, key clients.alice[0].hold_ns", "-1"),
        (changed("clients", to={}), "kept.json, key clients", "no client"),
        (changed("nodes", to=27), "kept.json, key nodes", "27 nodes"),
        (changed("ttl_ns", to=0), "kept.json, key ttl_ns", "0 ns"),
        (changed("demand_ns", to=-1), "kept.json, key demand_ns", "-1 ns"),
        (fault(client="carol"), "kept.json, key faults[0].pause.client", "'carol'"),
        (fault(client=None), "kept.json, key faults[0]", "neither a node nor a client"),
        (fault(client=None, node="F"), "kept.json, key faults[0].pause.node", "'F'"),
        (fault(at={"alice": "granted", "nth": 0}), "kept.json, key faults[0]", "0 is out of range"),
        (fault(at={"eve": "granted"}), "kept.json, key faults[0].pause.at", "'eve'"),
        (fault(at={"alice": "granted", "after": "-1ns"}), "kept.json, key faults[0]", "too short"),
        (fault(at={"start": "-20000001ns"}), "kept.json, key faults[0].pause.at", "-20000001 ns"),
        (fault(at="1s"), "kept.json, key faults[0].pause.at", "no event"),
        (fault(until="-5ns"), "kept.json, key faults[0]", "too short"),
        (changed("faults", 0, to="heal"), "kept.json, key faults[0].heal", "a heal"),
        (changed("lock", to="redlok"), "lock.name", "'redlok'"),
        (changed("lock", to="driver:redsync"), "--lock", "cannot be"),
    ],
)
def test_what_is_no_trial_is_one_clear_error(text: bytes, where: str, seen: str) -> None:
    with pytest.raises(LabError) as error:
        replay(text, "kept.json")
    assert (error.value.exit_code, error.value.where) == (2, where)
    assert seen in error.value.seen


def test_a_fault_may_strike_before_the_locks_are_opened() -> None:
    asked = Setting("mutant:nodes-of-the-start", {"node_timeout": "250ms", "retry_count": 1})
    at_open, opened = (split(asked, 2, 3, at_open=at_open) for at_open in (True, False))
    assert trial_of(at_open.key().decode(), "kept.json") == at_open
    with trials():
        assert "overlap" in violations(run_trial(at_open))
        assert violations(run_trial(opened)) == {}


def test_a_key_that_is_misspelt_is_hinted_at(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_bytes(changed("horizont_ns", to=5))
    with pytest.raises(LabError) as error:
        read_trial(file)
    assert error.value.where == str(file)
    assert error.value.hint == "did you mean 'horizon_ns'?"
    with pytest.raises(LabError, match="No such file"):
        read_trial(tmp_path / "gone.json")


def test_what_is_searched_for_decides_what_clients_do() -> None:
    plain, leases, refused = (
        search_of(Asked("redlock", find)).space for find in ("overlap", "continuity-loss", "leak")
    )
    assert [each.all_operations for each in (plain, leases, refused)] == [False, True, True]
    assert [each.demand_ns > 3 * each.ttl_ns for each in (plain, leases, refused)] == [False, False, True]
    assert refused.horizon_ns > refused.demand_ns > plain.demand_ns


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "finding"),
    [
        ("mutant:retry-without-unlock", "leak"),
        ("mutant:extend-reacquires", "continuity-loss"),
    ],
)
def test_a_loss_that_is_no_overlap_is_found_and_replayed(lock: str, finding: str, tmp_path: Path) -> None:
    """With one of four seeds: which draws a seed stands for changes with any number in the lab's modules.

    In processes of their own: Hypothesis draws numbers that stand in the modules which are loaded, too.
    """
    for seed in range(1, 5):
        file = tmp_path / f"found-{seed}.yaml"
        words = ["--lock", lock, "--find", finding, "--schedules", "3000", "--seed", str(seed)]
        command = [sys.executable, "-m", "lab", "search", *words, "--out", str(file)]
        done = subprocess.run(command, cwd=tmp_path, check=False)
        if done.returncode == ExitCode.UNEXPECTED:
            if "reproduced with each of 8 seeds" in " ".join(file.read_text().split()):
                return
        else:
            assert done.returncode == ExitCode.EXPECTED
    pytest.fail(f"no {finding} of {lock} in 12,000 schedules that is reproduced with each seed")


def test_what_is_found_is_written_to_a_file_and_not_to_a_directory(tmp_path: Path) -> None:
    """That is said before the search, which may take long."""
    with pytest.raises(LabError, match="is a directory"):
        search_of(Asked("redlock", "overlap", out=tmp_path))
    assert search_of(Asked("redlock", "overlap", out=tmp_path / "found.yaml")).space.lock == "redlock"
