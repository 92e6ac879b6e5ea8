"""What a batch comes to: exit codes, rates, JUnit, Markdown; and that runs do not starve each other."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from lab.batch import engine
from lab.batch.engine import Batch
from lab.batch.exit_code import worst
from lab.batch.item import Item, Plan
from lab.batch.junit import junit
from lab.batch.one_run import run_one
from lab.batch.preload import Child
from lab.batch.result import Result
from lab.batch.row import Row
from lab.batch.tables import cell_words, markdown
from lab.errors import ExitCode, LabError
from tests.unit.batch.made import cell, run, survey_of

ITEM = Item("healthy/redlock/sim", "healthy", "redlock", "sim")


def one(code: int, *reasons: str) -> Row:
    return Row(
        7, code, reasons=reasons, wall_s=1.5, repeat="lab run healthy --seed 7", item="healthy/redlock/sim"
    )


def of(*rows: Row, wanted: int | None = None) -> Result:
    item = replace(ITEM, repeat=len(rows) if wanted is None else wanted)
    return Result.of(Plan("s", "a suite", (item,)), rows, 3.0)


def result(*codes: int, wanted: int | None = None) -> Result:
    return of(*map(one, codes), wanted=wanted)


@pytest.mark.parametrize(
    ("codes", "wanted", "expected"),
    [
        ((0,), 1, 0),
        ((0, 0), 2, 0),
        ((0, 1), 2, 1),
        ((3, 1), 2, 1),
        ((0, 3), 2, 3),
        ((0, 2), 2, 3),
        ((0, 130), 2, 3),
        ((0, -9), 2, 3),
        ((0,), 2, 3),
        ((), 1, 3),
    ],
)
def test_only_what_all_came_out_as_expected_is_a_pass(
    codes: tuple[int, ...], wanted: int, expected: int
) -> None:
    assert result(*codes, wanted=wanted).exit_code == expected


def test_nothing_at_all_is_no_pass() -> None:
    assert Result.of(Plan("s", "a suite", ()), ()).exit_code == worst(()) == ExitCode.UNKNOWN


def test_the_rate_has_an_interval() -> None:
    (only,) = result(0, 0, 0, 1).cells
    assert only.as_expected == 3
    assert only.as_expected_rate.low < 0.75 < only.as_expected_rate.high


def test_junit_counts_and_tells() -> None:
    strange = replace(one(1, "overlap: \x00\x1b]0;<b>&"), repeat='lab run "x"')
    root = ElementTree.fromstring(junit(of(one(0), strange, one(3, "no receipt"), wanted=4)))
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "2",
    }
    cases = list(root.iter("testcase"))
    assert [case.get("name") for case in cases][:2] == ["healthy/redlock/sim #1", "healthy/redlock/sim #2"]
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "overlap: \ufffd\ufffd]0;<b>&"
    assert 'repeat: lab run "x"' in (failure.text or "")
    missing = cases[3].find("error")
    assert missing is not None
    assert missing.get("message") == "1 runs did not take place"
    assert not list(root.iter("skipped"))


def test_markdown_says_how_to_repeat() -> None:
    reported = markdown(result(0, 3))
    assert "0 of 1 as expected, 0 not, 1 unknown" in reported
    assert "`lab run healthy --seed 7`" in reported
    assert "1 of 2 (" in reported


def test_one_bad_run_of_many_decides_what_is_said() -> None:
    bad = one(1, "resource: ok, not violated")
    (made,) = of(one(0), bad, one(3, "no receipt"), one(0), wanted=5).cells
    assert cell_words(made) == (
        "NOT as expected: resource: ok, not violated; UNKNOWN: 1 of 5 runs did not take place"
    )


def test_receipts_of_a_scenario_and_its_control_stand_in_its_line() -> None:
    late = cell("late", "redlock", run(0, receipts=1, faults=2), survey=False)
    control = cell("late-control", "redlock", run(0, receipts=2, faults=2), survey=False, control_of="late")
    made = Result(replace(survey_of().plan, survey=False), (late, control))
    (line,) = (line for line in markdown(made).splitlines() if line.startswith("| late"))
    assert "| 1 of 1 |" in line
    assert "| 3 of 4 | 2.5 |" in line


def test_what_nothing_is_expected_of_is_no_failure_in_junit_either() -> None:
    made = survey_of(cell("a", "l", run(1), run(2)), cell("a", "m", run(3)), cell("b", "m", run(1), own=True))
    root = ElementTree.fromstring(junit(made))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["4", "1", "1"]


async def test_real_runs_have_the_machine_to_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[str] = []
    seen: list[tuple[str, ...]] = []

    async def pretend(item: Item, seed: int, out: Path, **more: object) -> Row:
        running.append(item.on)
        seen.append(tuple(running))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.remove(item.on)
        return Row(seed, item=item.id)

    monkeypatch.setattr(engine, "run_one", pretend)
    monkeypatch.setattr("lab.batch.one_run.cores", lambda: 4)
    items = tuple(
        Item(f"{name}/{on}", name, "redlock", on, repeat=3)
        for name in "ab"
        for on in ("local", "sim", "auto")
    )
    batch = Batch.begin(Plan("s", "t", items), tmp_path)
    ended = await batch.run(jobs=2, seed=5)
    batch.close()
    assert [len(made.rows) for made in ended.cells] == [3] * 6
    real = [now for now in seen if set(now) & {"local", "auto"}]
    assert max(map(len, real)) == 2
    assert all("sim" not in now for now in real)
    assert max(len(now) for now in seen if "sim" in now) == 4
    assert len({row.seed for row in ended.rows}) == 18
    again = Batch.begin(Plan("s", "t", items[::-1]), tmp_path)
    assert {row.seed for row in (await again.run(jobs=1, seed=5)).rows} == {row.seed for row in ended.rows}
    again.close()


async def test_a_run_that_cannot_be_started_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Child, "begin", full)
    row = await run_one(ITEM, 1, tmp_path)
    assert row.exit_code == ExitCode.UNKNOWN
    assert row.reasons == ("it could not be started: No space left on device",)


def test_bad_input_of_a_run_is_reported_and_does_not_end_the_others(tmp_path: Path) -> None:
    items = (
        replace(ITEM, id="no/such/sim", scenario="no-such-scenario"),
        replace(ITEM, settings=("lock.ttl=1500ms",)),
        replace(ITEM, id="healthy/mine/sim", settings=("lock.name=no_such_module:Lock",)),
    )
    batch = Batch.begin(Plan("s", "t", items), tmp_path)
    ended = asyncio.run(batch.run(seed=1))
    batch.close()
    rows = {row.item: row for row in ended.rows}
    assert "no-such-scenario" in rows["no/such/sim"].refused
    assert rows[ITEM.id].as_expected
    assert rows[ITEM.id].outcomes["mutual_exclusion"] == "ok"
    assert (Path(str(rows[ITEM.id].directory)) / "verdict.json").exists()
    assert rows["healthy/mine/sim"].refused
    assert ended.exit_code == ExitCode.UNKNOWN


def test_a_row_that_cannot_be_written_ends_the_batch_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pretend(item: Item, seed: int, out: Path, **more: object) -> Row:
        return Row(seed, item=item.id)

    monkeypatch.setattr(engine, "run_one", pretend)
    batch = Batch.begin(Plan("s", "t", (ITEM,)), tmp_path)
    batch._journal._file.close()
    batch._journal._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115 - closed with the batch
    with pytest.raises(LabError, match="No space left on device"):
        asyncio.run(batch.run())
    assert len(batch.result.rows) == 1, "what ended is known all the same"
    batch.close()
