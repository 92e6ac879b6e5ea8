"""What all tests share: their order (fast failures first) and the switch for slow ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.leftovers import processes_of, sweep
from tests.lab_process import MARK, Lab

ORDER = ("house", "unit", "known_bad", "fuzz", "golden", "sim", "notebooks", "browser", "local", "docker")
ROOT = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run long matrices")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        room = item.path.relative_to(ROOT / "tests").parts[0]
        return ORDER.index(room) if room in ORDER else len(ORDER)

    items.sort(key=rank)
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
