"""A lock of one's own that cannot be found: which part of its place is wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.locks import lock_class

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
    told = hint_for("held_for_a_test:Mylock")
    assert "the module held_for_a_test has no 'Mylock'" in told
    assert "did you mean 'MyLock'? its classes are MyLock (" in told
    assert "PYTHONPATH" not in told


def test_a_class_that_is_not_there(held: Path) -> None:
    told = hint_for("held_for_a_test:Nope")
    assert "its classes are MyLock" in told
    assert str(held) in told


def test_a_module_that_is_not_there() -> None:
    assert "PYTHONPATH" in hint_for("no_such_module_anywhere:Nope")


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
    told = hint_for("held_for_a_test:MyLock")
    assert f"cannot be imported: {what}" in told
    assert "the module itself fails: python -c 'import held_for_a_test' shows where" in told
    assert "PYTHONPATH" not in told
