"""What all tests share: their order (fast failures first), the switch for slow ones, where run files lie."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from lab.paths import STATE_VARIABLE
from lab.substrates.cleanup import processes_of, sweep
from tests import fuzzing
from tests.lab_process import MARK, Lab

settings.load_profile(fuzzing.DEFAULT)

ORDER = ("house", "unit", "known_bad", "fuzz", "golden", "sim", "notebooks", "browser", "local", "docker")
ON_THIS_MACHINE = ("browser", "local", "docker")
"""Rooms whose tests fail where the machine stands still; they get a second try, and the report tells."""
ROOT = Path(__file__).resolve().parents[1]
STATE = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run long matrices")


def pytest_configure(config: pytest.Config) -> None:
    """Let nobody else clean up after the labs of these tests: not another lab, and not the other worker."""
    os.environ[STATE_VARIABLE] = str(
        config.stash.setdefault(STATE, Path(tempfile.mkdtemp(prefix="lab-state-")))
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Take that place away."""
    shutil.rmtree(config.stash[STATE], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before the workers share the tests out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        room = item.path.relative_to(ROOT / "tests").parts[0]
        return ORDER.index(room) if room in ORDER else len(ORDER)

    items.sort(key=rank)
    for item in items:
        if item.path.relative_to(ROOT / "tests").parts[0] in ON_THIS_MACHINE:
            item.add_marker(pytest.mark.flaky(reruns=1))
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
