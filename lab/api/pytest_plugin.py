"""The pytest plugin: ``@pytest.mark.lab`` runs a scenario before a test, ``lock_lab`` is the lab itself.

``@pytest.mark.lock_test`` examines a lock before a test, which fails if the lock has a defect.

::

    @pytest.mark.lab("partition-clockjump-control", lock=MyLock)
    def test_my_lock(lab_result):
        assert lab_result.outcomes["mutual_exclusion"] == "ok"

    @pytest.mark.lock_test(MyLock, budget="30s")
    def test_my_lock_has_no_defect(lock_examined):
        assert lock_examined.schedules > 1000

    def test_steps_of_my_own(lock_lab):
        with lock_lab.cluster(lock=MyLock) as cluster:
            cluster.do("alice acquires")
        assert cluster.result.as_expected, cluster.result.explain()

An unexpected result fails the test; an unknown one is an error. Runs are kept below the test's ``tmp_path``,
or below ``--lab-out``. The lab is imported only when a test uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from lab.api import prepared

if TYPE_CHECKING:
    from lab.api.lab import Lab, RunResult
    from lab.examine.result import Examined

MARKER = "lab(scenario, *, lock, seed, set, expect, on): run a scenario of the lock lab before the test"
EXAMINES = (
    "lock_test(lock, *, budget, seed, nodes, options, jobs, key): examine a lock before the test, "
    "as lab test does"
)

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("lock-lab")
    group.addoption(
        "--lab-on", default="auto", help="the lock lab's substrate: auto, docker, local, sim or virtual"
    )
    group.addoption("--lab-out", default=None, help="where runs of the lock lab are kept; tmp_path if absent")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line("markers", MARKER)
    config.addinivalue_line("markers", EXAMINES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every marked test its run, whether it uses the result or not."""
    for item in items:
        for marker, fixture in (("lab", "lab_result"), ("lock_test", "lock_examined")):
            if item.get_closest_marker(marker) is not None and isinstance(item, pytest.Function):
                names: list[str] = item.fixturenames
                if fixture not in names:
                    names.append(fixture)


@pytest.fixture
def lock_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A ``lab.Lab`` whose runs are kept below the test's ``tmp_path``."""
    from lab.api.lab import Lab

    out = request.config.getoption("--lab-out")
    return Lab(Path(out).resolve() if out else tmp_path / "reports", on=request.config.getoption("--lab-on"))


@pytest.fixture
def lab_result(request: pytest.FixtureRequest, lock_lab: Lab) -> RunResult:
    """The result of the scenario that ``@pytest.mark.lab`` names."""
    marker = request.node.get_closest_marker("lab")
    if marker is None:
        pytest.fail('lab_result needs @pytest.mark.lab("SCENARIO")', pytrace=False)
    options = _options(marker, "scenario, by name or as a file", _OF_A_RUN)
    result: RunResult = _or_refused(lambda: lock_lab.run(*marker.args, **options))
    _judge(request, result.exit_code, result.explain)
    return result


@pytest.fixture
def lock_examined(request: pytest.FixtureRequest, lock_lab: Lab) -> Examined:
    """The result of the examination that ``@pytest.mark.lock_test`` asks for."""
    from lab.examine.answer.words import explain

    marker = request.node.get_closest_marker("lock_test")
    if marker is None:
        pytest.fail("lock_examined needs @pytest.mark.lock_test(LOCK)", pytrace=False)
    options = _options(marker, "lock", _OF_AN_EXAMINATION)
    examined: Examined = _or_refused(lambda: lock_lab.test(*marker.args, **options))
    _judge(request, examined.exit_code, lambda: explain(examined))
    return examined


def _or_refused(work: Callable[[], T]) -> T:
    """The result of ``work``; the test fails with the error's text if it was bad input."""
    from lab.errors import LabError

    try:
        return work()
    except LabError as error:
        refused = error.render()
    pytest.fail(refused, pytrace=False)


def _judge(request: pytest.FixtureRequest, code: int, explained: Callable[[], str]) -> None:
    """Fail the test if the result is not as expected, and the fixture if it is unknown."""
    from lab.errors import ExitCode

    if code == ExitCode.UNEXPECTED:
        request.node.stash[_FAILED] = explained()
    elif code != ExitCode.EXPECTED:
        pytest.fail(explained(), pytrace=False)


_OF_A_RUN = ("lock", "seed", "set", "expect", "on")
_OF_AN_EXAMINATION = ("budget", "seed", "nodes", "options", "jobs", "key")
_FAILED = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail the test, and not its fixture, if a run was not as expected or a lock has a defect.

    Schedules of ``lab.api.strategies`` in one test share the preparation of this process. It is prepared
    before the test, so that the time for that counts against no deadline of Hypothesis.
    """
    if _FAILED in item.stash:
        pytest.fail(item.stash[_FAILED], pytrace=False)
    with prepared.scope():
        if _uses_strategies(item):
            prepared.prepare()
        return (yield)


STRATEGIES = "lab.api.strategies"


def _uses_strategies(item: pytest.Item) -> bool:
    """Whether the module of a test uses a name of ``lab.strategies``."""
    if STRATEGIES not in sys.modules:
        return False
    module = vars(getattr(item, "module", None) or object)
    return any(
        str(getattr(each, "__name__" if each is sys.modules[STRATEGIES] else "__module__", "")).startswith(
            STRATEGIES
        )
        for each in module.values()
    )


def _options(marker: pytest.Mark, takes: str, known: tuple[str, ...]) -> dict[str, Any]:
    for name in marker.kwargs:
        if name not in known:
            pytest.fail(f"@pytest.mark.{marker.name} has no {name!r}, only {', '.join(known)}", pytrace=False)
    if len(marker.args) != 1:
        pytest.fail(f"@pytest.mark.{marker.name} takes one {takes}", pytrace=False)
    return dict(marker.kwargs)
