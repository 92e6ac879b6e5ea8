"""`lab suite --matrix` as its user calls it: every form of its result, interruption, going on, bad input."""

from __future__ import annotations

import csv
import json
import re
import signal
from pathlib import Path

import pytest

from checker import check, load
from tests.lab_process import ROOT, Lab, children_of

pytestmark = pytest.mark.full

SMALL = """
title: Two locks in two scenarios
cases:
  - {scenarios: [healthy, two-minorities], locks: [redlock, "mutant:quorum-off-by-one"], on: sim}
  - {scenarios: healthy, locks: [single, "driver:redlock-rb"], on: sim}
"""


def test_locks_and_scenarios_in_every_form(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    forms = ("--csv", "out/m.csv", "--markdown", "out/m.md", "--html", "out/m.html", "--keep", "kept")
    ended = lab("suite", "--matrix", "small.yaml", *forms)
    assert ended.code == 0, ended.out + ended.err
    assert "skipped: driver:redlock-rb: a driver in Ruby" in ended.err
    assert re.search(r"^ *mutant:quorum-off-by-one +ok +M( |$)", ended.out, re.MULTILINE), ended.out
    assert "with its own lock 2 of 2 as expected" in ended.out
    rows = list(csv.DictReader((tmp_path / "out" / "m.csv").read_text().splitlines()))
    assert [row["state"] for row in rows] == ["known", "known", "known", "known", "n/a"]
    page = (tmp_path / "out" / "m.html").read_text()
    links = re.findall(r'href="([^"]+)"', page)
    assert len(links) == 4
    assert all((tmp_path / "out" / link).is_file() for link in links), "a link to each run's report"
    kept = json.loads((tmp_path / "kept" / "matrix.json").read_text())
    for cell in kept["cells"]:
        if cell["history"] is None:
            assert cell["state"] == "n/a"
            continue
        verdict = check(load(tmp_path / "kept" / cell["history"]["file"]))
        seen = {str(name): str(one.outcome) for name, one in verdict.properties.items()}
        assert seen == cell["history"]["outcomes"]
    text = "".join(path.read_text() for path in (tmp_path / "kept").iterdir() if path.is_file())
    assert str(tmp_path) not in text, "nothing of this machine"
    histories = tmp_path / "kept" / "histories"
    assert lab("check", str(histories / "redlock" / "healthy.jsonl.gz")).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*.*")}
    again = lab("suite", "--resume", str(next((tmp_path / "reports").glob("suite-*"))), "--keep", "kept")
    assert again.code == 0, again.out + again.err
    assert {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*.*")} == before


def test_what_was_interrupted_is_gone_on_with(lab: Lab, tmp_path: Path) -> None:
    scenario = (ROOT / "scenarios" / "healthy.yaml").read_text()
    waits = scenario.replace("steps:\n", "steps:\n  - do: carol acquires\n  - wait: 300s\n")
    (tmp_path / "waits.yaml").write_text(waits.replace("[alice, bob]", "[alice, bob, carol]"))
    cases = "  - {scenarios: healthy, on: sim}\n  - {scenarios: waits.yaml, locks: redlock, on: local}\n"
    (tmp_path / "long.yaml").write_text(f"title: t\ncases:\n{cases}")
    process = lab.start("suite", "--matrix", "long.yaml", "--jobs", "1")
    lab.wait_for_event("acquire", "carol", reports="reports/suite-*")
    process.send_signal(signal.SIGINT)
    ended = lab.ended(process)
    assert ended.code == 130, ended.out + ended.err
    assert "1 known, 0 n/a, 0 unknown, 1 not run yet" in ended.out
    assert children_of(process.pid) == {}
    directory = next((tmp_path / "reports").glob("suite-*"))
    assert f"lab suite --resume {directory}" in ended.err
    (tmp_path / "waits.yaml").write_text(scenario)
    again = lab("suite", "--resume", str(directory), "--json")
    assert again.code == 0, again.out + again.err
    assert "1 runs to go" in again.err
    reported = json.loads(again.out)
    assert [(cell["state"], cell["runs"]) for cell in reported["cells"]] == [("known", 1), ("known", 1)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such.yaml"], "no-such.yaml"),
        (["bad.yaml"], "redlokc"),
        (["small.yaml", "--only", "healty"], "healthy"),
        (["small.yaml", "--on", "somewhere"], "somewhere"),
        (["small.yaml", "--csv", "small.yaml/m.csv"], "small.yaml/m.csv"),
        (["small.yaml", "--keep", "full"], "something else is there"),
        (["small.yaml", "small.yaml"], "several files"),
        (["--resume", "full"], "nothing to continue"),
        (["small.yaml", "--resume", "full"], "--resume together with a file or a scenario"),
        (["small.yaml", "--repeat", "0"], "--repeat"),
    ],
)
def test_bad_input_is_told_before_anything_is_run(
    lab: Lab, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "bad.yaml").write_text(SMALL.replace("[redlock,", "[redlokc,"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    ended = lab("suite", "--matrix", *arguments)
    assert ended.code == 2, ended.out + ended.err
    assert words in ended.err
    assert not (tmp_path / "reports").exists()
    assert (tmp_path / "full" / "thesis.txt").exists()
