"""`lab suite` as its user calls it: exit codes, reports, interruption, two at once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.lab_process import Lab, children_of

pytestmark = pytest.mark.full

MIXED = """
title: one of each
cases:
  - {scenarios: healthy, on: sim}
  - {scenarios: two-minorities, locks: "mutant:quorum-off-by-one", on: sim}
  - {scenarios: healthy, on: sim, set: ["steps=[{start: alice acquires}, {until: {keys: gone, within: 1s}}]"]}
"""


def test_each_ends_as_it_should_and_every_report_says_so(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mixed.yaml").write_text(MIXED)
    (tmp_path / "summary.md").write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    run = lab("suite", "mixed.yaml", "--json", "--junit", "out/junit.xml", "--markdown", "table.md")
    assert run.code == 1, run.out + run.err
    reported = json.loads(run.out)
    assert [cell["exit_code"] for cell in reported["cells"]] == [0, 1, 3]
    root = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    assert (tmp_path / "summary.md").read_text() == "before\n" + (tmp_path / "table.md").read_text() + "\n"
    assert run.err.count("repeat: lab run") == 2
    again = lab("suite", "mixed.yaml", "--since-failure", "--json", "--only", "two-minorities")
    assert again.code == 1
    assert [cell["scenario"] for cell in json.loads(again.out)["cells"]] == ["two-minorities"]


def test_an_interrupted_suite_keeps_what_had_ended(lab: Lab, tmp_path: Path) -> None:
    waits = 'set: ["clients=[carol]", "steps=[{do: carol acquires}, {wait: 300s}]"]'
    (tmp_path / "long.yaml").write_text(
        "title: t\ncases:\n  - {scenarios: healthy, on: sim}\n"
        f"  - {{scenarios: healthy, on: local, {waits}}}\n"
    )
    process = lab.start("suite", "long.yaml", "--junit", "junit.xml", "--jobs", "1")
    lab.wait_for_event("acquire", "carol", reports="reports/suite-*")
    process.send_signal(signal.SIGINT)
    run = lab.ended(process)
    assert run.code == 130, run.out + run.err
    assert "1 of 2 as expected" in run.out
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (root.get("tests"), root.get("errors")) == ("2", "1")
    assert children_of(process.pid) == {}


def test_two_suites_side_by_side(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(
        "title: t\ncases:\n  - {scenarios: partition-minority-control, on: local}\n"
    )
    processes = [lab.start("suite", "two.yaml", "--json", "--out", f"reports-{name}") for name in "ab"]
    for process in processes:
        run = lab.ended(process)
        assert run.code == 0, run.out + run.err


def test_a_report_that_cannot_be_written_is_told_before_anything_is_run(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = lab("suite", "--junit", "file/junit.xml")
    assert run.code == 2
    assert "file/junit.xml" in run.err
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize("kind", [(), ("--matrix",)])
def test_show_prints_a_file_that_can_be_used(lab: Lab, tmp_path: Path, kind: tuple[str, ...]) -> None:
    (tmp_path / "mine.yaml").write_text(lab("suite", *kind, "--show").out)
    run = lab("suite", *kind, "mine.yaml", "--only", "no-such-thing")
    assert run.code == 2
    assert "no-such-thing" in run.err
