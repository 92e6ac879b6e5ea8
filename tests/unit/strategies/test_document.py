"""The worked example of docs/hypothesis.md does what the document says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "hypothesis.md").read_text(encoding="utf-8")

PROFILE = """
from hypothesis import HealthCheck, settings
slow = [HealthCheck.too_slow]
settings.register_profile("busy", settings.get_profile("default"), suppress_health_check=slow)
"""


def blocks(language: str) -> list[str]:
    """The blocks of the document in a language."""
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.full
def test_the_worked_example_does_what_the_document_says(tmp_path: Path) -> None:
    program = tmp_path / "test_my_lock.py"
    program.write_text("\n".join(blocks("python")), encoding="utf-8")
    # On a busy machine one draw may take a second, which Hypothesis' health check would hold against it.
    (tmp_path / "conftest.py").write_text(PROFILE, encoding="utf-8")
    same = ("--hypothesis-seed=0", "--hypothesis-profile=busy")  # wherever this is tested
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *same, "-p", "no:cacheprovider", program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 failed, 2 passed" in run.stdout, run.stdout + run.stderr
    failed = set(re.findall(r"^FAILED test_my_lock.py::(\w+)", run.stdout, re.MULTILINE))
    assert failed == {"test_bare_del", "test_the_late_release"}
    (shown,) = blocks("text")
    lines = [line.removeprefix("E").strip() for line in run.stdout.splitlines()]
    missing = [line for line in shown.splitlines() if not any(line.strip() in each for each in lines)]
    assert missing == [], run.stdout
    assert "Deadline" not in run.stdout
