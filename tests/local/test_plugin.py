"""The pytest plugin and the lab as a library: the README's example, and failures told as such."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from lab import Lab
from lab.errors import LabError, UnknownOutcome
from lab.processes import processes_of
from tests.lab_process import MARK, ROOT, children_of
from tests.local.test_readme import blocks

pytestmark = pytest.mark.full

PLUGIN = "lab.api.pytest_plugin"
INSTALLED = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
"""An environment that was made before the plugin was does not know it yet."""


def pytest_in(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a directory, as somebody who has the lab installed."""
    mark = directory.name
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *(() if INSTALLED else ("-p", PLUGIN)),
            *("--basetemp", str(directory / "kept"), *arguments),
        ],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DOCKER_HOST": f"unix://{directory}/no-engine",
            MARK: mark,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert processes_of(mark, MARK) == []
    return ended


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    for name in ("my_lock", "test_my_lock"):
        (code,) = (block for block in blocks("python") if block.startswith(f"# {name}.py"))
        (tmp_path / f"{name}.py").write_text(code)
    run = pytest_in(tmp_path, "test_my_lock.py")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout
    assert list(tmp_path.glob("kept/*/reports/partition-minority-*/history.jsonl"))


OUTCOMES = """
import pytest

BROKEN = "mutant:quorum-off-by-one"


@pytest.mark.lab("two-minorities", lock=BROKEN, seed=5)
def test_broken():
    raise AssertionError("the body of a test whose scenario failed is not run")


NEVER = [{"start": "alice acquires"}, {"until": {"keys": "gone", "within": "1s"}}]


@pytest.mark.lab("healthy", set={"steps": NEVER})
def test_unknown():
    pass


@pytest.mark.lab("healty")
def test_misspelt():
    pass


@pytest.mark.lab("healthy", sed=1)
def test_bad_option():
    pass


def test_without_a_mark(lab_result):
    pass
"""


def test_what_is_not_as_expected_fails_and_what_is_unknown_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_outcomes.py").write_text(OUTCOMES)
    run = pytest_in(tmp_path, "--lab-on", "sim", "--lab-out", "runs", "test_outcomes.py")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 4 errors" in run.stdout
    assert re.search(r"^FAILED .*::test_broken", run.stdout, re.MULTILINE)
    assert "mutual exclusion: violated: alice and bob both held 'resource'" in run.stdout
    assert "repeat: lab run two-minorities --seed 5 --on sim" in run.stdout
    assert re.search(r"^ERROR .*::test_unknown", run.stdout, re.MULTILINE)
    assert 'did you mean "healthy"?' in run.stdout
    assert "has no 'sed'" in run.stdout
    assert 'needs @pytest.mark.lab("SCENARIO")' in run.stdout
    assert "the body of a test" not in run.stdout
    assert list((tmp_path / "runs").glob("two-minorities-*"))


def test_the_plugin_costs_nothing_to_whom_it_is_of_no_use() -> None:
    code = (
        f"import sys, pytest, {PLUGIN}; "
        "heavy = {'numpy', 'pydantic', 'redis', 'msgspec', 'lab.api.lab', 'checker'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"


@pytest.fixture
def python_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    return Lab(tmp_path / "reports", on="local", cwd=tmp_path)


def test_two_runs_of_one_seed_are_told_apart_whatever_the_clock_says(python_lab: Lab) -> None:
    first = python_lab.run("healthy", on="sim", seed=3)
    os.utime(first.directory, (2**33, 2**33))
    second = python_lab.run("healthy", on="sim", seed=3, expect={"fencing": "violated"})
    assert (first.exit_code, second.exit_code) == (0, 1)
    assert second.directory != first.directory
    assert "violated" in (second.directory / "scenario.yaml").read_text()


def test_a_run_and_its_check_from_python(python_lab: Lab) -> None:
    run = python_lab.run("two-minorities", lock="mutant:quorum-off-by-one", on="sim", seed=3)
    assert (run.exit_code, run.as_expected, run.findings) == (1, False, ("overlap",))
    assert run.outcomes["mutual_exclusion"] == "violated"
    assert [event["f"] for event in run.events if event["process"] == "alice"][:1] == ["acquire"]
    again = python_lab.check(run.directory)
    assert (again.exit_code, again.findings) == (1, ("overlap",))
    with pytest.raises(LabError) as caught:
        python_lab.run("healthy", on="sim", set={"lock.tll": "2s"})
    assert (caught.value.exit_code, "lock.tll" in str(caught.value.where)) == (2, True)


def test_a_cluster_from_python(python_lab: Lab) -> None:
    with python_lab.cluster(lock="redlock", ttl="60s", options={"node_timeout": "2s"}) as cluster:
        (alice,) = cluster.do("alice acquires")
        assert alice.status == "ok"
        with pytest.raises(LabError) as caught:
            cluster.inject(cut={"client": "carol", "nodes": ["A"]})
        assert 'unknown client "carol"' in caught.value.seen
        with pytest.raises(RuntimeError, match="not down yet"):
            _ = cluster.result
        cluster.inject(pause={"client": "alice"})
        with pytest.raises(LabError, match="paused"):
            cluster.do("alice releases")
        cluster.inject(resume={"client": "alice"})
        cluster.do("alice reads", "alice writes", "alice releases")
    assert cluster.result.as_expected, cluster.result.explain()
    faults = [event for event in cluster.result.events if event["process"] == "nemesis"]
    assert [(event["f"], event["type"]) for event in faults[:2]] == [("pause", "invoke"), ("pause", "ok")]
    steps = (cluster.result.directory / "scenario.yaml").read_text()
    assert "carol" not in steps
    assert steps.count("pause:") == 1


def test_power_can_be_cut_in_a_cluster_that_did_not_know_of_it(python_lab: Lab) -> None:
    with python_lab.cluster(ttl="60s", scenario={"cluster": {"persistence": "aof-everysec"}}) as cluster:
        cluster.do("alice acquires")
        cluster.inject(power_cut={"nodes": ["A"]})
    reported = [event["type"] for event in cluster.result.events if event["f"] == "power_cut"]
    assert reported == ["invoke", "ok"], "the second is its receipt"


def test_a_cluster_in_which_a_moment_never_comes_is_unknown(python_lab: Lab) -> None:
    cluster = python_lab.cluster(ttl="60s")
    with contextlib.suppress(UnknownOutcome), cluster:
        cluster.do("alice acquires")
        cluster.until(keys="gone", within="100ms")
        raise AssertionError("a moment that never came was passed over")
    assert cluster.result.exit_code == 3
    assert "UNKNOWN" in cluster.result.explain()


def test_what_a_test_raises_takes_the_cluster_down(python_lab: Lab) -> None:
    servers: dict[int, str] = {}
    with contextlib.suppress(ZeroDivisionError), python_lab.cluster() as cluster:
        assert cluster._child is not None
        servers = children_of(cluster._child.process.pid)
        raise ZeroDivisionError
    assert len(servers) == 9
    assert not [pid for pid in servers if Path(f"/proc/{pid}").exists()]


def test_a_simulated_cluster_is_refused(python_lab: Lab) -> None:
    with pytest.raises(LabError, match="simulated"), python_lab.cluster(on="sim"):
        raise AssertionError("it did not come up")


def test_a_lock_with_a_defect_fails_the_test_that_examines_it(tmp_path: Path) -> None:
    (tmp_path / "test_examined.py").write_text(
        "import pytest\n"
        "from lab.locks.broken.grants import SetWithoutNx\n"
        "@pytest.mark.lock_test(SetWithoutNx, budget='2s')\n"
        "def test_broken(): pass\n"
        "@pytest.mark.lock_test('redlock', budget='100ms', jobs=2)\n"
        "def test_unfinished(lock_examined): pass\n"
        "@pytest.mark.lock_test('redlock', budget='20s', jobs=2)\n"
        "def test_correct(lock_examined): assert lock_examined.schedules > 0\n"
        "@pytest.mark.lock_test('redlock', budge='1s')\n"
        "def test_misspelt(): pass\n"
        "def test_unmarked(lock_examined): pass\n"
    )
    run = pytest_in(tmp_path, "test_examined.py")
    assert run.returncode == 1
    assert "1 failed, 1 passed, 3 errors" in run.stdout
    assert "FAILED test_examined.py::test_broken" in run.stdout
    assert "ERROR test_examined.py::test_unfinished" in run.stdout
    assert "not known whether redlock has a defect" in run.stdout or "redlock was not examined" in run.stdout
    assert "Acquiring replaces the key of another client." in run.stdout
    assert "has no 'budge', only budget, seed, nodes, options, jobs" in run.stdout
    assert "lock_examined needs @pytest.mark.lock_test(LOCK)" in run.stdout
