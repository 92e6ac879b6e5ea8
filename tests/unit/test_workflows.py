"""The workflows call what people call, with options that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.rules.test_rules import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))


def read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    return loaded


def commands(path: Path) -> list[str]:
    """Every command line of a workflow."""
    steps = [step for job in read(path)["jobs"].values() for step in job.get("steps", ())]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def test_there_are_two() -> None:
    assert [path.name for path in FILES] == ["ci.yml", "lock-suite.yml"]
    assert ".ci/run" in commands(FOLDER / "ci.yml")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_and_rights_are_few(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job.get("steps", ()):
            action, _, version = step.get("uses", "").partition("@")
            assert re.fullmatch(r"(actions/[a-z-]+)?", action)
            assert re.fullmatch(r"[0-9a-f]{40}" if action else "", version)
            if action == "actions/checkout":
                assert step["with"]["persist-credentials"] == "false"
        assert "uses" in job or int(job["timeout-minutes"]) <= 60


def test_what_it_says_of_lab_is_so() -> None:
    from lab.cli.app import command

    known: dict[str, Any] = command().commands  # type: ignore[attr-defined]
    lines = [line for path in FILES for line in commands(path) if line.startswith("lab ")]
    assert lines
    for line in lines:
        words = line.split()
        options = {option for parameter in known[words[1]].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_the_caller_passes_inputs_that_there_are() -> None:
    called = read(FOLDER / "ci.yml")["jobs"]["suite"]
    assert (ROOT / called["uses"].removeprefix("./")).is_file()
    inputs = read(FOLDER / "lock-suite.yml")["on"]["workflow_call"]["inputs"]
    assert set(called["with"]) <= set(inputs)
