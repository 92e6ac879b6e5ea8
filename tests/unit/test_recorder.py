"""`lab.record`: what it writes, and that the application never notices."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from checker import check
from checker.formats import load
from checker.formats.together import load_recordings
from checker.history.completeness import Completeness
from checker.history.history import History
from checker.verdict import Outcome, Property
from lab.record import Recorder
from lab.record import recorder as recorder_module
from tests.lab_process import ROOT


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def operations(path: Path) -> list[tuple[str, str]]:
    return [(line["f"], line["type"]) for line in lines(path)[1:] if line.get("process", "lab") != "lab"]


def judged(directory: Path) -> tuple[History, dict[Property, Outcome]]:
    history = load_recordings(files(directory))
    verdict = check(history)
    return history, {name: verdict[name].outcome for name in verdict.properties}


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk that takes nothing more after the header until the event is set."""
    free = threading.Event()
    write = os.write

    def slow(file: int, data: bytes) -> int:
        if not data.startswith(b'{"history"'):
            free.wait()
        return write(file, data)

    monkeypatch.setattr(os, "write", slow)
    return free


def test_importing_it_imports_the_standard_library_alone() -> None:
    program = "import sys; before = set(sys.modules); import lab.record; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert imported - sys.stdlib_module_names == {"lab"}
    assert {name for name in done.stdout.split() if name.startswith("lab")} == {
        *("lab", "lab.record", "lab.record.recorder"),
    }


def test_what_is_recorded_is_a_whole_history(tmp_path: Path) -> None:
    with Recorder(tmp_path, name="billing", clock_error_ms=2.5, store_fences=True) as recorder:
        with recorder.acquire("k", ttl_ms=30_000) as call:
            grant = call.ok(fence=7, token="t", claimed_ms=29_000)
        with recorder.acquire("k") as call:
            call.fail("taken")
        with grant.extend(ttl_ms=40_000) as extension:
            extension.ok(claimed_ms=39_000.5)
        with grant.write("row", version_read=3) as write:
            write.ok(version=4)
        with grant.release() as release:
            release.ok()
    (path,) = files(tmp_path)
    assert path.stem == recorder.client
    assert load(path).complete is Completeness.WHOLE
    header, clock, *events, last, end = lines(path)
    assert header["recorder"] == {
        "client": recorder.client,
        "clock": header["recorder"]["clock"],
        "clock_error_ns": 2_500_000,
    }
    assert header["params"]["store_fences"] is True
    assert abs(clock["value"] - (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))) < 10**9
    assert (clock["f"], last["f"]) == ("clock", "clock")
    assert end["events"] == len(events) + 2
    process, grant_id = f"{recorder.client}/1", f"{recorder.client}.1"
    common = {"process": process, "key": "k", "grant_id": grant_id}
    seen = [{n: v for n, v in event.items() if n not in ("time_ns", "duration_ns")} for event in events]
    second = {**common, "f": "acquire", "grant_id": f"{recorder.client}.2"}
    written = {**common, "f": "write", "key": "k:row"}
    assert seen == [
        {**common, "f": "acquire", "type": "invoke", "ttl_ns": 30 * 10**9},
        {**common, "f": "acquire", "type": "ok", "fence": 7, "token": "t", "claimed_ns": 29 * 10**9},
        {**second, "type": "invoke"},
        {**second, "type": "fail", "error": "taken"},
        {**common, "f": "extend", "type": "invoke", "ttl_ns": 40 * 10**9},
        {**common, "f": "extend", "type": "ok", "claimed_ns": 39_000_500_000},
        {**written, "type": "invoke", "fence": 7, "version_read": 3},
        {**written, "type": "ok", "version_written": 4},
        {**common, "f": "release", "type": "invoke"},
        {**common, "f": "release", "type": "ok"},
    ]
    stamps = [event["time_ns"] for event in lines(path)[1:-1]]
    assert stamps == sorted(stamps)
    history, outcomes = judged(tmp_path)
    assert set(outcomes.values()) == {Outcome.OK}
    assert history.complete is Completeness.WHOLE


def test_a_lock_that_protects_nothing_recorded_and_has_no_lease_is_judged(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder, recorder.acquire("k") as call:
        grant = call.ok()
        with grant.release() as release:
            release.ok()
    _, outcomes = judged(tmp_path)
    assert outcomes[Property.RESOURCE] == outcomes[Property.LEASE_HONESTY] == Outcome.ABSENT
    assert outcomes[Property.MUTUAL_EXCLUSION] == Outcome.OK


def test_an_exception_goes_on_and_its_outcome_is_unknown(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        with pytest.raises(TimeoutError), recorder.acquire("k"):
            raise TimeoutError
        with recorder.acquire("k"):
            pass
        with recorder.acquire("k") as call:
            call.fail()
            call.ok()  # the first outcome counts
    (path,) = files(tmp_path)
    ended = [line for line in lines(path) if line.get("type") in ("ok", "fail", "info") and "key" in line]
    assert [(e["type"], e.get("error")) for e in ended] == [
        ("info", "TimeoutError"),
        ("info", "no outcome"),
        ("fail", None),
    ]
    assert [e["process"].rpartition("/")[2] for e in ended] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl_ms": math.inf},
        {"ttl_ms": math.nan},
        {"ttl_ms": "soon"},
        {"ttl_ms": 10**30},
        {"key": type("Mean", (), {"__str__": lambda _: 1 / 0})()},
    ],
    ids=["inf", "nan", "text", "large", "no text"],
)
def test_a_value_that_cannot_be_written_is_a_gap_and_no_error(wrong: dict[str, Any], tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        with recorder.acquire("k", ttl_ms=60_000) as call:
            call.ok()
        with recorder.acquire(**{"key": "k", **wrong}) as call:
            call.ok()
        with recorder.acquire("other") as call:
            call.fail()
    (path,) = files(tmp_path)
    assert operations(path) == [
        (f, t) for t in ("ok", "fail") for f, t in (("acquire", "invoke"), ("acquire", t))
    ]
    (gap,) = (line for line in lines(path) if line.get("f") == "gap")
    assert gap["value"] == recorder.lost == 1
    _, outcomes = judged(tmp_path)
    assert outcomes[Property.MUTUAL_EXCLUSION] is Outcome.UNKNOWN


@pytest.mark.parametrize("key", ["ü → 鍵", "a\nb", '"', "\udcff", "x" * 5_000, ""], ids=ascii)
def test_any_text_may_be_a_key_and_others_are_others(key: str, tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        for name in (key, f"{key}2", key):
            with recorder.acquire(name) as call:
                call.ok()
    history = load_recordings(files(tmp_path))
    keys = [history.ops.name("key", row) for row in range(3)]
    assert keys[0] == keys[2] != keys[1]


def test_a_full_queue_loses_events_and_says_where(tmp_path: Path, blocked: threading.Event) -> None:
    recorder = Recorder(tmp_path, queue_max=4)
    with recorder.acquire("k", ttl_ms=60_000) as call:
        grant = call.ok()
    for _ in range(50):  # none of these waits for the disk
        with recorder.acquire("k", ttl_ms=60_000) as call:
            call.fail()
    with grant.release() as release:
        release.ok()
    assert not blocked.is_set()
    blocked.set()
    while len(recorder._queue):
        time.sleep(0.001)
    with recorder.acquire("k", ttl_ms=60_000) as call:
        call.ok()
    recorder.close()
    (path,) = files(tmp_path)
    (gap,) = (line for line in lines(path) if line.get("f") == "gap")
    assert gap["value"] == recorder.lost > 40
    assert ("release", "invoke") not in operations(path)
    history, outcomes = judged(tmp_path)
    # Two grants of a minute each overlap on record, but that of the first may have been released in the gap.
    assert outcomes[Property.MUTUAL_EXCLUSION] is Outcome.UNKNOWN
    assert check(history).findings == check(history)[Property.MUTUAL_EXCLUSION].findings
    assert not check(history)[Property.MUTUAL_EXCLUSION].violations
    assert any(
        re.search(rf"lost events once.*\({recorder.lost} in all\)", r) for r in check(history).unknown_reasons
    )


def test_a_directory_that_cannot_be_written_ends_recording_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder(tmp_path / "file" / "below")
    for _ in range(3):
        with recorder.acquire("k") as call:
            call.ok()
    recorder.close()
    with recorder.acquire("k") as call:
        call.ok()
    assert recorder.problem is not None
    assert "NotADirectory" in recorder.problem
    assert recorder.lost >= 2
    assert capsys.readouterr().err.count("recording ended") == 1


def test_a_file_of_its_full_size_has_no_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, bytes_max=2_000)
    for _ in range(100):
        with recorder.acquire("k") as call:
            grant = call.ok()
        with grant.release() as release:
            release.ok()
        if recorder.problem is None:
            time.sleep(0.002)
    recorder.close()
    (path,) = files(tmp_path)
    assert path.stat().st_size <= 2_000
    assert recorder.problem is not None
    history, outcomes = judged(tmp_path)
    assert outcomes[Property.MUTUAL_EXCLUSION] is Outcome.UNKNOWN
    assert "was killed, or its file is still being written" in check(history).unknown_reasons[0]


@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_a_forked_process_goes_on_in_a_file_of_its_own(how: str, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, name="parent")
    with recorder.acquire("k", ttl_ms=60_000) as call:
        grant = call.ok()

    def child() -> None:
        with grant.release() as release:
            release.ok()
        with recorder.acquire("k", ttl_ms=60_000) as call:
            call.ok()

    if how == "fork":
        if (pid := os.fork()) == 0:
            child()
            recorder.close()
            os._exit(0)
        os.waitpid(pid, 0)
    else:
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
    recorder.close()
    paths = files(tmp_path)
    assert len(paths) == 2
    (of_child,) = (path for path in paths if path.stem != recorder.client)
    assert lines(of_child)[0]["recorder"]["parent"] == recorder.client
    assert lines(of_child)[-1]["end"] is True
    assert operations(of_child)[:2] == [("release", "invoke"), ("release", "ok")]
    assert operations(tmp_path / f"{recorder.client}.jsonl") == [("acquire", "invoke"), ("acquire", "ok")]
    _, outcomes = judged(tmp_path)
    assert outcomes[Property.MUTUAL_EXCLUSION] is Outcome.OK


def test_a_call_under_way_at_a_fork_returns_in_the_parent_alone(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder, recorder.acquire("k", ttl_ms=60_000) as call:
        if (pid := os.fork()) == 0:
            with call.ok().release() as release:
                release.ok()
            recorder.close()
            os._exit(0)
        os.waitpid(pid, 0)
        call.ok()
    assert sorted(map(operations, files(tmp_path))) == [
        [("acquire", "invoke"), ("acquire", "ok")],
        [("release", "invoke"), ("release", "ok")],
    ]
    _, outcomes = judged(tmp_path)
    assert outcomes[Property.MUTUAL_EXCLUSION] is Outcome.OK


def test_where_no_thread_can_be_started_nothing_is_recorded_and_nothing_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    recorder = Recorder(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", cannot)
        with recorder.acquire("k") as call:
            call.ok()
    assert recorder.lost == 1
    with recorder.acquire("k") as call:
        call.fail()
    recorder.close()
    (path,) = files(tmp_path)
    assert [line["value"] for line in lines(path) if line.get("f") == "gap"] == [1]
    load_recordings([path])


def test_many_threads_and_a_signal_handler_record_at_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, queue_max=10**6)
    handled = 0

    def work(key: str) -> None:
        for _ in range(300):
            with recorder.acquire(key, ttl_ms=60_000) as call:
                grant = call.ok()
            with grant.release() as release:
                release.ok()

    def handle(_: int, __: FrameType | None) -> None:
        nonlocal handled
        handled += 1
        work("of the handler") if handled == 1 else None
        with recorder.acquire("handled") as call:
            call.fail()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
    try:
        threads = [threading.Thread(target=work, args=(f"k{at}",)) for at in range(4)]
        for thread in threads:
            thread.start()
        work("main")
        for thread in threads:
            thread.join()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    recorder.close()
    (path,) = files(tmp_path)
    stamps = [line["time_ns"] for line in lines(path)[1:-1]]
    assert stamps == sorted(stamps)
    history, outcomes = judged(tmp_path)
    assert handled
    assert recorder.lost == 0
    assert outcomes[Property.MUTUAL_EXCLUSION] is Outcome.OK
    assert sum(history.ops.f == 0) >= 1_500


def test_a_signal_handler_may_record_while_the_writer_is_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path)
    start, clocks, writers = threading.Thread.start, recorder_module._clocks, list[threading.Thread]()
    signals = iter(range(1))

    def handle() -> None:
        with recorder.acquire("of the handler") as call:
            call.fail()

    def interrupted_start(thread: threading.Thread) -> None:
        writers.append(thread)
        handle()
        start(thread)
        handle()

    def interrupted_clocks() -> dict[str, Any]:
        seen = clocks()
        if next(signals, None) is not None:
            handle()
        return seen

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted_start)
        patched.setattr(recorder_module, "_clocks", interrupted_clocks)
        with recorder.acquire("k") as call:
            call.ok()
    recorder.close()
    assert len(writers) == 1
    assert recorder.lost == 0
    assert recorder.problem is None
    (path,) = files(tmp_path)
    assert lines(path)[1]["f"] == "clock"
    history, _ = judged(tmp_path)
    assert [history.ops.name("key", row) for row in range(len(history.ops.f))].count("k") == 1


def test_a_loss_while_another_one_becomes_a_gap_is_within_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, now, lost = Recorder(tmp_path), recorder_module._now_ns, list[int]()
    with recorder.acquire("k") as call:
        call.fail()

    def interrupted_now() -> int:
        if recorder._gap is None and not lost:  # a handler, after the gap was taken and before it is queued
            lost.append(now())
            recorder._lose()
        return now()

    recorder._lose()
    with monkeypatch.context() as patched:
        patched.setattr(recorder_module, "_now_ns", interrupted_now)
        with recorder.acquire("k") as call:
            call.fail()
    recorder.close()
    (path,) = files(tmp_path)
    gaps = [line for line in lines(path) if line.get("f") == "gap"]
    assert any(g["start_ns"] <= lost[0] <= g["start_ns"] + g["duration_ns"] for g in gaps)
    load_recordings([path])


def test_what_is_lost_before_anything_else_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder.acquire("k", ttl_ms=math.inf) as call:
        call.ok()
    with recorder.acquire("k") as call:
        call.fail()
    recorder.close()
    (path,) = files(tmp_path)
    assert [line["f"] for line in lines(path)[1:4]] == ["clock", "gap", "acquire"]
    load_recordings([path])


def test_after_it_is_closed_nothing_is_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder.acquire("k") as call:
        call.fail()
    recorder.close()
    recorder.close()
    with recorder.acquire("k") as call:
        call.ok()
    assert recorder.lost == 1
    (path,) = files(tmp_path)
    assert operations(path) == [("acquire", "invoke"), ("acquire", "fail")]


def test_a_program_that_ends_closes_its_file_and_one_that_records_nothing_makes_none(tmp_path: Path) -> None:
    program = """
import sys
from lab.record import Recorder
recorder = Recorder(sys.argv[1], name="program")
for _ in range(int(sys.argv[2])):
    with recorder.acquire("k") as call:
        call.ok()
"""
    for number in (0, 5):
        subprocess.run([sys.executable, "-c", program, str(tmp_path), str(number)], cwd=ROOT, check=True)
    (path,) = files(tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    assert load(path).complete is Completeness.WHOLE
    assert len(operations(path)) == 10


@pytest.mark.parametrize("wrong", [-1, math.nan, 1e10])
def test_a_bound_that_is_none_is_refused(wrong: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="clock_error_ms, expected 0 to"):
        Recorder(tmp_path, clock_error_ms=wrong)
