"""A lock of one's own that cannot be found: which part of its place is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.locks import PARTS, lock_class
from lab.locks.base import Belief, Lease, Lock, is_believed
from lab.locks.redlock import Redlock
from lab.search.guard import Failure, Guarded
from lab.search.space import must_run_in_virtual_time

MODULE = """
from pathlib import Path
class MyLock: ...
"""


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with one class of its own, and one that it imports."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "held_for_a_test", raising=False)
    path = tmp_path / "held_for_a_test.py"
    path.write_text(MODULE)
    return path


def hint_for(name: str) -> str:
    with pytest.raises(LabError) as caught:
        lock_class(name)
    assert caught.value.where == "lock.name"
    return f"{caught.value.seen} · {caught.value.hint}"


def test_a_class_that_is_misspelt(held: Path) -> None:
    reported = hint_for("held_for_a_test:Mylock")
    assert "the module held_for_a_test has no 'Mylock'" in reported
    assert "did you mean 'MyLock'? it has MyLock (" in reported
    assert "PYTHONPATH" not in reported


def test_a_class_that_is_not_there(held: Path) -> None:
    reported = hint_for("held_for_a_test:Nope")
    assert "it has MyLock" in reported
    assert str(held) in reported


@pytest.mark.usefixtures("held")
def test_a_module_without_a_class() -> None:
    assert "is a module: write held_for_a_test:Class" in hint_for("held_for_a_test")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("redlok", "did you mean 'redlock'?"),
        ("no_such_module_anywhere", "a class of yours must offer lab.locks.base.Lock"),
        ("no_such_module_anywhere.at_all", "a class of yours must offer lab.locks.base.Lock"),
    ],
)
def test_a_word_that_is_no_lock(word: str, hint: str) -> None:
    assert hint_for(word) == f"the lock {word!r} · {hint}"


@pytest.mark.parametrize(
    ("driver", "seen", "hint"),
    [
        ("./mine.py", "./mine.py may not be executed", "a lock in it is mine:Class"),
        ("./notes.txt", "./notes.txt may not be executed", "lab run SCENARIO --lock DRIVER"),
        ("./gone.py", "there is no program ./gone.py", "lab run SCENARIO --lock DRIVER"),
        ("./directory.py", "there is no program ./directory.py", "lab run SCENARIO --lock DRIVER"),
    ],
)
def test_a_file_that_is_taken_for_a_driver(
    driver: str, seen: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory.py").mkdir()
    for name in ("mine.py", "notes.txt"):
        (tmp_path / name).write_text("")
    with pytest.raises(LabError) as caught:
        must_run_in_virtual_time(driver)
    assert caught.value.seen.endswith(seen)
    assert (caught.value.hint or "").startswith(hint)


def test_a_file_that_may_be_executed_is_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch(mode=0o755)
    must_run_in_virtual_time("./mine.py")


def test_a_module_that_is_not_there() -> None:
    assert "PYTHONPATH" in hint_for("no_such_module_anywhere:Nope")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mine.py:Lock", "write mine:Lock"),
        ("./mine.py:Lock", "write mine:Lock"),
        ("/some/where/mine.py:Lock", "write mine:Lock, with PYTHONPATH=/some/where"),
    ],
)
def test_a_class_by_its_file(name: str, hint: str) -> None:
    assert hint_for(name).endswith(f" · {hint}")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("Path.nope", "AttributeError: type object 'Path' has no attribute 'nope'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("class :", "SyntaxError: invalid syntax"),
    ],
)
def test_a_module_that_fails(held: Path, line: str, what: str) -> None:
    held.write_text(f"{MODULE}{line}\n")
    reported = hint_for("held_for_a_test:MyLock")
    assert f"cannot be imported: {what}" in reported
    assert "the module itself fails: python -c 'import held_for_a_test' shows where" in reported
    assert "PYTHONPATH" not in reported


def test_a_class_that_lacks_a_part_of_a_lock(held: Path) -> None:
    with pytest.raises(LabError, match="MyLock is no lock that the lab knows how to use"):
        lock_class("held_for_a_test:MyLock")
    held.write_text(
        MODULE.replace("...", "name = build = margin_ns = acquire = extend = release = believes = None")
    )
    sys.modules.pop("held_for_a_test")
    assert "which lacks hands_out_fences, open, close" in hint_for("held_for_a_test:MyLock")


def test_the_parts_are_those_of_the_protocol() -> None:
    described = {part for part in {**vars(Lock), **Lock.__annotations__} if not part.startswith("_")}
    assert set(PARTS) == described


class Talkative(Redlock):
    """Its ``believes`` answers as ``held`` of other locks does."""

    def believes(self, lease: Lease) -> Belief:  # type: ignore[override]
        return Belief(super().believes(lease))


def test_a_belief_that_is_neither_true_nor_false_is_an_error_of_the_lock() -> None:
    lease = Lease("resource", "token", ttl_ns=1, deadline_ns=0)
    talkative: Any = Talkative(["a:1"])
    with pytest.raises(TypeError, match=r"believes returned Belief\(held=False"):
        is_believed(talkative, lease)
    noted: list[Failure] = []
    assert not Guarded(talkative, "alice", lambda: 5, noted).believes(lease)
    assert [(each.client, each.f, each.time_ns) for each in noted] == [("alice", "held", 5)]
    assert is_believed(Redlock(["a:1"]), lease) is False
