"""The table of known defects is about what the lab has, and a reported defect is told from others by it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.drivers.registry import rows
from lab.examine.answer.words import SOUGHT
from lab.examine.command import Asked
from lab.examine.examination import Progress
from lab.examine.ledger.naming import CATALOGUE
from lab.examine.result import Examined
from lab.paths import scenario_dir
from lab.search.loop import OutOfTime
from tests.local import known_defects as measured
from tests.local.known_defects import known_defects, main
from tests.unit.examine.test_output import defect, examined

KNOWN = known_defects()
FINDINGS = ("false-validity", "unavailable")


def test_each_row_of_the_track_record_is_looked_for_or_said_to_be_out_of_reach() -> None:
    files = {path.stem for path in (scenario_dir() / "libraries").glob("*.yaml")}
    there = {name for name in files if not name.endswith("-control")}
    looked_for = [each.scenario for some in KNOWN.drivers.values() for each in some]
    assert sorted([*looked_for, *KNOWN.out_of_reach]) == sorted(there)


def test_what_it_is_known_by_exists() -> None:
    assert set(KNOWN.drivers) <= set(rows())
    for known in (each for some in KNOWN.drivers.values() for each in some):
        assert known.title
        assert set(known.causes) <= set(CATALOGUE)
        assert set(known.findings) <= set(SOUGHT)
    assert set(KNOWN.without_scenario) <= set(rows())
    assert {cause for causes in KNOWN.without_scenario.values() for cause in causes} <= set(CATALOGUE)


@pytest.mark.parametrize(
    ("change", "is_it"),
    [
        ({}, True),
        ({"findings": ("leak", "unavailable")}, True),
        ({"cause": "hangs"}, False),
        ({"findings": ("overlap",)}, False),
        ({"seen": "Alice's acquire of 0 ms failed"}, False),
    ],
)
def test_a_defect_is_the_known_one_by_cause_finding_and_what_was_seen(
    change: dict[str, object], is_it: bool
) -> None:
    (known,) = KNOWN.drivers["redis-py"]
    one = defect("leaves-keys", findings=("leak",), seen="Alice's acquire of 0 ms left its key on A")
    assert known.is_found(replace(one, **change)) is is_it


@pytest.mark.parametrize(("found", "code"), [(("wall-clock", "needs-all-nodes"), 0), (("wall-clock",), 1)])
def test_what_was_found_is_in_the_table_and_is_not_measured_again(
    found: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def examine(asked: Asked, on_progress: Callable[[Progress], None]) -> Examined:
        at = Progress(137, found=[defect(cause, findings=FINDINGS) for cause in found])
        ran.append(asked.lock)
        with contextlib.suppress(OutOfTime):
            on_progress(at)
        return examined(*at.found, schedules=137)

    ran: list[str] = []
    monkeypatch.setattr(measured, "examine", examine)
    monkeypatch.setattr(measured, "why_not_in_virtual_time", lambda lock: None)
    assert main(["redlock-py", "--out", str(tmp_path)]) == code
    first = capsys.readouterr().out
    missed = "" if len(found) == 2 else "| not found |  |  |  |"
    assert "| wall-clock (false-validity, unavailable) | 0 | 137 | 19 of 20 |" in first
    assert missed in first
    assert ("all were found" in first) is (code == 0)
    assert main(["redlock-py", "--out", str(tmp_path), "--resume"]) == code
    assert (ran, capsys.readouterr().out) == (["driver:redlock-py"], first)
    main(["redlock-py", "--out", str(tmp_path), "--resume", "--seed", "1"])
    assert len(ran) == 2, "with another seed it is another measurement"


def test_what_no_row_fits_is_kept_as_unconfirmed_with_why_no_scenario_shows_it() -> None:
    """One row may fit several reported defects: a call that waits for one node hangs, or waits too long."""
    causes = {"hangs": "hang", "waits-too-long": "unavailable", "no-expiry": "leak"}
    done = examined(*(defect(cause, findings=(finding,)) for cause, finding in causes.items()))
    unconfirmed = {}
    for driver in ("redis-semaphore", "sherlock"):
        one = measured.Measured(driver, KNOWN.drivers.get(driver, ()), Asked(f"driver:{driver}"), done)
        kept = measured.to_keep(one)
        assert kept is not None
        unconfirmed[driver] = kept.unconfirmed
    assert unconfirmed["redis-semaphore"] == {"no-expiry": ""}
    why = KNOWN.without_scenario["sherlock"]["hangs"]
    assert unconfirmed["sherlock"] == {"hangs": why, "waits-too-long": "", "no-expiry": ""}
