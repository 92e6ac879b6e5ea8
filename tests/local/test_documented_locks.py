"""Every lock that README and docs print works everywhere: run, suite, test and pytest, each as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.lab_process import ROOT, Lab

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "lab" / "drivers" / "PROTOCOL.md")
BLOCK = re.compile(r"```(\w+)\n(?:#|//) (\S+\.\w+)(.*?)```", re.DOTALL)
LOCK = re.compile(r"^class (\w+)\((?:BaseLock|Redlock|Single)\):", re.MULTILINE)
ORDINARY = re.compile(r"^class (\w+):\n.*def acquire\(self\)", re.MULTILINE | re.DOTALL)
BROKEN = {"my_lock:Hasty": ("overlap", "two-minorities")}
"""Locks that are printed to be caught, by what, and the scenario that shows it."""


@dataclass(frozen=True)
class Printed:
    """A lock as a page prints it: its file, and how the lab is told of it."""

    page: str
    file: str
    text: str
    name: str

    @property
    def where(self) -> str:
        """The substrate on which nothing waits."""
        return "virtual" if " " in self.name else "sim"


def printed() -> list[Printed]:
    """All locks of the pages: classes in Python, and drivers."""
    found = []
    for page in PAGES:
        for _, file, rest in BLOCK.findall(page.read_text(encoding="utf-8")):
            text = f"# {file}{rest}"
            if (lock := LOCK.search(text)) or ("serve(" not in text and (lock := ORDINARY.search(text))):
                name = f"{file.removesuffix('.py')}:{lock[1]}"
            elif "serve(" in text:
                name = f"{sys.executable} {file}"
            else:
                continue
            found.append(Printed(page.name, file, text, name))
    return found


PRINTED = printed()
LOCKS = [each for each in PRINTED if LOCK.search(each.text) or " " in each.name]
CODE_AS_PEOPLE_HAVE_IT = [each for each in PRINTED if each not in LOCKS]
PYTEST = """
import pytest

@pytest.mark.lab("healthy", lock={name!r}, on={where!r}, seed=1)
def test_it_is_healthy(lab_result):
    assert lab_result.outcomes["mutual_exclusion"] == "ok"

@pytest.mark.lock_test({name!r}, budget="4s", jobs=1)
def test_it_is_examined(lock_examined):
    assert not lock_examined.defects
"""


def test_the_pages_print_the_locks_that_are_tried_here() -> None:
    assert {each.file for each in LOCKS} == {"my_lock.py", "one_node.py", "blocking_driver.py"}
    defined = [
        block
        for page in PAGES
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        if "def acquire(" in block
    ]
    assert {each.file for each in CODE_AS_PEOPLE_HAVE_IT} == {"orders.py", "stock.py"}
    assert all(any(block.startswith(f"# {each.file}") for each in PRINTED) for block in defined)
    (complete,) = (each for each in LOCKS if each.file == "one_node.py")
    code = [line for line in complete.text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 30, "a complete lock is short"


@pytest.mark.full
@pytest.mark.parametrize("lock", CODE_AS_PEOPLE_HAVE_IT, ids=lambda lock: lock.file)
def test_printed_code_is_caught_as_it_stands(lock: Printed, lab: Lab) -> None:
    (lab.directory / lock.file).write_text(lock.text)
    tested = lab("test", lock.name, "--budget", "15s", "--jobs", "1", "--repeat", "0")
    assert tested.code == 1, tested.out + tested.err
    assert "1. A release, or undoing an attempt, deletes the key of another client." in tested.out


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.file)
def test_a_printed_lock_works_everywhere(lock: Printed, lab: Lab) -> None:
    (lab.directory / lock.file).write_text(lock.text)
    finding, shows = BROKEN.get(lock.name, ("", ""))
    expected = 1 if finding else 0

    run = lab("run", "partition-clockjump-control", "--lock", lock.name, "--on", lock.where, "--seed", "1")
    assert "died" not in run.err + run.out
    assert run.code in ((1,) if finding else (0, 1)), run.err  # a lock on one node is cut off: bob's acquire
    assert run.outcomes["mutual_exclusion"] == ("violated" if finding else "ok")
    assert ("left out: node_timeout" in run.err) == (not finding)

    only = ("healthy", "late-release-compared*", "partition-minority*", *([shows] if shows else []))
    named = [word for name in only for word in ("--only", name)]
    suite = lab("suite", "--for", lock.name, "--on", lock.where, *named, "--json")
    cells = json.loads(suite.out)["cells"]
    assert suite.code == expected, suite.out + suite.err
    assert len(cells) >= 4
    if finding:
        assert finding in {name for cell in cells for name in cell["findings"]}
    else:
        assert [cell["reason"] for cell in cells if cell["state"] != "known"] == []

    tested = lab("test", lock.name, "--budget", "8s", "--jobs", "1", "--repeat", "0")
    # 3: what was begun could not be ended in so short a time
    assert tested.code in ((1,) if finding else (0, 3)), tested.out + tested.err

    (lab.directory / "test_printed.py").write_text(PYTEST.format(name=lock.name, where=lock.where))
    pytest_run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_printed.py", "-k", "healthy"],
        cwd=lab.directory,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{lab.directory}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert pytest_run.returncode == 0, pytest_run.stdout + pytest_run.stderr
