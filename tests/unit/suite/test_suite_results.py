"""What a suite comes to: exit codes, rates, JUnit, Markdown; and that runs do not starve each other."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from lab.batch import preload as forked
from lab.batch import verdicts
from lab.batch.suite import run as suite_run
from lab.batch.suite.load import Entry, LoadedSuite
from lab.batch.suite.results import EntryResult, SuiteResult, keep_codes, last_codes
from lab.batch.verdicts import OneRun
from lab.errors import ExitCode
from lab.report.junit import junit
from lab.report.suite import suite_markdown

ENTRY = Entry("healthy/redlock/sim", "healthy", "redlock", "sim", ())
SUITE = LoadedSuite("s", "a suite", (ENTRY,))


def one(code: int, *reasons: str) -> OneRun:
    return OneRun("healthy", 7, code, 1.5, "lab run healthy --seed 7", reasons=reasons)


def result(*codes: int, wanted: int | None = None) -> SuiteResult:
    entry = replace(EntryResult.of(ENTRY, map(one, codes)), wanted=len(codes) if wanted is None else wanted)
    return SuiteResult("s", "a suite", (entry,), 3.0)


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
    assert SuiteResult("s", "a suite", (), 0.0).exit_code == ExitCode.UNKNOWN


def test_the_rate_has_an_interval() -> None:
    (entry,) = result(0, 0, 0, 1).entries
    assert entry.as_expected == 3
    assert entry.rate.low < 0.75 < entry.rate.high


def test_junit_counts_and_tells() -> None:
    strange = replace(one(1, "overlap: \x00\x1b]0;<b>&"), repeat='lab run "x"')
    entry = replace(EntryResult.of(ENTRY, [one(0), strange, one(3, "no receipt")]), wanted=4)
    root = ElementTree.fromstring(junit(SuiteResult("s", "t", (entry,), 3.0)))
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
    told = suite_markdown(result(0, 3))
    assert "0 of 1 as expected, 0 not, 1 unknown" in told
    assert "`lab run healthy --seed 7`" in told
    assert "1 of 2 (" in told


def test_what_failed_is_remembered(tmp_path: Path) -> None:
    assert last_codes(tmp_path, SUITE) == {}
    keep_codes(tmp_path, SUITE, result(1).entries)
    assert last_codes(tmp_path, SUITE) == {ENTRY.id: 1}
    other = replace(result(0).entries[0], id="other")
    keep_codes(tmp_path, SUITE, [other])
    assert last_codes(tmp_path, SUITE) == {ENTRY.id: 1, "other": 0}
    (tmp_path / "suite-s.json").write_text("{")
    assert last_codes(tmp_path, SUITE) == {}


def test_what_was_known_survives_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_codes(tmp_path, SUITE, result(1).entries)

    def half(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space"):
        keep_codes(tmp_path, SUITE, result(0).entries)
    assert last_codes(tmp_path, SUITE) == {ENTRY.id: 1}
    assert [path.name for path in tmp_path.iterdir()] == ["suite-s.json"]


async def test_real_runs_have_the_machine_to_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[str] = []
    seen: list[tuple[str, ...]] = []

    async def run_one(
        scenario: str, seed: int, out: Path, on: str, settings: object, **more: object
    ) -> OneRun:
        running.append(on)
        seen.append(tuple(running))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.remove(on)
        return one(0)

    monkeypatch.setattr(suite_run, "run_one", run_one)
    monkeypatch.setattr(suite_run, "cores", lambda: 4)
    entries = [
        Entry(f"{name}/{on}", name, "redlock", on, (), 3) for name in "ab" for on in ("local", "sim", "auto")
    ]
    ended: list[tuple[Entry, OneRun]] = []
    await suite_run.run_suite(SUITE, entries, tmp_path, jobs=2, ended=ended)
    assert len(ended) == 18
    real = [now for now in seen if set(now) & {"local", "auto"}]
    assert max(map(len, real)) == 2
    assert all("sim" not in now for now in real)
    assert max(len(now) for now in seen if "sim" in now) == 4
    whole = suite_run.result_of(SUITE, entries, ended, 0.0)
    assert [len(entry.runs) for entry in whole.entries] == [3] * 6


def test_suites_that_keep_what_they_know_at_once_lose_nothing(tmp_path: Path) -> None:
    start = threading.Barrier(8)

    def keep(number: int) -> None:
        start.wait()
        keep_codes(tmp_path, SUITE, [replace(result(0).entries[0], id=str(number))])

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert last_codes(tmp_path, SUITE) == {str(number): 0 for number in range(8)}
    assert [path.name for path in tmp_path.iterdir()] == ["suite-s.json"]


async def test_a_run_that_cannot_be_started_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(forked, "call", full)
    run = await verdicts.run_one("healthy", 1, tmp_path, "sim")
    assert run.exit_code == ExitCode.UNKNOWN
    assert run.reasons == ("it could not be started: No space left on device",)
