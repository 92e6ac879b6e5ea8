"""``lab demo``: in 80 columns, without colours, in ASCII, at Enter; and its words belong to the scenarios."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from lab.report.demo.lanes import ASCII, Glyphs, Lanes
from lab.report.demo.texts import texts, words_for
from lab.report.timeline.data import extract
from lab.report.timeline.marks import scene_of
from lab.run.stored import read_run
from lab.scenario.load import load_scenario
from lab.scenario.steps import Say
from tests.lab_process import ROOT
from tests.unit.report.pages import GALLERY, SCENARIOS

DEMO = [sys.executable, "-m", "lab", "demo", "partition-clockjump", "--on", "sim", "--seed", "7"]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_piped_it_goes_on_by_itself_in_80_columns(encoding: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [*DEMO, "--auto"],
        cwd=tmp_path,
        env=environment(PYTHONIOENCODING=f"{encoding}:replace"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=240,
        check=False,
    )
    out = run.stdout.decode(encoding)
    assert run.returncode == 0, run.stderr.decode()
    assert "\x1b" not in out
    assert max(len(line) for line in out.splitlines() if not line.startswith("its page:")) <= 80
    assert "Kleppmann" in out
    assert "both hold the lock for" in out
    assert "mutual exclusion: VIOLATED" in out
    assert (tmp_path / "reports/latest/index.html").exists()


@pytest.mark.full
def test_at_a_terminal_it_waits_for_enter(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        DEMO,
        cwd=tmp_path,
        env=environment(TERM="xterm-256color", COLUMNS="80"),
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    seen, answered = b"", 0
    try:
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed: it has ended
                break
            if not piece:
                break
            seen += piece
            while answered < seen.count(b"Enter continues"):
                os.write(ours, b"\n")
                answered += 1
    finally:
        code = process.wait(timeout=240)
        os.close(ours)
    assert code == 0
    assert answered == 6  # the opening, and five parts
    assert b"mutual exclusion" in seen


def test_every_part_has_its_text() -> None:
    for name, words in texts().items():
        steps = load_scenario(name).scenario.steps
        assert len(words.parts) == sum(isinstance(step, Say) for step in steps), name
        assert words.after


def test_a_scenario_without_texts_is_shown_with_its_own() -> None:
    scenario = load_scenario("failover-race").scenario
    words = words_for("failover-race", scenario)
    assert words.opening == scenario.source
    assert words.parts == ()


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("glyphs", [Glyphs(), ASCII], ids=["unicode", "ascii"])
def test_the_lanes_fit_and_show_only_what_has_happened(name: str, glyphs: Glyphs) -> None:
    run = read_run(GALLERY / name)
    scene = scene_of(extract(run.history, run.verdict, name))
    for width in (60, 80, 110):
        lanes = Lanes(scene, width, glyphs)
        for share in range(0, 11, 2):
            drawn = [line.plain for line in lanes.at(scene.last * share // 10)]
            assert max(map(len, drawn)) <= width
    first = "\n".join(line.plain for line in Lanes(scene, 80, glyphs).at(0))
    last = "\n".join(line.plain for line in Lanes(scene, 80, glyphs).at(scene.last))
    assert "acquire" not in first
    assert "acquire" in last
    if glyphs is ASCII:
        assert last.replace("’", "'").replace("✗", "x").replace("·", ".").isascii()
