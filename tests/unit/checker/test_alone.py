"""The checker without the lab: what it imports, what its distribution holds, and the examples of its page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "checker.md").read_text()
BLOCK = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in BLOCK.finditer(PAGE)]
ONLY = """
import sys
class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {allowed!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Only())
from checker.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def settings() -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / "checker" / "pyproject.toml").read_text())


def test_it_runs_with_nothing_but_what_its_distribution_asks_for() -> None:
    asked = [str(d).partition(">=")[0] for d in settings()["project"]["dependencies"]]  # type: ignore[attr-defined]
    program = ONLY.format(allowed={"checker", "_distutils_hack", *asked})
    case = str(ROOT / "tests" / "golden" / "cycle-violated.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", program, case, "--explain"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "a contradiction" in done.stdout


def test_its_distribution_has_every_package_and_the_versions_of_the_lab() -> None:
    packages = {
        ".".join(("checker", *path.parent.relative_to(ROOT / "checker").parts))
        for path in (ROOT / "checker").rglob("__init__.py")
    }
    alone = settings()
    tools = alone["tool"]["setuptools"]
    assert isinstance(tools, dict)
    assert set(tools["packages"]) == packages
    lab = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(alone["project"]["dependencies"]) <= set(lab["dependencies"])  # type: ignore[call-overload]
    assert alone["project"]["optional-dependencies"]["scale"] == lab["optional-dependencies"]["scale"]  # type: ignore[index]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("examples")
    for _, option, value, text in BLOCKS:
        if option == "file":
            (directory / value).write_text(text)
    return directory


@pytest.mark.parametrize(
    ("command", "code"), [(text.strip(), int(value)) for kind, _, value, text in BLOCKS if kind == "sh"]
)
def test_the_commands_of_the_page_end_as_it_says(files: Path, command: str, code: int) -> None:
    program, *arguments = shlex.split(command)
    assert program == "python"
    done = subprocess.run(
        [sys.executable, *arguments], cwd=files, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done
    assert "violated" in done.stdout


@pytest.mark.parametrize(
    "text", [text for kind, _, _, text in BLOCKS if kind == "python"], ids=["events", "model"]
)
def test_the_code_of_the_page_runs(text: str) -> None:
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


def test_lab_check_takes_the_options_of_the_checker(files: Path) -> None:
    command = [sys.executable, "-m", "lab", "check", str(files / "production.jsonl"), "--explain"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a contradiction" in done.stdout
    wrong = subprocess.run([*command, "--nonsense"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
