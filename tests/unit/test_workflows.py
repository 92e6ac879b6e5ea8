"""The workflows call what people call, with options that there are."""

from __future__ import annotations

import os
import re
import subprocess
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


def test_there_are_three() -> None:
    assert [path.name for path in FILES] == ["ci.yml", "lock-suite.yml", "lock-test.yml"]
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
    lines = [line for path in FILES for line in map(str.strip, commands(path)) if line.startswith("lab ")]
    assert lines
    for line in lines:
        words = line.split()
        options = {option for parameter in known[words[1]].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


@pytest.mark.parametrize(("job", "name"), [("suite", "lock-suite.yml"), ("examine", "lock-test.yml")])
def test_the_caller_passes_inputs_that_there_are(job: str, name: str) -> None:
    called = read(FOLDER / "ci.yml")["jobs"][job]
    assert ROOT / called["uses"].removeprefix("./") == FOLDER / name
    inputs = read(FOLDER / name)["on"]["workflow_call"]["inputs"]
    assert set(called["with"]) <= set(inputs)
    required = {one for one, about in inputs.items() if about.get("required") == "true"}
    assert required <= set(called["with"])


@pytest.mark.parametrize("name", ["lock-suite.yml", "lock-test.yml"])
def test_every_input_is_described_and_used_and_no_other(name: str) -> None:
    """A caller's text reaches the shell through variables only, so that it cannot become a command."""
    workflow = read(FOLDER / name)
    inputs = workflow["on"]["workflow_call"]["inputs"]
    assert all(about["description"] and about["type"] for about in inputs.values())
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(inputs)
    for job in workflow["jobs"].values():
        assert not any("${{" in step.get("run", "") for step in job["steps"])


def test_a_substrate_that_a_lock_is_not_tested_on_is_an_error() -> None:
    steps = read(FOLDER / "lock-test.yml")["jobs"]["test"]["steps"]
    (step,) = [one for one in steps if "lab test" in one.get("run", "")]
    ended = subprocess.run(
        ["bash", "-euc", step["run"]],
        env={**os.environ, **dict.fromkeys(step["env"], "docker")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "virtual or local" in ended.stderr


def test_the_example_in_a_workflow_passes_inputs_that_there_are() -> None:
    for name in ("lock-suite.yml", "lock-test.yml"):
        lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
        example = yaml.safe_load("\n".join(line[1:] for line in lines[2:] if line.startswith("#   ")))
        ((_, job),) = example["jobs"].items()
        assert job["uses"].partition("@")[0].endswith(f".github/workflows/{name}")
        assert set(job["with"]) <= set(read(FOLDER / name)["on"]["workflow_call"]["inputs"])


def test_the_lock_of_a_test_is_one_word(tmp_path: Path) -> None:
    """`lab test` gets a driver's command line as one argument, and the report lies where it is uploaded."""
    steps = read(FOLDER / "lock-test.yml")["jobs"]["test"]["steps"]
    (step,) = [one for one in steps if "lab test" in one.get("run", "")]
    seen = tmp_path / "lab"
    seen.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    seen.chmod(0o755)
    values = {"LOCK": "node 'my driver.js'", "BUDGET": "60s", "ON": "local", "OPTIONS": "--seed 7"}
    assert set(values) == set(step["env"])
    words = subprocess.run(
        ["bash", "-euc", step["run"]],
        env={**os.environ, **values, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert words[:2] == ["test", "node 'my driver.js'"]
    assert words[words.index("--budget") + 1] == "60s"
    assert words[-2:] == ["--seed", "7"]
    (upload,) = [one for one in steps if one.get("uses", "").startswith("actions/upload-artifact@")]
    assert Path(words[words.index("--out") + 1]).is_relative_to(upload["with"]["path"])
    assert upload["if"] == "always()"
