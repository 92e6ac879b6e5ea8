"""The clock shim on real processes: Python children and a real redis-server."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import platform
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.shims import (
    CLOCK_VARIABLE,
    MAX_OFFSET_NS,
    MAX_RATE_PPB,
    ClockFile,
    ClockState,
    preload,
)
from tests.unit.shim_support import built_shims, redis_under

S = 10**9
HOUR_NS = 3600 * S
SLACK_NS = S // 100
"""For what the machine's own time service may do to the wall clock between two readings."""

READ_CLOCKS = r"""
import ctypes, sys, time
libc = ctypes.CDLL(None)
class Pair(ctypes.Structure):
    _fields_ = [("s", ctypes.c_int64), ("part", ctypes.c_int64)]
def gettimeofday():
    pair = Pair(); assert libc.gettimeofday(ctypes.byref(pair), None) == 0
    return pair.s * 10**9 + pair.part * 1000
def timespec_get():
    pair = Pair(); assert libc.timespec_get(ctypes.byref(pair), 1) == 1
    return pair.s * 10**9 + pair.part
libc.time.restype = ctypes.c_int64
CLOCKS = {
    "time": time.time_ns,
    "realtime": lambda: time.clock_gettime_ns(0),
    "coarse": lambda: time.clock_gettime_ns(5),
    "alarm": lambda: time.clock_gettime_ns(8),
    "tai": lambda: time.clock_gettime_ns(11),
    "boottime": lambda: time.clock_gettime_ns(7),
    "gettimeofday": gettimeofday,
    "timespec_get": timespec_get,
    "libc_time": lambda: libc.time(None) * 10**9,
}
for line in sys.stdin:
    read = CLOCKS[line.strip()]
    before = time.monotonic_ns(); now = read(); after = time.monotonic_ns()
    print(before, now, after, flush=True)
"""


@pytest.fixture(scope="session")
def shims(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built_shims(tmp_path_factory)


@pytest.fixture
def clock(tmp_path: Path) -> ClockFile:
    file = ClockFile(tmp_path / "clock")
    file.create()
    return file


class Child:
    """A Python process under the clock shim that reads a clock when told to."""

    def __init__(self, shim: Path, clock_file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", READ_CLOCKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": preload(shim), CLOCK_VARIABLE: str(clock_file)},
        )

    def shift_ns(self, name: str = "time") -> tuple[int, int, int]:
        """Bounds of the clock's shift against the real one, and the monotonic time of the reading."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(name, file=self.process.stdin, flush=True)
        before, now, after = map(int, self.process.stdout.readline().split())
        real_minus_monotonic = time.time_ns() - time.monotonic_ns()
        low, high = now - after - real_minus_monotonic, now - before - real_minus_monotonic
        return low - SLACK_NS, high + SLACK_NS, after

    def sees(self, expected_ns: int, name: str = "time", coarse_ns: int = 0) -> bool:
        low, high, _ = self.shift_ns(name)
        return low <= expected_ns <= high + coarse_ns


@contextlib.contextmanager
def child_of(shim: Path, clock_file: Path) -> Iterator[Child]:
    child = Child(shim, clock_file)
    try:
        yield child
    finally:
        child.process.kill()
        child.process.communicate()


@pytest.mark.parametrize(
    ("name", "coarse_ns"),
    [
        ("time", 0),
        ("realtime", 0),
        ("coarse", S // 50),
        ("alarm", 0),
        ("gettimeofday", 1000),
        ("timespec_get", 0),
        ("libc_time", S + S // 50),
    ],
)
@pytest.mark.parametrize("jump_ns", [11 * S, -60 * S, 1_500_000_000, -86_400 * 400 * S + 1])
def test_every_wall_clock_jumps(
    shims: dict[str, Path], clock: ClockFile, name: str, coarse_ns: int, jump_ns: int
) -> None:
    if name == "alarm":
        try:
            time.clock_gettime(8)
        except OSError:
            pytest.skip("this machine has no alarm clock")
    with child_of(shims["clock-shim"], clock.path) as child:
        assert child.sees(0, name, coarse_ns)
        clock.set(jump_ns)
        assert child.sees(jump_ns, name, coarse_ns)
        clock.set(0)
        assert child.sees(0, name, coarse_ns)


def test_monotonic_and_its_kin_do_not_jump(shims: dict[str, Path], clock: ClockFile) -> None:
    with child_of(shims["clock-shim"], clock.path) as child:
        offsets = {
            name: time.clock_gettime_ns(number) - time.monotonic_ns()
            for name, number in (("tai", 11), ("boottime", 7))
        }
        clock.set(HOUR_NS)
        assert child.sees(HOUR_NS)
        real_minus_monotonic = time.time_ns() - time.monotonic_ns()
        for name, offset in offsets.items():
            assert child.sees(offset - real_minus_monotonic, name)
        # Bounds of a reading are monotonic times of the child's: were they shifted, none would fit.
        _, _, monotonic_ns = child.shift_ns()
        assert monotonic_ns <= time.monotonic_ns()


@pytest.mark.parametrize("rate_ppb", [1, 200_000, -200_000, MAX_RATE_PPB, -MAX_RATE_PPB])
@pytest.mark.parametrize("name", ["time", "coarse"])
def test_drift(shims: dict[str, Path], clock: ClockFile, rate_ppb: int, name: str) -> None:
    with child_of(shims["clock-shim"], clock.path) as child:
        # As if more than an hour had passed: whole seconds and a part, which are computed apart.
        anchor_ns = time.monotonic_ns() - HOUR_NS - 700_000_000
        state = clock.set(5 * S, rate_ppb, anchor_ns)
        before_ns = time.monotonic_ns()
        low, high, _ = child.shift_ns(name)
        bounds = sorted((state.shift_ns(before_ns), state.shift_ns(time.monotonic_ns())))
        assert low <= bounds[1] + SLACK_NS
        assert bounds[0] <= high + S // 50
        if abs(rate_ppb) >= 200_000:
            assert abs(bounds[0] - 5 * S) > S // 2, "the test must see a drift at all"


def test_shift_of_a_state_is_what_the_shim_computes() -> None:
    assert ClockState(7, 200_000, 100 * S).shift_ns(1100 * S) == 7 + 200_000_000
    assert ClockState(7, -200_000, 100 * S).shift_ns(1100 * S) == 7 - 200_000_000
    assert ClockState(0, 1, 0).shift_ns(999_999_999) == 0
    assert ClockState(0, -1, 0).shift_ns(999_999_999) == 0, "C's division rounds towards zero"


@pytest.mark.parametrize("content", [None, b"", b"\0" * 31])
def test_without_a_whole_file_the_time_is_real(
    shims: dict[str, Path], tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "no-clock"
    if content is not None:
        path.write_bytes(content)
    with child_of(shims["clock-shim"], path) as child:
        assert child.sees(0)


def test_a_torn_record_neither_blocks_nor_lies(shims: dict[str, Path], clock: ClockFile) -> None:
    clock.set(HOUR_NS)
    with child_of(shims["clock-shim"], clock.path) as child:
        assert child.sees(HOUR_NS)
        (seq,) = struct.unpack("=Q", clock.path.read_bytes()[:8])
        with clock.path.open("r+b", buffering=0) as file:  # a writer that died half-way
            file.write(struct.pack("=Qq", seq + 1, 5 * HOUR_NS))
        assert child.sees(HOUR_NS), "the last whole record counts"
        with child_of(shims["clock-shim"], clock.path) as newcomer:
            assert newcomer.sees(0), "real time, if no whole record was ever seen"
            with pytest.raises(ValueError, match="half written"):
                clock.read()
            clock.set(2 * HOUR_NS)
            assert child.sees(2 * HOUR_NS)
            assert newcomer.sees(2 * HOUR_NS)


def flip_at_full_speed(clock: ClockFile, until: subprocess.Popen[str]) -> None:
    """Alternate between two states of almost the same shift, whose mixtures are 100 s off.

    Stores into a mapping come a hundred times faster than pwrite and so meet readers half-way more often; but
    only on x86 do they stay in order without a barrier.
    """
    early_ns = time.monotonic_ns() - 100_000 * S
    if platform.machine() != "x86_64":
        while until.poll() is None:
            clock.set(-100 * S, 1_000_000, early_ns)  # 0.1 % of 100 000 s: 100 s ahead
            clock.set(0, 0, 0)
        return
    with (
        clock.path.open("r+b") as file,
        mmap.mmap(file.fileno(), 32) as mapped,
        memoryview(mapped) as plain,
        plain.cast("q") as record,
    ):
        while until.poll() is None:
            for _ in range(5000):
                record[0] += 1
                record[1] = -100 * S
                record[2] = 1_000_000
                record[3] = early_ns
                record[0] += 1
                record[0] += 1
                record[1] = record[2] = record[3] = 0
                record[0] += 1


def test_readers_never_see_half_of_a_change(shims: dict[str, Path], clock: ClockFile) -> None:
    script = """
import time
real = time.time_ns() - time.monotonic_ns()
print(max(abs(time.time_ns() - time.monotonic_ns() - real) for _ in range(500_000)))
"""
    process = subprocess.Popen(
        [sys.executable, "-ISc", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_PRELOAD": preload(shims["clock-shim"]), CLOCK_VARIABLE: str(clock.path)},
    )
    flip_at_full_speed(clock, process)
    output, _ = process.communicate()
    assert int(output) < 50 * S


def test_forks_and_threads_follow(shims: dict[str, Path], clock: ClockFile) -> None:
    script = """
import os, sys, threading, time
print("ready", flush=True); sys.stdin.readline()
thread = threading.Thread(target=lambda: print(time.time_ns(), flush=True)); thread.start(); thread.join()
if os.fork() == 0:
    print(time.time_ns(), flush=True); os._exit(0)
os.wait()
"""
    process = subprocess.Popen(
        [sys.executable, "-ISc", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_PRELOAD": preload(shims["clock-shim"]), CLOCK_VARIABLE: str(clock.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    clock.set(24 * HOUR_NS)
    output, _ = process.communicate("go\n", timeout=60)
    readings = [int(line) for line in output.split()]
    assert len(readings) == 2
    assert all(23 * HOUR_NS < reading - time.time_ns() <= 24 * HOUR_NS for reading in readings)


@pytest.mark.parametrize("shift_ns", [24 * HOUR_NS, -24 * HOUR_NS])
def test_sem_timedwait_waits_by_the_shifted_clock(
    shims: dict[str, Path], clock: ClockFile, shift_ns: int
) -> None:
    """A deadline of 0.3 shifted seconds: neither a day long nor over before it began."""
    script = """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
class Pair(ctypes.Structure):
    _fields_ = [("s", ctypes.c_int64), ("ns", ctypes.c_int64)]
semaphore = ctypes.create_string_buffer(64)
assert libc.sem_init(semaphore, 0, 0) == 0
start = time.monotonic_ns()
deadline = time.time_ns() + 300_000_000
pair = Pair(deadline // 10**9, deadline % 10**9)
assert libc.sem_timedwait(semaphore, ctypes.byref(pair)) == -1
print(ctypes.get_errno(), time.monotonic_ns() - start)
pair = Pair(0, -1)
assert libc.sem_timedwait(semaphore, ctypes.byref(pair)) == -1
print(ctypes.get_errno(), 0)
"""
    clock.set(shift_ns)
    reported = subprocess.run(
        [sys.executable, "-ISc", script],
        env={**os.environ, "LD_PRELOAD": preload(shims["clock-shim"]), CLOCK_VARIABLE: str(clock.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    (code, waited_ns), (bad, _) = (tuple(map(int, line.split())) for line in reported.stdout.splitlines())
    assert code == errno.ETIMEDOUT
    assert waited_ns >= 290_000_000
    assert bad == errno.EINVAL


def test_clock_file_keeps_its_inode_and_size(clock: ClockFile) -> None:
    before = clock.path.stat()
    assert before.st_size == 32
    assert clock.read() == ClockState(0, 0, 0)
    clock.set(-5, 7, 9)
    assert clock.read() == ClockState(-5, 7, 9)
    clock.create()
    assert clock.read() == ClockState(0, 0, 0)
    after = clock.path.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, 32)


def test_create_never_cuts_a_file_that_may_be_mapped(clock: ClockFile) -> None:
    clock.path.write_bytes(b"\xff" * 4096)
    clock.create()
    assert clock.path.stat().st_size == 4096
    assert clock.read() == ClockState(0, 0, 0)


def test_clock_file_refuses_what_would_overflow(clock: ClockFile) -> None:
    clock.set(MAX_OFFSET_NS, -MAX_RATE_PPB, 0)
    with pytest.raises(ValueError, match="offset_ns"):
        clock.set(MAX_OFFSET_NS + 1)
    with pytest.raises(ValueError, match="rate_ppb"):
        clock.set(0, MAX_RATE_PPB + 1)
    assert clock.read() == ClockState(MAX_OFFSET_NS, -MAX_RATE_PPB, 0)


def test_clock_file_that_is_gone_or_short(tmp_path: Path) -> None:
    file = ClockFile(tmp_path / "clock")
    with pytest.raises(FileNotFoundError):
        file.set(1)
    file.path.write_bytes(b"123")
    with pytest.raises(ValueError, match="3 bytes"):
        file.read()


def test_preload_keeps_what_was_preloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    assert preload(Path("/a.so"), Path("/b.so")) == "/a.so:/b.so"
    monkeypatch.setenv("LD_PRELOAD", "/x.so /y.so")
    assert preload(Path("/a.so")) == "/a.so:/x.so:/y.so"


def test_redis_keys_expire_by_the_shifted_clock(
    shims: dict[str, Path], clock: ClockFile, tmp_path: Path
) -> None:
    env = {"LD_PRELOAD": preload(shims["clock-shim"]), CLOCK_VARIABLE: str(clock.path)}
    with redis_under(tmp_path, env) as client:
        client.set("k", "v", px=10_000)
        client.set("stays", "v", px=1_000_000)
        assert client.get("k") == b"v"
        before_s = client.time()[0]
        clock.set(11 * S)
        assert client.get("k") is None
        assert client.get("stays") == b"v"
        assert client.time()[0] - before_s >= 11
        clock.set(0)
        start_ns = time.monotonic_ns()
        left_ms = client.pttl("stays")
        clock.set(-60 * S)
        gained_ms = client.pttl("stays") - left_ms
        elapsed_ms = (time.monotonic_ns() - start_ns) / 10**6
        assert 60_000 - elapsed_ms - 2 <= gained_ms <= 60_002
