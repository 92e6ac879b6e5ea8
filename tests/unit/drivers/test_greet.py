"""Asking a driver who it is from another process, as it is done in a container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lab.drivers.greet import Question, Said
from lab.drivers.messages import Hello
from lab.drivers.place import ThisMachine, asked_once
from lab.locks import is_own
from tests.lab_process import ROOT

TOY = ROOT / "tests" / "local" / "toy_driver.py"


def asked(*words: str, **options: str) -> Said:
    question = msgspec.json.encode(Question(words, {**options})).decode()
    ended = subprocess.run(
        [sys.executable, "-m", "lab.drivers.greet", question],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return msgspec.json.decode(ended.stdout, type=Said)


def test_a_driver_says_the_same_wherever_it_is_asked() -> None:
    words = (sys.executable, str(TOY), "good")
    said = asked(*words)
    assert said.trouble is None
    assert said.hello is not None
    assert said.hello.lib == "toy"
    assert said.hello == ThisMachine().hello(" ".join(words), {})


@pytest.mark.parametrize(
    ("words", "options", "seen", "where"),
    [
        (("./no-such-driver",), {}, "cannot be started: No such file", ""),
        ((sys.executable, str(TOY), "banner"), {}, "no JSON", "toy_driver.py banner"),
        ((sys.executable, str(TOY), "good"), {"fast": "yes"}, "no option fast", "lock.options"),
    ],
)
def test_what_is_wrong_with_it_comes_out_as_well(
    words: tuple[str, ...], options: dict[str, str], seen: str, where: str
) -> None:
    said = asked(*words, **options)
    assert said.hello is None
    assert said.trouble is not None
    assert seen in said.trouble.seen
    assert where in (said.trouble.where or "")
    assert said.trouble.expected


@pytest.mark.parametrize(
    ("lock", "own"),
    [
        ("redlock", True),
        ("mutant:late-grant", True),
        ("driver:pottery", True),
        ("my_lock:Mine", False),
        ("./my-driver", False),
        ("node driver.js", False),
    ],
)
def test_whose_code_a_client_needs(lock: str, own: bool) -> None:
    assert is_own(lock) is own


def test_what_is_installed_here_is_asked_for_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path))
    assert ThisMachine().why_not("driver:pottery") == "it is not installed: lab drivers install pottery"
    assert ThisMachine().why_not("./my-driver") is None


def test_inside_asked_once_a_driver_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[object] = []

    async def greet(words: object, options: object) -> Hello:
        questions.append((words, options))
        return Hello("toy", "1", ())

    monkeypatch.setattr("lab.drivers.greet.greet", greet)
    here = ThisMachine()
    with asked_once():
        for _ in range(2):
            for lock, options in (("./one", {}), ("./one", {"x": 1}), ("./two", {})):
                assert here.hello(lock, options).lib == "toy"
    assert len(questions) == 3
    here.hello("./one", {})
    assert len(questions) == 4, "afterwards it is asked anew"
