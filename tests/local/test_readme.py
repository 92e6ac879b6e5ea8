"""The README and the guides tell the truth: their commands and code are run as a reader would run them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lab.batch.suite_plan import load_suite
from tests.lab_process import ROOT, Lab
from tests.local.conftest import RealNode

GUIDES = (ROOT / "README.md", *(ROOT / "docs" / name for name in ("guide.md", "testing-a-lock.md")))
README = "\n".join(path.read_text(encoding="utf-8") for path in GUIDES)


def blocks(language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands(tool: str) -> list[list[str]]:
    """Every command line of the README that calls ``tool``, without it."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    split = [shlex.split(line, comments=True) for line in lines]
    called = dict.fromkeys(tuple(words[1:]) for words in split if words[:1] == [tool])
    return [list(words) for words in called]


def needs_engine(arguments: list[str]) -> bool:
    """Whether a command of the README's is about containers; those are run in tests/docker."""
    return "docker" in arguments or arguments[:1] == ["images"]


def expected_code(arguments: list[str]) -> int:
    """The exit code that the comment behind a command promises; 0 without one."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    line = next(line for line in lines if shlex.split(line, comments=True)[1:] == arguments)
    promised = re.search(r"# exit code (\d+)", line)
    return int(promised[1]) if promised else 0


def apart_from_files(arguments: list[str]) -> tuple[str, ...]:
    """A command without the options that only name a file that it writes."""
    named = {
        at + more for at, word in enumerate(arguments) if word in ("--out", "--junit") for more in (0, 1)
    }
    return tuple(word for at, word in enumerate(arguments) if at not in named)


def my_lock(directory: Path) -> None:
    """Write the README's own locks where the commands look for them."""
    for name in ("my_lock.py", "one_node.py", "orders.py"):
        (code,) = (block for block in blocks("python") if block.startswith(f"# {name}"))
        (directory / name).write_text(code)


@pytest.mark.full
@pytest.mark.timeout(1500)  # twenty commands, a minute of CPU: more than the default where others compute
def test_every_lab_command_of_the_readme_works(lab: Lab) -> None:
    lab.draws = True
    assert lab("run", "partition-clockjump").code == 0  # `make run`, on which the later ones build
    my_lock(lab.directory)
    listed = [arguments for arguments in commands("lab") if not needs_engine(arguments)]
    assert len(listed) >= 4
    # Of commands that do the same, and write more or fewer files, the one that writes most is run.
    fullest = {apart_from_files(arguments): arguments for arguments in sorted(listed, key=len)}
    for arguments in (each for each in listed if each in fullest.values()):
        run = lab(*arguments)
        assert run.code == expected_code(arguments), f"{arguments}\n{run.out}\n{run.err}"


@pytest.mark.full
def test_the_checker_by_itself(lab: Lab) -> None:
    run = lab("run", "healthy")
    assert ["-m", "checker", "history.jsonl"] in commands("python")
    checked = subprocess.run(
        [sys.executable, "-m", "checker", "history.jsonl"],
        cwd=run.directory,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_the_library_example(nodes: list[RealNode], tmp_path: Path) -> None:
    (code,) = (block for block in blocks("python") if "NODES = [" in block)
    addresses = [f"127.0.0.1:{node.address.port}" for node in nodes]
    code = re.sub(r"NODES = \[.*?\]", f"NODES = {addresses}", code)
    run = subprocess.run(  # noqa: ASYNC221 - the nodes are processes of their own
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert run.stdout == "valid: True for more than 9 s: True\n", run.stderr
    assert [await node.get("invoice-17") for node in nodes] == [None] * 5


def test_the_suite_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (block for block in blocks("yaml") if "cases:" in block)
    my_lock(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "suite.yaml").write_text(text)
    items = load_suite(tmp_path / "suite.yaml").items
    assert {item.lock for item in items} == {"redlock", "redlock-sequential", "my_lock:Hasty"}


def test_make_knows_the_targets_that_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"^make ([\w-]+)", README, re.MULTILINE))
    assert {"run", "test"} <= named
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []
