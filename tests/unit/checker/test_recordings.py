"""Recordings of several processes as one history: clocks, gaps, ends, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checker import HistoryError, check
from checker.__main__ import main
from checker.formats import load, save
from checker.formats.jsonl import event_line
from checker.formats.together import load_recordings
from checker.history.events import CLOCK, GAP, LAB, Event, Header, Params, Recorder
from checker.history.history import History
from checker.live import several
from checker.live.command import follow
from checker.live.judge import OTHERS_MAX, Judge
from checker.verdict import Outcome, Property, PropertyVerdict

MS = 1_000_000
TTL = 60_000 * MS
EXCLUSION = Property.MUTUAL_EXCLUSION
OK, VIOLATED, UNKNOWN = Outcome.OK, Outcome.VIOLATED, Outcome.UNKNOWN


@dataclass
class File:
    """A recording in milliseconds of its own monotonic clock, which the wall clock is `ahead` of."""

    client: str
    clock: str = "one"
    ahead: float = 0
    bound: float | None = None
    parent: str | None = None
    params: Params = field(default_factory=lambda: Params(rho=0.0, model="lease", stall_ns=10**17))
    events: list[Event] = field(default_factory=list)
    ended: bool = True

    def compare(self, at: float, ahead: float | None = None, took: float = 0) -> File:
        value = round((self.ahead if ahead is None else ahead) * MS)
        return self.lab(at, CLOCK, value=value, duration_ns=round(took * MS))

    def lab(self, at: float, f: str, **fields: Any) -> File:
        self.events.append(Event(time_ns=round(at * MS), process=LAB, type="info", f=f, **fields))
        return self

    def op(
        self, f: str, call: float, back: float | None, grant: str, type: Any = "ok", **fields: Any
    ) -> File:
        common: dict[str, Any] = {
            "process": f"{self.client}/1",
            "f": f,
            "key": "k",
            "grant_id": grant,
            **fields,
        }
        self.events.append(Event(time_ns=round(call * MS), type="invoke", **common))
        if back is not None:
            self.events.append(Event(time_ns=round(back * MS), type=type, **common))
        return self

    def held(self, acquired: float, released: float | None = None, number: int = 1, **fields: Any) -> File:
        grant = f"{self.client}.{number}"
        self.op("acquire", acquired - 1, acquired, grant, ttl_ns=TTL, **fields)
        return self if released is None else self.op("release", released, released + 1, grant)

    def lines(self) -> Iterator[bytes]:
        if self.ended and self.events and self.events[-1].f != CLOCK:
            last = max(event.time_ns for event in self.events)
            self.compare(last / MS, self.events[0].value and self.events[0].value / MS)
        bound = None if self.bound is None else round(self.bound * MS)
        recorder = Recorder(client=self.client, clock=self.clock, clock_error_ns=bound, parent=self.parent)
        yield msgspec.json.encode(Header(1, self.params, recorder=recorder)) + b"\n"
        yield from (event_line(event, 0).replace(b'"index":0,', b"") for event in self.events)
        if self.ended:
            yield msgspec.json.encode({"end": True, "events": len(self.events)}) + b"\n"

    def write(self, directory: Path) -> Path:
        path = directory / f"{self.client}.jsonl"
        path.write_bytes(b"".join(self.lines()))
        return path


def joined(directory: Path, *files: File, clock_error_ms: float | None = None) -> History:
    paths = [file.write(directory) for file in files]
    bound = None if clock_error_ms is None else round(clock_error_ms * MS)
    return load_recordings(paths, clock_error_ns=bound)


def exclusion(directory: Path, *files: File, clock_error_ms: float | None = None) -> PropertyVerdict:
    return check(joined(directory, *files, clock_error_ms=clock_error_ms))[EXCLUSION]


def two_hosts(
    overlap_ms: float, *, a: float | None = 10, b: float | None = 10, off_ms: float = 0
) -> tuple[File, File]:
    """A lock that was held by two for so long by the stamps; B's clock is further ahead than it should be."""
    one = File("a", "host a", ahead=5_000, bound=a).compare(0).held(100, 1_000).compare(3_000)
    at = 1_000 + 5_000 + 7_000 - overlap_ms
    other = File("b", "host b", ahead=-7_000 + off_ms, bound=b).compare(at - 50)
    return one, other.held(at, at + 500).compare(at + 900)


def test_processes_of_one_host_need_no_bound(tmp_path: Path) -> None:
    one = File("a").compare(0).held(100, 1_000).compare(2_000)
    other = File("b").compare(10).held(999, 1_500).compare(2_000)
    verdict = exclusion(tmp_path, one, other)
    assert verdict.outcome is VIOLATED
    (finding,) = verdict.violations
    assert finding.clients == ("a", "b")
    assert finding.details["overlap_ns"] == MS
    assert exclusion(tmp_path, one, File("b").compare(10).held(1_000.5, 1_500)).outcome is OK


@pytest.mark.parametrize(
    ("overlap_ms", "outcome"), [(-5, OK), (5, UNKNOWN), (19, UNKNOWN), (21, VIOLATED), (800, VIOLATED)]
)
def test_an_overlap_counts_that_errors_within_the_bounds_do_not_explain(
    overlap_ms: float, outcome: Outcome, tmp_path: Path
) -> None:
    verdict = exclusion(tmp_path, *two_hosts(overlap_ms))
    assert verdict.outcome is outcome
    if outcome is UNKNOWN:
        assert "violated if the clocks of all hosts are right, but they may err by 10 ms each" in verdict.why


def test_the_largest_bound_counts_and_the_command_line_says_more(tmp_path: Path) -> None:
    assert exclusion(tmp_path, *two_hosts(100, a=1, b=49)).outcome is VIOLATED
    assert exclusion(tmp_path, *two_hosts(100, a=1, b=51)).outcome is UNKNOWN
    assert exclusion(tmp_path, *two_hosts(100, a=1, b=51), clock_error_ms=1).outcome is VIOLATED
    assert exclusion(tmp_path, *two_hosts(100, a=1, b=1), clock_error_ms=51).outcome is UNKNOWN


@pytest.mark.parametrize(("a", "b"), [(None, None), (10, None)])
def test_without_a_bound_nothing_is_concluded_across_hosts(
    a: float | None, b: float | None, tmp_path: Path
) -> None:
    verdict = check(joined(tmp_path, *two_hosts(800, a=a, b=b)))
    assert verdict.outcome is UNKNOWN
    assert "no bound is known" in verdict.unknown_reasons[0]
    assert "--clock-error-ms" in verdict.unknown_reasons[0]
    assert exclusion(tmp_path, *two_hosts(-5, a=a, b=b)).outcome is UNKNOWN


def test_a_wall_clock_that_is_set_widens_what_stamps_may_err(tmp_path: Path) -> None:
    one, other = two_hosts(100)
    assert joined(tmp_path, one, other).params.epsilon_ns == 10 * MS
    one.compare(3_500, ahead=4_940).compare(4_000, ahead=5_010)
    assert joined(tmp_path, one, other).params.epsilon_ns == 70 * MS
    one.compare(4_500, took=80)
    history = joined(tmp_path, one, other)
    assert history.params.epsilon_ns == 90 * MS
    assert check(history)[EXCLUSION].outcome is UNKNOWN


def test_drift_since_the_last_comparison_counts(tmp_path: Path) -> None:
    params = Params(rho=0.01, model="lease")
    one = File("a", "host a", bound=1, params=params).compare(0).held(100, 5_000)
    other = File("b", "host b", bound=1, params=params).compare(0).held(6_000, 6_100).compare(6_200)
    assert (
        joined(tmp_path, one, other).params.epsilon_ns == 1 * MS + 62 * MS
    )  # 1 % of the time between B's comparisons


def test_durations_on_one_host_stay_as_they_were_measured(tmp_path: Path) -> None:
    one, other = two_hosts(100)
    one.compare(3_500, ahead=9_000)
    history = joined(tmp_path, one, other)
    calls = history.ops.call_ns[history.ops.client == history.ops.names.client.index("a")]
    assert (calls - calls[0]).tolist() == [0, 901 * MS]
    assert history.start_ns == 0


# -- what is missing ----------------------------------------------------------------------------------------


def test_a_lock_held_at_the_end_of_a_file_may_have_been_released(tmp_path: Path) -> None:
    killed = File("a", ended=False).compare(0).held(100).compare(300)
    other = File("b").compare(0).held(400, 500)
    verdict = check(joined(tmp_path, killed, other))
    assert verdict[EXCLUSION].outcome is UNKNOWN
    assert "what a did after 0.30 s is not recorded: it was killed" in verdict.unknown_reasons[0]
    ended = File("a").compare(0).held(100).compare(300)
    assert exclusion(tmp_path, ended, other).outcome is OK
    still = File("a", ended=False).compare(0).held(100).compare(401)
    verdict = check(joined(tmp_path, still, other))
    assert verdict[EXCLUSION].outcome is VIOLATED
    assert (
        "guaranteed until 0.40 s (what it did then is not recorded)" in verdict[EXCLUSION].violations[0].why
    )


def test_a_line_that_was_cut_off_is_no_lie(tmp_path: Path) -> None:
    path = File("a", ended=False).compare(0).held(100, 200).write(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    other = File("b").compare(0).held(250, 300).write(tmp_path)
    verdict = check(load_recordings([path, other]))
    assert verdict[EXCLUSION].outcome is UNKNOWN


@pytest.mark.parametrize(("gap_ms", "outcome"), [(150, UNKNOWN), (350, UNKNOWN), (450, VIOLATED)])
def test_a_lock_held_when_a_gap_begins_may_have_been_released(
    gap_ms: float, outcome: Outcome, tmp_path: Path
) -> None:
    one = File("a").compare(0).held(100)
    one.lab(gap_ms, GAP, start_ns=round(gap_ms * MS), duration_ns=10 * MS, value=3).compare(900)
    other = File("b").compare(0).held(400, 500)
    verdict = check(joined(tmp_path, one, other))
    assert verdict[EXCLUSION].outcome is outcome
    assert verdict.unknown_reasons[0] == f"a lost events once, for the first time at 0.{gap_ms:.0f}"[:-1] + (
        " s (3 in all)"
    )


def test_a_gap_of_another_process_or_before_the_grant_changes_nothing(tmp_path: Path) -> None:
    one = File("a").compare(0).lab(50, GAP, duration_ns=MS, value=1).held(100).compare(900)
    other = File("b").compare(0).lab(300, GAP, duration_ns=MS, value=1).held(400, 500)
    assert exclusion(tmp_path, one, other).outcome is VIOLATED


def test_a_child_may_release_in_its_gap_what_its_parent_acquired(tmp_path: Path) -> None:
    parent = File("a").compare(0).held(100).compare(900)
    child = File("c", parent="a").compare(200).lab(300, GAP, duration_ns=MS, value=1).compare(900)
    other = File("b").compare(0).held(400, 500)
    assert exclusion(tmp_path, parent, child, other).outcome is UNKNOWN
    stranger = File("c").compare(200).lab(300, GAP, duration_ns=MS, value=1).compare(900)
    assert exclusion(tmp_path, parent, stranger, other).outcome is VIOLATED


def test_what_depends_on_a_missing_extension_is_no_finding(tmp_path: Path) -> None:
    def used(gap: bool) -> list[str]:
        file = File("a").compare(0).op("acquire", 1, 2, "a.1", ttl_ns=100 * MS)
        if gap:
            file.lab(50, GAP, duration_ns=MS, value=2)
        file.op("write", 400, 401, "a.1").op("held", 450, 451, "a.1", claimed_ns=50 * MS).compare(900)
        verdict = check(joined(tmp_path, file))
        return [finding.name for finding in verdict.findings]

    assert used(gap=False) == ["false-validity", "stale-use"]
    assert used(gap=True) == []


def test_a_refusal_in_a_record_with_gaps_proves_no_leak(tmp_path: Path) -> None:
    def leaks(*gaps: float) -> list[str]:
        params = Params(rho=0.0, model="lease", grace_ns=100 * MS, unavailable_ns=500 * MS)
        holder = File("a", params=params).compare(0).op("acquire", 1, 2, "a.1", ttl_ns=100 * MS)
        holder.op("release", 3, 4, "a.1").compare(5_000)
        asking = File("b", params=params).compare(0)
        for gap in gaps:
            asking.lab(gap, GAP, duration_ns=MS, value=2)
        for at in range(10, 5_000, 50):
            asking.op("acquire", at, at + 40, f"b.{at}", "fail", ttl_ns=100 * MS, refused_by=1)
        holder_path, asking_path = holder.write(tmp_path), asking.compare(5_000).write(tmp_path)
        # The ends of the files are gaps as well, after all that they hold.
        history = load_recordings([holder_path, asking_path])
        history = history.with_others([(i, e) for i, e in history.others if e.f != GAP or e.value != 0])
        return [finding.name for finding in check(history).findings]

    assert leaks() == ["leak", "unavailable"]
    assert leaks(6.0) == []


@pytest.mark.parametrize("model", ["mutex", "owner-mutex", "cas-register", "leader-election"])
def test_other_models_cannot_be_judged_where_events_are_missing(model: str, tmp_path: Path) -> None:
    history = joined(tmp_path, File("a").compare(0).held(10, 20).lab(30, GAP, duration_ns=1, value=1))
    verdict = check(history, model=model)
    assert {p.outcome for p in verdict.properties.values()} == {UNKNOWN}
    assert all("judged as a lease only" in p.why for p in verdict.properties.values())


def test_what_is_saved_has_the_same_verdict(tmp_path: Path) -> None:
    killed = File("a", "host a", bound=10, ended=False).compare(0).held(100).compare(300)
    other = File("b", "host b", bound=10).compare(0).lab(10, GAP, duration_ns=5, value=2).held(250, 600)
    history = joined(tmp_path, killed, other)
    expected = check(history)
    assert expected[EXCLUSION].outcome is VIOLATED
    for suffix in ("jsonl", "edn", "parquet"):
        path = tmp_path / f"saved.{suffix}"
        save(history, path)
        again = check(load(path))
        assert again.findings == expected.findings, suffix
        assert set(expected.unknown_reasons) <= set(again.unknown_reasons), suffix


def slowly(name: str, *, wait: bool) -> Iterator[bytes | None]:
    """The lines of a file that is written while it is read."""
    del wait
    for line in Path(name).read_bytes().splitlines():
        yield from (line, None)


@pytest.mark.parametrize(("ahead_ms", "outcome"), [(-500, VIOLATED), (0.5, VIOLATED), (2, OK), (70_000, OK)])
def test_time_that_a_clock_did_not_count_may_have_ended_a_lease(
    ahead_ms: float, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual machine stood still, and its wall clock was set when it went on."""
    one = (
        File("a")
        .compare(0, took=0.5)
        .held(100)
        .compare(300)
        .compare(350, ahead=ahead_ms, took=0.5)
        .compare(900, ahead_ms)
    )
    other = File("b").compare(0).compare(350, ahead=ahead_ms).held(400, 500).compare(900, ahead_ms)
    assert exclusion(tmp_path, one, other).outcome is outcome
    monkeypatch.setattr(several, "lines_of", slowly)
    code = follow([str(file.write(tmp_path)) for file in (one, other)])
    assert code == (1 if outcome is VIOLATED else 0)


def test_nothing_is_said_before_it_is_known_that_no_time_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several, "lines_of", slowly)
    one = File("a").compare(0).held(100).compare(300).op("extend", 445, 450, "a.1", "fail")
    other = File("b").compare(0).held(400, 440)
    paths = [str(file.compare(600, ahead=70_000).write(tmp_path)) for file in (one, other)]
    assert follow(paths) == 0


def test_time_may_be_missing_after_the_last_comparison_as_well(tmp_path: Path) -> None:
    killed = File("a", ended=False).compare(0).held(100).op("extend", 300, 301, "a.1", "fail")
    other = File("b").compare(0).held(200, 250)
    assert exclusion(tmp_path, killed, other).outcome is UNKNOWN
    assert exclusion(tmp_path, killed.compare(302), other).outcome is VIOLATED


# -- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "field", "words"),
    [
        (lambda: File("a", "host b").compare(0), "recorder.client", "as well"),
        (lambda: File("b", params=Params(rho=0.5)).compare(0), "params.rho", "saw 0.5, but 0.0 in"),
        (lambda: File("b").held(1, 2), "f", "saw 'acquire', expected 'clock' (event 0)"),
        (lambda: File("b").lab(0, CLOCK), "value", "expected an integer"),
        (lambda: File("b").compare(9).held(5, 6), "time_ns", "saw 4000000 after 9000000 (event 1)"),
        (lambda: File("b").compare(0).op("acquire", 1, 2, "a.2"), "grant_id", "expected a grant of 'b'"),
        (lambda: File("b").compare(0).op("acquire", 1, 2, "b.1", process="c/1"), "process", "one of 'b'"),
        (lambda: File("b", bound=-1).compare(0), "recorder.clock_error_ns", "expected 0 to"),
        (lambda: File("b").compare(0).held(1).held(2), "process", "invokes again before"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    other: Any, field: str, words: str, tmp_path: Path
) -> None:
    one = File("a").compare(0).held(1, 2).write(tmp_path)
    (tmp_path / "other").mkdir()
    file = other()
    if field == "process" and "again" in words:
        file.events = [e for e in file.events if e.type != "ok"]
    path = file.write(tmp_path / "other")
    with pytest.raises(HistoryError) as error:
        load_recordings([one, path])
    assert error.value.field == field
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert error.value.hint


def test_histories_of_other_tools_are_no_recordings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = File("a").compare(0).held(1, 2).write(tmp_path)
    golden = Path(__file__).parents[2] / "golden" / "overlap-violated.jsonl"
    assert main([str(one), str(golden)]) == 2
    assert "expected recordings where several files are judged together" in capsys.readouterr().err
    assert main([str(one), str(one)]) == 2
    assert "saw this file twice" in capsys.readouterr().err
    assert main([str(golden), "--clock-error-ms", "5"]) == 2
    assert "saw no recorder in the header" in capsys.readouterr().err
    assert main([str(one), str(golden), "--format", "edn"]) == 2
    assert "recordings are JSON lines" in capsys.readouterr().err
    assert main([str(one), "--clock-error-ms", "-5"]) == 2
    assert "expected 0 to 1e9 milliseconds" in capsys.readouterr().err
    assert main([str(one), "-", "--follow"]) == 2
    assert "standard input cannot be followed together with files" in capsys.readouterr().err


# -- while they grow ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "PATIENCE_S", 0.3)


@pytest.mark.parametrize("overlap_ms", [-5, 5, 19, 21, 800])
def test_what_is_said_live_is_what_the_whole_files_show(
    overlap_ms: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = two_hosts(overlap_ms)
    whole = exclusion(tmp_path, *files).outcome
    code = follow([str(file.write(tmp_path)) for file in files])
    said = capsys.readouterr().out
    assert ("violation overlap" in said) == (whole is VIOLATED)
    assert code == (1 if whole is VIOLATED else 3)  # whether clocks explain it is left to the check of all
    assert (VIOLATED if code == 1 else UNKNOWN) in said


def test_one_recording_is_followed_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert follow([str(File("a").compare(0).held(100, 200).compare(300).write(tmp_path))]) == 0
    assert "of another format" not in capsys.readouterr().out


def test_a_file_in_which_nothing_comes_any_more_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = File("a", ended=False).compare(0).held(100).compare(300)
    other = File("b").compare(0).held(400, 500).compare(900)
    assert follow([str(killed.write(tmp_path)), str(other.write(tmp_path))]) == 3
    said = capsys.readouterr()
    assert "violation" not in said.out
    assert "what a did is not recorded from event" in said.out
    assert "is not followed any more" in said.err


def test_many_gaps_are_all_remembered() -> None:
    """Those that explain a finding are forgotten after a while; a lock that may be gone is not."""
    judge = Judge(Params(rho=0.0, model="lease"))
    one, other = File("a").held(100), File("b").held(400, 500)
    gaps = [
        Event(
            time_ns=(200 + at // 100) * MS,
            process=LAB,
            type="info",
            f=GAP,
            duration_ns=0,
            value=1,
            targets=[who],
        )
        for at, who in enumerate(["a"] + ["c"] * (OTHERS_MAX + 1))
    ]
    events = sorted([*one.events, *gaps, *other.events], key=lambda event: event.time_ns)
    assert [finding for event in events for finding in judge.feed(event)] + judge.end() == []
