"""``lab report``, as its user runs it, and commands that have another name now."""

from __future__ import annotations

from lab.cli.app import MOVED
from tests.lab_process import Lab
from tests.unit.report.test_page import Read


def test_every_run_has_its_page_and_a_stored_run_gets_it_again(lab: Lab) -> None:
    run = lab("run", "gc-pause-fenced", "--on", "sim", "--seed", "7", "--picture", "unexpected")
    assert run.code == 0, run.err
    assert "(index.html)" in run.out
    page = run.directory / "index.html"
    first = Read(page.read_text(encoding="utf-8"))
    assert "lab run gc-pause-fenced --seed 7 --on sim" in " ".join(first.texts)
    page.unlink()
    again = lab("report", "reports/latest")
    assert (again.code, again.out.strip()) == (0, str(page)), again.err
    shown = Read(page.read_text(encoding="utf-8"))
    assert (shown.texts, shown.data) == (first.texts, first.data)
    drawn = lab("report", "reports/latest", "--figure", "fencing", "--out", "fences.pdf")
    assert (drawn.code, drawn.out) == (0, "fences.pdf\n"), drawn.err
    assert (lab.directory / "fences.pdf").read_bytes().startswith(b"%PDF")


def test_bad_input_is_told_once(lab: Lab) -> None:
    run = lab("report", "nowhere")
    assert run.code == 2
    assert "no such run" in run.err
    assert "hint:" in run.err


def test_a_former_command_names_the_one_that_does_its_work(lab: Lab) -> None:
    run = lab("verdicts", "--help")
    assert (run.code, run.out, run.err) == (2, "", f"error: lab verdicts is now: {MOVED['verdicts']}\n")
