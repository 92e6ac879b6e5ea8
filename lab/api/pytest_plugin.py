"""The pytest plugin: ``@pytest.mark.lab`` runs a scenario before a test, ``lock_lab`` is the lab itself.

::

    @pytest.mark.lab("partition-clockjump-control", lock=MyLock)
    def test_my_lock(lab_result):
        assert lab_result.outcomes["mutual_exclusion"] == "ok"

    def test_a_story_of_my_own(lock_lab):
        with lock_lab.cluster(lock=MyLock) as cluster:
            cluster.do("alice acquires")
        assert cluster.result.as_expected, cluster.result.explain()

A run that comes out differently from what is expected fails the test; one that is unknown is an error. Runs
are kept below the test's ``tmp_path``, or below ``--lab-out``. Nothing of the lab is imported before a test
asks for it.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lab.api.lab import Lab, RunResult

MARKER = "lab(scenario, *, lock, seed, set, expect, on): run a scenario of the lock lab before the test"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say where and on what the runs take place."""
    group = parser.getgroup("lock-lab")
    group.addoption("--lab-on", default="auto", help="the lock lab's substrate: auto, docker, local or sim")
    group.addoption("--lab-out", default=None, help="where runs of the lock lab are kept; tmp_path if absent")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every marked test its run, whether it asks for the result or not."""
    for item in items:
        if item.get_closest_marker("lab") is not None and isinstance(item, pytest.Function):
            names: list[str] = item.fixturenames
            if "lab_result" not in names:
                names.append("lab_result")


@pytest.fixture
def lock_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """The lab, as ``lab.Lab``: its runs are kept below the test's ``tmp_path``."""
    from lab.api.lab import Lab

    out = request.config.getoption("--lab-out")
    return Lab(Path(out).resolve() if out else tmp_path / "reports", on=request.config.getoption("--lab-on"))


@pytest.fixture
def lab_result(request: pytest.FixtureRequest, lock_lab: Lab) -> RunResult:
    """What came of the scenario that ``@pytest.mark.lab`` names."""
    from lab.errors import ExitCode, LabError

    marker = request.node.get_closest_marker("lab")
    if marker is None:
        pytest.fail('lab_result needs @pytest.mark.lab("SCENARIO")', pytrace=False)
    try:
        result = lock_lab.run(*marker.args, **_options(marker))
    except LabError as error:
        refused = error.render()
    else:
        refused = ""
    if refused:
        pytest.fail(refused, pytrace=False)
    if result.exit_code == ExitCode.UNEXPECTED:
        request.node.stash[_FAILED] = result.explain()
    elif result.exit_code != ExitCode.EXPECTED:
        pytest.fail(result.explain(), pytrace=False)
    return result


_FAILED = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test, and not its fixture, if the scenario did not come out as expected."""
    if _FAILED in item.stash:
        pytest.fail(item.stash[_FAILED], pytrace=False)
    return (yield)


def _options(marker: pytest.Mark) -> dict[str, Any]:
    known = ("lock", "seed", "set", "expect", "on")
    for name in marker.kwargs:
        if name not in known:
            pytest.fail(f"@pytest.mark.lab has no {name!r}, only {', '.join(known)}", pytrace=False)
    if len(marker.args) != 1:
        pytest.fail("@pytest.mark.lab takes one scenario, by name or as a file", pytrace=False)
    return dict(marker.kwargs)
