"""What all tests share: their order (fast failures first), which part they belong to, where run files lie."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from lab.paths import STATE_VARIABLE
from lab.processes import processes_of
from lab.substrates.cleanup import sweep
from lab.substrates.sim.patches import simulating
from tests import fuzzing
from tests.lab_process import MARK, Lab

settings.load_profile(fuzzing.DEFAULT)

ORDER = ("rules", "unit", "known_bad", "fuzz", "sim", "notebooks", "browser", "local", "docker")
FULL = ("fuzz", "notebooks", "browser", "docker")
"""Directories of which no test is part of `make test`; in the others the marker `full` says so."""
LONG = (
    "test_virtual_scenarios.py",
    "test_readme.py",
    "test_driven.py",
    "test_docker_drivers.py",
    "test_leftovers.py",
)
"""Files that go first in their directory: begun last, they keep one worker busy when others are through."""
WHOLE = re.compile(r"^pytestmark = pytest\.mark\.full\b", re.MULTILINE)
"""How a file says that no test of it is part of `make test`."""
ROOT = Path(__file__).resolve().parents[1]
STATE = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run long matrices")


def pytest_configure(config: pytest.Config) -> None:
    """Let nobody else clean up after the labs of these tests: not another lab, and not the other worker.

    And let them be interrupted: a shell lets its background jobs ignore that, and all that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[STATE_VARIABLE] = str(
        config.stash.setdefault(STATE, Path(tempfile.mkdtemp(prefix="lab-state-")))
    )
    _share_rewriting(config)


def _share_rewriting(config: pytest.Config) -> None:
    """Let each worker begin to collect at another file.

    pytest rewrites the asserts of a file when it first reads it, and keeps the result for all. Workers that
    went through the files side by side would each rewrite all of them: as long as all else about collecting.
    """
    worker: dict[str, str] | None = getattr(config, "workerinput", None)
    if worker is None or [Path(arg).resolve() for arg in config.args] != [ROOT / "tests"]:
        return
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    read = [str(path) for path in files if not _left_out(path, config)]
    first = len(read) * int(worker["workerid"].removeprefix("gw")) // int(worker["workercount"])
    config.args[:] = read[first:] + read[:first]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take that place away, and leave this process as it was."""
    PREPARED.end()
    shutil.rmtree(config.stash[STATE], ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import, in each worker, the files of which `make test` runs nothing."""
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if is_test and _left_out(collection_path, config) else None


def _left_out(path: Path, config: pytest.Config) -> bool:
    """Whether only the first part of the tests was asked for, and no test of this file is in it."""
    if config.option.markexpr != "not full":
        return False
    if path.relative_to(ROOT / "tests").parts[0] in FULL:
        return True
    return WHOLE.search(path.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: a garbage collector would only walk it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the workers share the tests out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    directories = {path: path.relative_to(ROOT / "tests").parts[0] for path in {item.path for item in items}}
    ranks = {path: ORDER.index(name) if name in ORDER else len(ORDER) for path, name in directories.items()}
    # Files that begin in a prepared process follow each other: last among the unit tests, first elsewhere.
    begin = {item.path: _asks(item) for item in reversed(items)}
    late = {path: asks == (directories[path] == "unit") for path, asks in begin.items()}
    items.sort(key=lambda item: (ranks[item.path], item.path.name not in LONG, late[item.path], item.path))
    for item in items:
        if directories[item.path] in FULL or "slow" in item.keywords:
            item.add_marker(pytest.mark.full)
    if not config.getoption("--slow"):
        skip = pytest.mark.skip(reason="slow: run with --slow")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Run the lab in a directory of its own; nothing it started may outlive the test."""
    labs = Lab(tmp_path)
    yield labs
    for process in labs.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    left = processes_of(labs.mark, MARK)
    sweep()
    assert left == []


@pytest.fixture(scope="module")
def _patched() -> None:
    """Prepare this process for simulated runs, unless it still is from the file before."""
    PREPARED.begin()


class _Prepared:
    """This process prepared for simulated runs, for all files in a row that ask for it.

    All that a worker has imported and collected is searched for captured clocks: longer than many runs.
    """

    def __init__(self) -> None:
        self._until = ExitStack()
        self._begun = False

    def begin(self) -> None:
        """Prepare it, if it is not; then let nothing be collected again that is there already."""
        if not self._begun:
            self._until.enter_context(simulating())
            self._until.callback(gc.unfreeze)
            self._begun = True
        gc.collect()
        gc.freeze()  # all tests and what they import: half a second each time that trials are swept up

    def end(self) -> None:
        """Let it be as it was."""
        self._until.close()
        self._begun = False


PREPARED = _Prepared()


def _asks(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "_patched" in item.fixturenames


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Leave this process prepared for the next file only if that one begins with a test that asks for it."""
    done = yield
    if nextitem is None or (nextitem.path != item.path and not _asks(nextitem)):
        PREPARED.end()
    return done
