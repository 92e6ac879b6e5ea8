"""The live form on histories that are known, on files that grow, and what it keeps in memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checker import check
from checker.__main__ import main
from checker.errors import HistoryError
from checker.formats import load
from checker.history.events import Event, Params
from checker.live.command import follow
from checker.live.judge import Judge
from checker.live.window import HELD_MAX
from checker.verdict import Severity
from tests.fuzz.live import NAMES, judged, offline
from tests.unit.checker.builder import MS, HistoryBuilder

ROOT = Path(__file__).resolve().parents[3]
STORED = sorted(
    [*(ROOT / "tests" / "golden").glob("*.jsonl"), *(ROOT / "reports" / "gallery").rglob("*.jsonl*")]
)
WAIT_S = 60


def violated() -> HistoryBuilder:
    return (
        HistoryBuilder()
        .acquire("alice", "g1", 0, 10)
        .acquire("bob", "g2", 20, 30)
        .write("bob", "g2", 40, 50, 0, 1)
    )


def correct() -> HistoryBuilder:
    builder = (
        HistoryBuilder().acquire("alice", "g1", 0, 10, fence=1).write("alice", "g1", 11, 12, 0, 1, fence=1)
    )
    builder.release("alice", "g1", 13, 14).acquire("bob", "g2", 20, 30, fence=2)
    return builder.write("bob", "g2", 40, 50, 1, 2, fence=2).release("bob", "g2", 60, 70)


@pytest.mark.full
def test_agrees_with_the_offline_check_on_every_stored_history() -> None:
    compared = 0
    for path in STORED:
        history = load(path)
        if not history.has_header:
            continue  # the live form reads histories of the lab's own format
        live, judge = judged(history.events(), history.params)
        known = offline(history)
        assert set(live) <= set(known), path
        for name, (finding, *_) in live.items():
            assert any(set(finding.witnesses) <= set(one.witnesses) for one in known[name]), (path, finding)
        missed = {name for name, _ in set(known) - set(live)}
        assert not missed or judge.doubts.left_out(), (path, missed)
        compared += 1
    assert compared > 100


def reported(builder: HistoryBuilder) -> list[tuple[int, str]]:
    judge = Judge(builder.params)
    found = [(at, f.name) for at, event in enumerate(builder.events()) for f in judge.feed(event)]
    return found + [(-1, f.name) for f in judge.end()]


def test_a_violation_is_reported_with_the_event_after_which_it_is_certain() -> None:
    assert reported(violated()) == [(4, "overlap")]
    assert reported(HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 20, 30)) == [
        (-1, "overlap")
    ]


def test_what_is_released_at_the_moment_of_the_next_grant_is_no_overlap() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g1", 0, 10)
        .acquire("bob", "g2", 20, 30)
        .release("alice", "g1", 30, 31)
    )
    assert reported(builder.write("bob", "g2", 40, 50, 0, 1)) == []


def test_a_release_that_names_no_grant_may_be_of_any() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).op("alice", "release", 15, 16)
    builder.acquire("bob", "g2", 20, 30).write("bob", "g2", 40, 50, 0, 1)
    judge = Judge(builder.params)
    assert [f for event in builder.events() for f in judge.feed(event)] == judge.end() == []
    assert judge.doubts.left_out() == ["1 releases or extensions do not name a grant that is known"]


def test_a_release_without_a_grant_counts_although_a_named_one_follows() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).op("alice", "release", 15, 16, "info")
    builder.acquire("bob", "g2", 20, 30).release("alice/1", "g1", 200, 210)
    builder.acquire("carol", "g3", 1_021, 1_022).write("carol", "g3", 1_040, 1_050, 0, 1)
    assert offline(builder.history()) == {}
    assert reported(builder) == []


def test_a_release_of_a_grant_that_nobody_acquired_may_be_of_any_of_its_client() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).release("alice", "g9", 15, 16)
    builder.acquire("bob", "g2", 20, 30).write("bob", "g2", 40, 50, 0, 1)
    assert offline(builder.history()) == {}
    assert reported(builder) == []


def test_a_release_of_nothing_that_is_known_is_over_when_it_returned() -> None:
    """It may have ended what was held when it was called, and nothing that was acquired after its return."""
    builder = HistoryBuilder().acquire("carol", "g0", 0, 5).release("carol", "g0", 6, 7)
    builder.release("alice", "g9", 15, 16, key=None).acquire("alice", "g1", 20, 30)
    assert reported(builder.acquire("bob", "g2", 40, 50)) == [(-1, "overlap")]
    late = HistoryBuilder().acquire("carol", "g0", 0, 5).release("carol", "g0", 6, 7)
    late.release("alice", "g9", 15, 35, key=None).acquire("alice/1", "g1", 20, 30)
    assert reported(late.acquire("bob", "g2", 40, 50)) == []


def test_an_extension_that_names_no_grant_may_be_of_any() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g1", 0, 10)
        .op("alice", "extend", 15, 16, asked={"ttl_ns": 20 * MS})
    )
    builder.acquire("bob", "g2", 200, 210).write("bob", "g2", 220, 230, 0, 1)
    assert offline(builder.history()) == {}
    assert reported(builder) == []


def test_a_short_extension_counts_however_many_follow() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 1).extend("alice", "g1", 2, 3, ttl=100)
    for number in range(100):
        builder.extend("alice", "g1", 10 + 10 * number, 15 + 10 * number)
    builder.acquire("bob", "g2", 1_200, 1_210).write("bob", "g2", 1_220, 1_230, 0, 1)
    assert offline(builder.history()) == {}
    assert reported(builder) == []


def test_a_grant_that_was_just_extended_and_one_that_is_released_do_not_overlap() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 1_100, 1_110)
    builder.extend("alice", "g1", 1_200, 1_300).release("bob", "g2", 1_300, 1_310)
    assert reported(builder) == [(5, "continuity-loss")]
    assert [name for name, _ in offline(builder.history())] == ["continuity-loss"]


def test_a_write_that_took_a_later_version_is_late_although_it_returned_first() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).write("alice", "g1", 20, 90, None, 2)
    builder.acquire("bob", "g2", 50, 60).write("bob", "g2", 70, 100, None, 1)
    assert (7, "unfenced-write") in reported(builder)


def test_a_lost_update_waits_for_an_earlier_write_of_the_same_grant() -> None:
    builder = (
        HistoryBuilder()
        .acquire("bob", "g2", 0, 10)
        .write("bob", "g2", 11, 12, 5, 3)
        .release("bob", "g2", 13, 14)
    )
    builder.acquire("alice", "g1", 20, 30).write("alice", "g1", 40, 90, 4, 6)
    builder.write("alice/2", "g1", 50, 60, 5, 7).read("alice/2", "g1", 70, 80, 7)
    assert reported(builder) == []
    assert offline(builder.history()) == {}


def test_an_early_long_extension_counts_however_many_follow() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 1).extend("alice", "g1", 1.2, 1.5)
    builder.extend("alice", "g1", 2, 3, ttl=1_000_000)
    for number in range(100):
        builder.extend("alice", "g1", 10 + 10 * number, 15 + 10 * number)
    builder.acquire("bob", "g2", 5_000, 5_010).write("bob", "g2", 5_020, 5_030, 0, 1)
    builder.write("alice", "g1", 10_000, 10_010, 1, 2)
    assert "unfenced-write" in {name for _, name in reported(builder)}


def test_a_claim_that_a_later_stall_may_explain_is_not_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(
        HistoryBuilder(single_attempt=True)
        .acquire("alice", "g1", 0, 1_500, claimed=500)
        .release("alice", "g1", 1_501, 1_502)
        .text()
    )
    assert follow([str(path)], as_json=True) == 3
    (ending,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert ending["properties"]["lease_honesty"] == "unknown"


def test_nothing_is_judged_after_times_went_back() -> None:
    events = violated().events()
    events[3] = Event(time_ns=-1, process="bob", type="ok", f="acquire", key="k", grant_id="g2")
    live, judge = judged(events, Params())
    assert not live
    assert judge.doubts.out_of_order
    assert list(judge.doubts.reasons()) == [
        "the time goes back at event 3: from there on nothing was judged live"
    ]


def test_an_unknown_kind_is_an_error_with_its_event() -> None:
    judge = Judge(Params())
    judge.feed(Event(time_ns=0, process="lab", type="info", f="phase"))
    with pytest.raises(HistoryError) as caught:
        judge.feed(Event(time_ns=1, process="a", type="invoke", f="aquire"))
    assert (caught.value.field, caught.value.hint) == ("f", "did you mean 'acquire'?")
    assert caught.value.problem.endswith("(event 1)")


@pytest.mark.parametrize("wrong", ["invoked twice", "never invoked", "another f"])
def test_events_that_contradict_each_other_are_an_error(wrong: str) -> None:
    judge = Judge(Params())
    first = Event(time_ns=0, process="a", type="invoke", f="acquire", key="k", grant_id="g")
    second = {
        "invoked twice": first,
        "never invoked": Event(time_ns=1, process="b", type="ok", f="acquire"),
        "another f": Event(time_ns=1, process="a", type="ok", f="release"),
    }[wrong]
    judge.feed(first)
    with pytest.raises(HistoryError, match=r"event 1"):
        judge.feed(second)


# -- the command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (correct().text(), 0),
        (violated().text(), 1),
        (b'{"history":1}\n{"time_ns":"soon"}\n', 2),
        (b"{:process 0, :type :invoke, :f :acquire}\n", 2),
        (HistoryBuilder().text(), 3),
        (correct().text().replace(b'"events":12', b'"events":13'), 3),
    ],
    ids=["ok", "violated", "damaged", "another format", "nothing granted", "an event is missing"],
)
def test_exit_codes(text: bytes, code: int, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(text)
    assert follow([str(path)]) == code


PRODUCTION = [
    {
        "time_ns": 10 * at,
        "process": f"worker-{who}",
        "type": kind,
        "f": "acquire",
        "key": "k",
        "ttl_ns": 1_000_000,
    }
    for who in (1, 2)
    for at, kind in ((who, "invoke"), (who + 5, "ok"))
]
"""What an application logged: no header, no ids of grants."""


def piped(lines: list[dict[str, Any]], *options: str) -> subprocess.CompletedProcess[str]:
    text = "".join(json.dumps(line) + "\n" for line in sorted(lines, key=lambda line: line["time_ns"]))
    command = [sys.executable, "-m", "checker", "--follow", "-", *options]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, cwd=ROOT, timeout=WAIT_S
    )


def test_a_history_without_a_header_is_followed() -> None:
    done = piped(PRODUCTION)
    assert (done.returncode, "violation overlap" in done.stdout) == (1, True), done
    assert "whether the record is complete is not known" in done.stdout
    release = {"time_ns": 65, "process": "worker-1", "type": "invoke", "f": "release", "key": "k"}
    done = piped([*PRODUCTION, release, release | {"time_ns": 66, "type": "ok"}])
    assert (done.returncode, "overlap," in done.stdout) == (3, False), done


@pytest.mark.parametrize(
    "options",
    [
        "--model nonsense",
        "--model package.module:Class",
        "--model cas-register",
        "--only deadlock_freedom",
        "--only fencin",
        "--explain",
        "--initial 3",
        "--depth 2",
        "--permits 2",
        "--max-size 1G",
        "--save other.jsonl",
        "--map lock=take",
        "--format edn",
    ],
)
def test_an_option_acts_or_is_refused(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--follow", "-", *options.split()]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_options_act_while_a_history_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(violated().text())
    assert main(["--follow", str(path), "--model", "mutex"]) != 1
    assert "mutual_exclusion  " not in capsys.readouterr().out
    assert main(["--follow", str(path), "--only", "lease-honesty"]) == 0
    assert main(["--follow", str(path), "--only", "mutual_exclusion,lease_honesty"]) == 1
    assert "  fencing " not in capsys.readouterr().out


def test_keys_in_values_are_taken_as_asked_while_a_history_is_followed() -> None:
    pairs = [
        {name: item for name, item in line.items() if name != "key"} | {"value": ["k", None]}
        for line in PRODUCTION
    ]
    assert piped(pairs).returncode == 2
    assert piped(pairs, "--independent").returncode == 1
    elsewhere = [line | {"value": [line["process"], None]} for line in pairs]
    assert piped(elsewhere, "--independent").returncode == 3, "nothing was written, and two locks"


def test_a_semaphore_is_not_judged_by_the_fences_of_a_lock() -> None:
    """Several hold it at once, so the order of their fences says nothing, as in the offline check."""
    builder = HistoryBuilder(model="semaphore", permits=2).acquire("alice", "g1", 0, 10, fence=2)
    events = builder.acquire("bob", "g2", 20, 30, fence=1).events()
    assert judged(events, builder.params)[0] == offline(builder.history()) == {}


def test_what_the_last_line_completes_is_told_before_another_comes() -> None:
    events = violated().events()[:4]
    judge = Judge(Params())
    assert [f for event in events for f in judge.feed(event)] == []
    assert [f.name for f in judge.so_far()] == ["overlap"]
    assert judge.so_far() == []
    later = Event(time_ns=events[-1].time_ns + 1, process="carol", type="invoke", f="read", key="k")
    assert [f.name for f in judge.feed(later)] == ["overlap"]
    assert judge.withdrawn == []


def test_what_ended_at_the_same_instant_is_taken_back() -> None:
    events = violated().events()[:4]
    judge = Judge(Params())
    for event in events:
        judge.feed(event)
    (told,) = judge.so_far()
    release = Event(
        time_ns=events[-1].time_ns, process="alice", type="invoke", f="release", key="k", grant_id="g1"
    )
    later = Event(
        time_ns=events[-1].time_ns + 1, process="alice", type="ok", f="release", key="k", grant_id="g1"
    )
    assert [*judge.feed(release), *judge.feed(later), *judge.end()] == []
    assert judge.withdrawn == [told]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_tells_it_while_nothing_comes(as_json: bool, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(violated().text().splitlines(keepends=True)[:5]))
    command = [sys.executable, "-m", "checker", "--follow", *(["--json"] * as_json), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        assert follower.wait(WAIT_S) == 130
    assert json.loads(first)["state"] == "so far" if as_json else "so far: violation overlap" in first


@pytest.mark.parametrize("as_json", [False, True])
def test_times_that_go_back_are_told_at_once(
    as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = correct().text().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"time_ns":', b'"time_ns":-')
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(lines))
    assert follow([str(path)], as_json=as_json) == 3
    first = capsys.readouterr().out.splitlines()[0]
    assert "the time goes back at event 1" in (json.loads(first)["not_judged"] if as_json else first)


def test_an_error_names_file_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"history":1}\n{"time_ns":1,"process":"a","type":"ok","f":"x","fense":1}\n')
    assert follow([str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path}:2: field 'fense'" in error
    assert "did you mean 'fence'?" in error


def test_what_is_not_judged_is_named_and_never_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(correct().text())
    assert follow([str(path)], as_json=True) == 0
    (ending,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(ending["properties"]) == {"mutual_exclusion", "lease_honesty", "fencing", "resource"}
    assert set(ending["not_judged"]) >= {"deadlock_freedom", "fault_tolerance", "linearizability", "cycles"}


def test_a_run_without_any_grant_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(HistoryBuilder().write("bob", None, 0, 1, 0, 1).text())
    assert follow([str(path)], as_json=True) == 3
    (ending,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert ending["properties"]["resource"] == "unknown"
    assert ending["unknown_reasons"] == ["nothing was ever granted, so nothing was proved"]


WRITER = """
import sys, time
data = open(sys.argv[1], "rb").read().splitlines(keepends=True)
with open(sys.argv[2], "ab", buffering=0) as file:
    for line in data[:-1]:
        file.write(line[:9])
        time.sleep(0.02)
        file.write(line[9:])
    sys.stdin.read()  # the last line waits until somebody says so
    file.write(data[-1])
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    whole, growing = tmp_path / "whole.jsonl", tmp_path / "history.jsonl"
    whole.write_bytes(violated().text())
    growing.touch()
    process = subprocess.Popen([sys.executable, "-c", WRITER, whole, growing], stdin=subprocess.PIPE)
    yield process
    process.communicate(timeout=WAIT_S)


def test_a_violation_is_seen_while_another_process_still_writes(
    writer: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "checker", "--follow", "--json", str(tmp_path / "history.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as follower:
        assert follower.stdout is not None
        first = json.loads(follower.stdout.readline())
        assert (first["finding"]["name"], writer.poll(), follower.poll()) == ("overlap", None, None)
        writer.communicate(timeout=WAIT_S)
        assert json.loads(follower.stdout.readline())["outcome"] == "violated"
        assert follower.wait(WAIT_S) == 1


def test_standard_input_without_a_footer_is_unknown() -> None:
    text = b"".join(correct().text().splitlines(keepends=True)[:-1])
    command = [sys.executable, "-m", "checker", "--follow", "-"]
    done = subprocess.run(command, input=text, capture_output=True, check=False, cwd=ROOT, timeout=WAIT_S)
    assert done.returncode == 3
    assert b"no footer" in done.stdout


def test_an_interrupt_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"history":1}\n')
    monkeypatch.setattr("checker.live.lines.time.sleep", interrupted)
    assert follow([str(path)]) == 130


# -- memory -----------------------------------------------------------------------------------------------


def turns(count: int, *, released: bool) -> Iterator[Event]:
    """Clients in turns, four operations each, with a fence and a version; or grants that run out instead."""
    for turn in range(count):
        who, grant, at = f"c{turn % 7}", f"g{turn}", 2_000 * turn * MS
        fields: dict[str, Any] = {
            "process": f"{who}/{turn}",
            "client": who,
            "key": f"k{turn % 3}",
            "grant_id": grant,
        }
        reported: dict[str, dict[str, Any]] = {
            "acquire": {"fence": turn, "claimed_ns": 900 * MS},
            "write": {"version_written": turn + 1},
        }
        asked: dict[str, dict[str, Any]] = {
            "acquire": {"ttl_ns": 1_000 * MS},
            "write": {"version_read": turn, "value": f"v{turn}"},
        }
        for number, f in enumerate(("acquire", "write", "held", *(["release"] * released))):
            begin = at + 10 * number * MS
            yield Event(time_ns=begin, type="invoke", f=f, **fields, **asked.get(f, {}))
            yield Event(time_ns=begin + MS, type="ok", f=f, **fields, **reported.get(f, {}))


@pytest.mark.full
def test_memory_does_not_grow_with_the_number_of_operations() -> None:
    sizes = []
    judge = Judge(Params())
    for number, event in enumerate(turns(25_000, released=True), 1):
        assert judge.feed(event) == []
        if number in (20_000, 200_000):
            sizes.append(judge.size())
    assert sizes[0] == sizes[1] < 1_000
    assert not judge.doubts.left_out()


def test_grants_that_nobody_releases_are_bounded_and_said_to_be_forgotten() -> None:
    judge = Judge(Params())
    for event in turns(3 * HELD_MAX + 500, released=False):
        assert judge.feed(event) == []
    assert judge.size() < 3 * 3 * HELD_MAX
    assert any("forgotten" in what for what in judge.doubts.left_out())


def test_a_long_grant_keeps_a_bounded_number_of_operations() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 1)
    for number in range(300):
        builder.extend("alice", "g", 10 + 20 * number, 11 + 20 * number)
        builder.write("alice", "g", 15 + 20 * number, 16 + 20 * number, number, number + 1)
    judge = Judge(builder.params)
    assert [f for event in builder.events() for f in judge.feed(event)] == []
    assert judge.size() < 200
    assert not [
        f for f in check(builder.history()).findings if f.severity is Severity.VIOLATION and f.name in NAMES
    ]


def test_no_release_is_told_of_that_was_never_called() -> None:
    builder = (
        HistoryBuilder().acquire("alice", "g1", 0, 1, ttl=10_000).acquire("bob", "g2", 500, 501, ttl=10_000)
    )
    builder.op("carol", "read", 600, 601)
    judge = Judge(builder.params)
    (finding,) = [f for event in builder.events() for f in judge.feed(event)]
    assert "it called release" not in finding.why
    assert "it had not released it so far" in finding.why
    assert finding.evidence[0] in finding.why
